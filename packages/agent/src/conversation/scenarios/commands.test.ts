import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import {
  ConversationFixtures,
  contentText,
  createLatch,
  FakeModel,
  type TestConversation,
  waitUntil,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const terminal = { tools: [{ name: 'terminal' }] }
const conflict = { name: 'Problem', code: 'conflict' }
const texts = (player: FakeModel, at: number) =>
  player.requests[at]?.messages.map(({ content }) => contentText(content))

/** The process that wrote its id into a file of the workspace is there. */
async function pidIn(life: TestConversation, file: string): Promise<number> {
  const path = join(life.workspace, file)
  await waitUntil(async () => existsSync(path) && (await readFile(path, 'utf8')).trim() !== '')
  return Number(await readFile(path, 'utf8'))
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('a run whose workspace has become a file says so', async () => {
  const life = await fixtures.create({})
  await rm(life.workspace, { recursive: true, force: true })
  await writeFile(life.workspace, 'x')
  await life.sendAndWait('hello')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toMatchObject([
    {
      code: 'InvalidSettings',
      detail: `The workspace ${life.workspace} is no directory: a file is in its place.`,
    },
  ])
})

test('a message that comes while a tool runs is seen by the next step', async () => {
  const player = new FakeModel([
    { calls: [['terminal', { command: 'until [ -e go ]; do sleep 0.05; done' }]] },
  ])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('first', { run: true })
  await waitUntil(async () => (await life.eventsOfKind('ActionEvent')).length === 1)
  await life.send('second', { run: true })

  await writeFile(join(life.workspace, 'go'), '')
  await life.conversation.waitUntilIdle()
  expect(texts(player, 1)?.at(-1)).toBe('second')
  expect(player.requests).toHaveLength(2)
  expect(life.status).toBe('finished')
})

test('a message that comes during a model call is in the next request, after that reply', async () => {
  const waiting = createLatch()
  const player = new FakeModel([
    { before: () => waiting.opened, text: 'To the first.' },
    { text: 'To the second.' },
  ])
  const life = await fixtures.create({ model: player.open })
  await life.send('first', { run: true })
  await waitUntil(() => player.requests.length === 1)
  await life.send('second')
  waiting.open()
  await life.conversation.waitUntilIdle()
  expect(texts(player, 1)?.slice(1)).toEqual(['first', 'To the first.', 'second'])
  const messages = await life.eventsOfKind('MessageEvent')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.filter(({ key }) => key === 'last_user_message_id').map(({ value }) => value)).toEqual([
    messages[1]?.id,
  ])
  expect(life.status).toBe('finished')
})

test('a message that is sent to run just as the run ends is answered', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  for (let round = 0; round < 25; round++) {
    await life.send(`message ${round}`, { run: true })
    // At another moment of the run each time.
    for (let turns = 0; turns < round * 4; turns++) await undefined
    if (round % 3 === 0) await sleep(1)
  }
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  expect(life.conversation.state.isAwaiting).toBe(false)
  const last = player.requests.at(-1)?.messages.map(({ content }) => contentText(content)) ?? []
  for (let round = 0; round < 25; round++) expect(last).toContain(`message ${round}`)
})

test('a message rejects what waits for confirmation, and the model sees the reason', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'touch x' }],
        ['terminal', { command: 'touch y' }],
      ],
    },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent: terminal,
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
  })
  await life.sendAndWait('go')
  expect(life.status).toBe('waiting_for_confirmation')
  await life.send('no, wait')
  expect(life.status).toBe('idle')
  expect(await life.eventsOfKind('UserRejectObservation')).toMatchObject([
    { rejection_reason: 'Superseded by a new user message', rejection_source: 'user', source: 'environment' },
    { rejection_reason: 'Superseded by a new user message' },
  ])
  expect((await life.eventSummary()).slice(-4)).toEqual([
    'UserRejectObservation',
    'UserRejectObservation',
    'execution_status: idle',
    'MessageEvent user',
  ])
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(texts(player, 1)?.join()).toContain('Superseded by a new user message')
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
})

test('after a pause the result of the tool that runs is written, nothing is begun, and a run does the rest of the batch', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo slow' }],
        ['terminal', { command: 'echo rest' }],
      ],
    },
  ])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  await pidIn(life, 'pid')
  await life.conversation.pause()
  expect(life.status).toBe('paused')

  await writeFile(join(life.workspace, 'go'), '')
  await life.conversation.waitUntilIdle()
  const [first, ...others] = await life.eventsOfKind('ObservationEvent')
  expect(contentText(first?.observation.content)).toContain('slow')
  expect(others).toEqual([])
  expect(life.conversation.state.pending.size).toBe(1)
  expect(player.requests).toHaveLength(1)
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(contentText((await life.eventsOfKind('ObservationEvent'))[1]?.observation.content)).toContain('rest')
  expect(player.requests).toHaveLength(2)
  expect(life.status).toBe('finished')
})

test('after a pause the pending reply is stored and none of its calls starts', async () => {
  const waiting = createLatch()
  const player = new FakeModel([
    { before: () => waiting.opened, calls: [['terminal', { command: 'touch x' }]] },
  ])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  await waitUntil(() => player.requests.length === 1)
  await life.conversation.pause()
  waiting.open()
  await life.conversation.waitUntilIdle()
  expect((await life.eventsOfKind('ActionEvent')).length).toBe(1)
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(existsSync(join(life.workspace, 'x'))).toBe(true)
})

test('a message rejects what a pause has left, so that it is not done before the model has read it', async () => {
  const waiting = createLatch()
  const player = new FakeModel([
    { before: () => waiting.opened, calls: [['terminal', { command: 'touch x' }]] },
  ])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  await waitUntil(() => player.requests.length === 1)
  await life.conversation.pause()
  waiting.open()
  await life.conversation.waitUntilIdle()
  await life.sendAndWait('not that')
  const [rejection] = await life.eventsOfKind('UserRejectObservation')
  expect(rejection?.rejection_reason).toBe('Superseded by a new user message')
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
  expect(life.status).toBe('finished')
})

test('an interrupt ends a model call at once and nothing of its answer is stored', async () => {
  const llm = { model: 'scripted/x', script: [{ delay_ms: 60_000, text: 'Too late.' }, { text: 'In time.' }] }
  const life = await fixtures.create({ agent: { llm }, model: openModel })
  await life.send('go', { run: true })
  await sleep(20)
  const began = Date.now()
  await life.conversation.interrupt()
  expect(Date.now() - began).toBeLessThan(4_000)
  await life.conversation.waitUntilIdle()
  expect((await life.eventSummary()).slice(2)).toEqual([
    'execution_status: running',
    'execution_status: paused',
    'PauseEvent',
  ])
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(contentText((await life.eventsOfKind('MessageEvent')).at(-1)?.llm_message.content)).toBe('In time.')
})

test('a reply after an interrupt is dropped, also when the conversation runs again', async () => {
  const waiting = createLatch()
  const player = new FakeModel()
  let isFirst = true
  const life = await fixtures.create({
    model: (llm, options) => {
      const model = player.open(llm, options)
      return {
        ...model,
        generate: async (request, signal) => {
          if (!isFirst) return await model.generate(request, signal)
          isFirst = false
          await waiting.opened
          return await new FakeModel([{ text: 'From before.' }])
            .open(llm)
            .generate(request, new AbortController().signal)
        },
      }
    },
  })
  await life.send('go', { run: true })
  await waitUntil(() => !isFirst)
  const interrupted = life.conversation.interrupt()
  await waitUntil(() => life.status === 'paused')
  await life.conversation.run()
  waiting.open()
  await interrupted
  await life.conversation.waitUntilIdle()
  const said = (await life.eventsOfKind('MessageEvent')).map(({ llm_message }) =>
    contentText(llm_message.content),
  )
  expect(said).toEqual(['go', 'The end.'])
  // It was paid for all the same.
  expect(life.conversation.stats.cost).toBe(0.5)
})

test('an interrupt ends a command within seconds: its call is answered and its processes are gone', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'sh -c "echo \\$\\$ > pid; exec sleep 60"' }],
        ['think', { thought: 'later' }],
      ],
    },
  ])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  const pid = await pidIn(life, 'pid')
  const began = Date.now()
  await life.conversation.interrupt()
  expect(Date.now() - began).toBeLessThan(8_000)
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ tool_name }) => tool_name)).toEqual(['terminal', 'think'])
  expect(errors[0]?.error).toContain('interrupted before completion')
  expect((await life.eventSummary()).slice(-4)).toEqual([
    'AgentErrorEvent',
    'AgentErrorEvent',
    'execution_status: paused',
    'PauseEvent',
  ])
  await waitUntil(() => !isAlive(pid))
  // The terminal can be used again.
  await life.sendAndWait('and now')
  expect(life.status).toBe('finished')
})

test('an interrupt of a conversation that does not run is a pause', async () => {
  const life = await fixtures.create()
  await life.conversation.interrupt()
  expect(await life.eventSummary()).toEqual(['execution_status: paused', 'PauseEvent'])
  await life.conversation.interrupt()
  expect(await life.eventSummary()).toHaveLength(2)
})

test('accepting twice does the actions once', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'echo x >> file' }]] }])
  const life = await fixtures.create({
    model: player.open,
    agent: terminal,
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
  })
  await life.sendAndWait('go')
  const yes = { accept: true, reason: '' }
  await Promise.all([life.conversation.resolveConfirmation(yes), life.conversation.resolveConfirmation(yes)])
  await life.conversation.waitUntilIdle()
  await life.conversation.resolveConfirmation(yes)
  expect(await readFile(join(life.workspace, 'file'), 'utf8')).toBe('x\n')
  expect(life.status).toBe('finished')
})

test('rejecting twice answers each action once, with the reason, and the conversation is idle', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['terminal', { command: 'echo x' }],
        ['terminal', { command: 'echo y' }],
      ],
    },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent: terminal,
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
  })
  await life.sendAndWait('go')
  const no = { accept: false, reason: 'Not on a Friday.' }
  await Promise.all([life.conversation.resolveConfirmation(no), life.conversation.resolveConfirmation(no)])
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  expect(life.status).toBe('idle')
  const actions = await life.eventsOfKind('ActionEvent')
  expect(await life.eventsOfKind('UserRejectObservation')).toMatchObject(
    actions.map(({ id, tool_call_id }) => ({
      action_id: id,
      tool_call_id,
      rejection_reason: 'Not on a Friday.',
      rejection_source: 'user',
    })),
  )
  expect((await life.eventSummary()).at(-1)).toBe('execution_status: idle')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(texts(player, 1)?.join()).toContain('Not on a Friday.')
})

test('to run what waits for confirmation is to accept it', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'touch x' }]] }])
  const life = await fixtures.create({
    model: player.open,
    agent: terminal,
    request: { confirmation_policy: { kind: 'AlwaysConfirm' } },
  })
  await life.sendAndWait('go')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(existsSync(join(life.workspace, 'x'))).toBe(true)
})

test('running a finished conversation changes nothing and sends no request', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  const before = await life.eventSummary()
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(await life.eventSummary()).toEqual(before)
  expect(player.requests).toHaveLength(1)
})

test('running a conversation without a message leaves it idle', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('idle')
  expect(player.requests).toEqual([])
})

test('to run what is running is a conflict', async () => {
  const waiting = createLatch()
  const life = await fixtures.create({ model: new FakeModel([{ before: () => waiting.opened }]).open })
  await life.send('go', { run: true })
  await expect(life.conversation.run()).rejects.toMatchObject(conflict)
  waiting.open()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
})

test('a message that is sent again under its id is stored once, and another one under that id is a conflict', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  const id = randomUUID()
  await life.send('once', { id, run: true })
  await life.conversation.waitUntilIdle()
  await Promise.all([life.send('once', { id }), life.send('once', { id, run: true })])
  await life.conversation.waitUntilIdle()
  expect(await life.eventsOfKind('MessageEvent')).toHaveLength(2)
  await expect(life.send('twice', { id })).rejects.toMatchObject(conflict)
  await expect(life.send('once', { id, sender: 'eve' })).rejects.toMatchObject(conflict)
  expect(await life.eventsOfKind('MessageEvent')).toHaveLength(2)
  expect(player.requests).toHaveLength(1)
})

test('a message that is sent again under its id without success starts the run that was lost', async () => {
  const player = new FakeModel()
  const life = await fixtures.create({ model: player.open })
  const id = randomUUID()
  await life.send('once', { id })
  await life.send('once', { id, run: true })
  await life.conversation.waitUntilIdle()
  expect(player.requests).toHaveLength(1)
  expect(life.status).toBe('finished')
})

test('a message that repeats an id is the same message also when a secret in it is known since', async () => {
  const life = await fixtures.create()
  const id = randomUUID()
  await life.send('the password is hunter22', { id })
  await life.conversation.addSecrets({
    PASSWORD: { kind: 'StaticSecret', value: 'hunter22', description: undefined },
  })
  await life.send('the password is hunter22', { id })
  expect(await life.eventsOfKind('MessageEvent')).toHaveLength(1)
})

test('nothing can be asked of a conversation that is being deleted', async () => {
  const life = await fixtures.create()
  await life.send('hello')
  await fixtures.storage.conversations.remove(life.id)
  await expect(life.send('still there?')).rejects.toMatchObject({ code: 'not_found' })
  await life.conversation.close({ isDeleted: true })
})

test('closing ends what runs: the processes are gone, each call is answered, and the next opening finds it paused', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'echo $$ > pid; sleep 60' }]] }])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  const pid = await pidIn(life, 'pid')
  await life.reopen()
  expect(life.status).toBe('paused')
  expect((await life.eventsOfKind('AgentErrorEvent'))[0]?.error).toContain('restart')
  await waitUntil(() => !isAlive(pid))
})

test('each run waits for its run slot and releases it', async () => {
  const turn = createLatch()
  let given = 0
  let back = 0
  const player = new FakeModel()
  const life = await fixtures.create({
    model: player.open,
    deps: {
      runSlots: {
        isQueued: true,
        tryAcquire: () => undefined,
        acquire: async () => {
          await turn.opened
          given++
          return () => {
            back++
          }
        },
      },
    },
  })
  await life.send('go', { run: true })
  await sleep(20)
  expect(player.requests).toEqual([])
  turn.open()
  await life.conversation.waitUntilIdle()
  expect(
    (await life.eventsOfKind('ConversationStateUpdateEvent')).map(({ key, value }) => [key, value]),
  ).toEqual(
    expect.arrayContaining([
      ['run_queued', true],
      ['run_queued', false],
    ]),
  )
  expect([given, back, player.requests.length]).toEqual([1, 1, 1])
})

test('an interrupt ends the waiting for a turn', async () => {
  const life = await fixtures.create({
    deps: {
      runSlots: {
        isQueued: true,
        tryAcquire: () => undefined,
        acquire: (signal) =>
          new Promise((resolve) => signal.addEventListener('abort', () => resolve(() => undefined))),
      },
    },
  })
  await life.send('go', { run: true })
  const began = Date.now()
  await life.conversation.interrupt()
  await life.conversation.waitUntilIdle()
  expect(Date.now() - began).toBeLessThan(4_000)
  expect(life.status).toBe('paused')
})

test('deleting a conversation during a run ends its processes and its requests', async () => {
  for (const order of ['removed first', 'closed first']) {
    const player = new FakeModel([{ calls: [['terminal', { command: 'echo $$ > pid; sleep 60' }]] }])
    const life = await fixtures.create({ model: player.open, agent: terminal })
    await life.send('go', { run: true })
    const pid = await pidIn(life, 'pid')
    if (order === 'removed first') await fixtures.storage.conversations.remove(life.id)
    await life.conversation.close({ isDeleted: true })
    if (order === 'closed first') await fixtures.storage.conversations.remove(life.id)
    await life.conversation.waitUntilIdle()
    await waitUntil(() => !isAlive(pid))
    expect(player.requests).toHaveLength(1)
  }
})

test('a conversation that is deleted while the model answers ends', async () => {
  const waiting = createLatch()
  const player = new FakeModel([{ before: () => waiting.opened }])
  const life = await fixtures.create({ model: player.open, agent: terminal })
  await life.send('go', { run: true })
  await waitUntil(() => player.requests.length === 1)
  await fixtures.storage.conversations.remove(life.id)
  const closed = life.conversation.close({ isDeleted: true })
  waiting.open()
  await closed
  await life.conversation.waitUntilIdle()
  expect(player.requests).toHaveLength(1)
})

test('an interrupt ends a hook that hangs', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'touch x' }]] }])
  const life = await fixtures.create({
    model: player.open,
    agent: terminal,
    request: { hook_config: { pre_tool_use: [{ hooks: [{ command: 'echo $$ > pid; exec sleep 60' }] }] } },
  })
  await life.send('go', { run: true })
  const pid = await pidIn(life, 'pid')
  await life.conversation.interrupt()
  await life.conversation.waitUntilIdle()
  expect(await life.eventsOfKind('AgentErrorEvent')).toHaveLength(1)
  expect(life.status).toBe('paused')
  await waitUntil(() => !isAlive(pid))
  expect(existsSync(join(life.workspace, 'x'))).toBe(false)
})
