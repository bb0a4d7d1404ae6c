import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
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

test('of creations at once those above the limit leave nothing, and run when they are repeated', async () => {
  await start({ SLIPWAY_MAX_CONCURRENT_RUNS: '2' })
  const create = async (conversation_id: string) =>
    await driver.api.fetch('/api/conversations', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        agent: { llm: scriptedModel([bashStep('sleep 600'), finishStep()]), tools: [{ name: 'terminal' }] },
        workspace: { working_dir: join(directory, conversation_id) },
        initial_message: { content: begin },
        autotitle: false,
        conversation_id,
      }),
    })
  const ids = Array.from({ length: 8 }, () => randomUUID())
  const responses = await Promise.all(ids.map(create))
  const refused = ids.filter((_, at) => responses[at]?.status === 429)
  expect(refused).toHaveLength(6)
  const seconds = responses
    .filter(({ status }) => status === 429)
    .map((one) => one.headers.get('retry-after'))
  expect(new Set(seconds)).toEqual(new Set(['1']))
  for (const id of refused) {
    expect((await driver.api.requestJson(`/api/conversations/${id}`)).status).toBe(404)
    expect(existsSync(join(directory, id))).toBe(false)
  }

  const admitted = ids.filter((id) => !refused.includes(id))
  for (const id of admitted) {
    await driver.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
    const before = await driver.getEvents(id)
    expect((await create(id)).status).toBe(200)
    expect(await driver.getEvents(id)).toEqual(before)
    await driver.post(id, 'interrupt')
    await driver.waitUntilIdle(id)
  }
  const [again] = refused
  if (again === undefined) throw new Error('none was refused')
  await vi.waitFor(async () => expect((await create(again)).status).toBe(201), patience)
  await driver.waitForEvent(again, ({ kind }) => kind === 'ActionEvent')
})

test('a refused message that is repeated under its key runs, whatever the status was, and once', async () => {
  await start()
  const { busy, conversations } = await occupySlot({})
  const id = String(conversations[0]?.id)
  await driver.post(id, 'pause')
  expect(await statusOf(id)).toBe('paused')
  const send = () =>
    driver.api.fetch(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'k' },
      body: JSON.stringify({ content: begin, run: true }),
    })
  const refusal = await send()
  expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([429, '1'])
  await driver.post(busy.id, 'interrupt')
  await driver.waitUntilIdle(busy.id)
  await vi.waitFor(async () => expect((await send()).status).toBe(200), patience)
  const events = await driver.waitUntilIdle(id)
  expect(await statusOf(id)).toBe('finished')
  expect(events.filter(({ source, kind }) => kind === 'MessageEvent' && source === 'user')).toHaveLength(1)

  // Its run is over: a repeat needs no slot.
  await driver.createScripted([bashStep('sleep 600'), finishStep()])
  expect((await send()).status).toBe(200)
  expect(await driver.getEvents(id)).toEqual(events)
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
