import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AgentDriver, bashStep, finishStep, scriptedModel } from '../../support/agent-driver.ts'
import type { StartedServer } from '../../support/agent-server.ts'
import { AgentServerApi } from '../../support/agent-server-api.ts'
import { openServerInProcess } from '../../support/server-in-process.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 })
const patience = { timeout: 60_000 }

let directory: string
let server: StartedServer | undefined
let driver: AgentDriver

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-run-limit-'))
})

afterEach(async () => {
  await server?.stop()
  server = undefined
  await rm(directory, { recursive: true, force: true })
})

async function start(env: Readonly<Record<string, string>> = {}): Promise<void> {
  server = await openServerInProcess(join(directory, 'data'), { SLIPWAY_MAX_CONCURRENT_RUNS: '1', ...env })
  driver = new AgentDriver({ api: new AgentServerApi({ url: server.url, headers: {} }), directory })
}

const begin = [{ type: 'text', text: 'Begin.' }]
const limitText = 'Conversation run limit reached. Retry the request later.'

/** Idle conversations, made while a slot is free, and one whose run holds the only slot until interrupted. */
async function occupySlot(...idle: readonly object[]) {
  const conversations = await Promise.all(
    idle.map((more) =>
      driver.create({ llm: scriptedModel([bashStep('echo x'), finishStep('Done.')]) }, { ...more }),
    ),
  )
  const busy = await driver.createScripted([bashStep('sleep 600'), finishStep()])
  await driver.waitForEvent(busy.id, ({ kind }) => kind === 'ActionEvent')
  return { busy, conversations }
}

async function statusOf(id: string): Promise<string> {
  return (await driver.getInfo(id)).execution_status
}

test('a request to run above the limit is refused, its message is stored, and nothing waits', async () => {
  await start()
  const { busy, conversations } = await occupySlot({}, {})
  const [one, other] = conversations.map(({ id }) => id)
  if (one === undefined || other === undefined) throw new Error('no conversations')
  expect(await driver.sendMessage(one, begin)).toMatchObject({
    status: 429,
    body: { detail: expect.stringMatching(/^Message saved, but the conversation run limit was reached/) },
  })
  expect(await driver.post(one, 'run')).toMatchObject({ status: 429, body: { detail: limitText } })
  expect(await driver.post(one, 'goal', { objective: 'x' })).toMatchObject({ status: 429 })
  const kinds = (await driver.getEvents(one)).map(({ kind }) => kind)
  expect(kinds.filter((kind) => kind === 'MessageEvent')).toHaveLength(1)
  expect(await statusOf(one)).toBe('idle')

  await using socket = driver.openSocket(`/sockets/events/${other}`)
  await socket.waitUntil((events) => events.length > 0)
  socket.socket.send(JSON.stringify({ role: 'user', content: begin }))
  const events = await socket.waitUntil((all) => all.some(({ kind }) => kind === 'ConversationErrorEvent'))
  expect(events.find(({ kind }) => kind === 'ConversationErrorEvent')).toMatchObject({
    code: 'ConversationRunLimitExceeded',
    detail: expect.stringMatching(/^Message saved/),
  })
  expect((await driver.getEvents(other)).map(({ kind }) => kind)).toContain('MessageEvent')

  const conversation_id = randomUUID()
  const refused = await driver.tryCreate({ llm: scriptedModel([finishStep()]) }, { conversation_id })
  expect([refused.status, refused.body]).toEqual([429, { detail: limitText }])
  expect((await driver.api.requestJson(`/api/conversations/${conversation_id}`)).status).toBe(404)

  // A message to the running conversation joins its run.
  expect((await driver.sendMessage(busy.id, begin)).status).toBe(200)
  await driver.post(busy.id, 'interrupt')
  await vi.waitFor(async () => expect((await driver.post(one, 'run')).status).toBe(200), patience)
  await driver.waitUntilIdle(one)
  expect(await statusOf(one)).toBe('finished')
})

test('a confirmation needs a slot, and the action stays pending without one; a rejection needs none', async () => {
  await start()
  const waiting = await driver.createScripted([bashStep('echo x'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await driver.waitForEvent(waiting.id, ({ value }) => value === 'waiting_for_confirmation')
  await driver.waitUntilIdle(waiting.id)
  await vi.waitFor(async () => {
    await occupySlot()
  }, patience)
  const accepted = await driver.post(waiting.id, 'events/respond_to_confirmation', { accept: true })
  expect(accepted).toMatchObject({ status: 429, body: { detail: expect.stringContaining('run limit') } })
  expect(await statusOf(waiting.id)).toBe('waiting_for_confirmation')
  expect((await driver.post(waiting.id, 'events/respond_to_confirmation', { accept: false })).status).toBe(
    200,
  )
  expect(await statusOf(waiting.id)).toBe('idle')
})

test('with a queue a run waits for its turn, and the state says so', async () => {
  await start({ SLIPWAY_QUEUE_RUNS: '1' })
  const { busy, conversations } = await occupySlot({})
  const id = String(conversations[0]?.id)
  expect((await driver.sendMessage(id, begin)).status).toBe(200)
  await driver.waitForEvent(id, ({ key, value }) => key === 'run_queued' && value === true)
  expect(await driver.getInfo(id)).toMatchObject({
    execution_status: 'running',
    agent_state: { run_queued: true },
  })
  await driver.post(busy.id, 'interrupt')
  const events = await driver.waitUntilIdle(id)
  expect(events.filter(({ key }) => key === 'run_queued').map(({ value }) => value)).toEqual([true, false])
  expect(await driver.getInfo(id)).toMatchObject({ execution_status: 'finished', agent_state: {} })
})

test('an initial message that asks for no run is only stored', async () => {
  await start()
  const llm = scriptedModel([finishStep('Done.')])
  const stored = await driver.create({ llm }, { initial_message: { content: begin, run: false } })
  expect(stored.execution_status).toBe('idle')
  expect(await driver.waitUntilIdle(stored.id)).toMatchObject([
    { kind: 'SystemPromptEvent' },
    { kind: 'MessageEvent', source: 'user' },
  ])
  expect((await driver.post(stored.id, 'run')).status).toBe(200)
  await driver.waitUntilIdle(stored.id)
  expect(await statusOf(stored.id)).toBe('finished')
})
