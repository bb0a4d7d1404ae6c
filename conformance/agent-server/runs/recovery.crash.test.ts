import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type AgentDriver,
  bashStep,
  collectTexts,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import type { AgentServerApi, ApiEvent } from '../../support/agent-server-api.ts'
import { MockProvider } from '../../support/mock-provider.ts'

let server: OwnAgentServer
let driver: AgentDriver
let api: AgentServerApi
beforeEach(async () => {
  server = await OwnAgentServer.open()
  ;({ api, driver } = server)
})
afterEach(async () => await server[Symbol.asyncDispose]())

async function restart(signal: NodeJS.Signals, env: Readonly<Record<string, string>> = {}): Promise<void> {
  await server.restart(signal, env)
  ;({ api, driver } = server)
}

const hasLabel = (what: string) => (event: ApiEvent) => eventLabel(event) === what

/** Command lines of the processes whose name is the mark. */
async function findProcesses(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
  )
  return lines.filter((line) => line.startsWith(mark))
}

/** The same, after some time for stopping processes to end. */
async function waitForProcessesToEnd(mark: string): Promise<string[]> {
  for (let attempt = 0; ; attempt++) {
    const found = await findProcesses(mark)
    if (found.length === 0 || attempt === 100) return found
    await sleep(50)
  }
}

/** A call that lasts, and what follows it; waits until the call runs. */
async function startLongCall(mark: string): Promise<string> {
  const { id } = await driver.createScripted([
    bashStep('echo before'),
    toolCallsStep(
      toolCall('terminal', { command: `(exec -a ${mark} sleep 300)` }),
      toolCall('terminal', { command: 'echo second' }),
    ),
    bashStep('echo after'),
    finishStep(),
  ])
  await driver.waitForEvent(id, (event) => collectTexts(event).includes(mark))
  await expect.poll(() => findProcesses(mark), { timeout: 20_000 }).not.toEqual([])
  return id
}

const restOfRun = [
  'ActionEvent:terminal',
  'result:terminal',
  'ActionEvent:finish',
  'result:finish',
  'execution_status=finished',
]

test('SIGKILL during a tool: its call is answered once, and the run continues to its end', async () => {
  const mark = `slipway-crash-${randomUUID()}`
  const id = await startLongCall(mark)
  const before = await driver.getEvents(id)
  await restart('SIGKILL', { SLIPWAY_LOG_LEVEL: 'info' })
  // The shell's terminal closed with the server, and its processes ended with it.
  expect(await waitForProcessesToEnd(mark)).toEqual([])
  const ended = await driver.waitUntilIdle(id)
  expect(ended.slice(0, before.length)).toEqual(before)
  expect(ended.map(eventLabel).slice(before.length)).toEqual([
    'AgentErrorEvent:terminal',
    'AgentErrorEvent:terminal',
    'run_recovery=1',
    ...restOfRun,
  ])
  expect(ended[before.length]?.error).toMatch(/interrupted by a restart/)
  expect(findLogIssues(ended)).toEqual([])
  expect(server.output()).toContain('a run that was cut is continued')
})

test('SIGTERM during a tool: its call is answered once, the conversation is paused, and run continues to the end', async () => {
  const mark = `slipway-crash-${randomUUID()}`
  const id = await startLongCall(mark)
  await restart('SIGTERM')
  expect(await waitForProcessesToEnd(mark)).toEqual([])
  expect((await driver.getInfo(id)).execution_status).toBe('paused')
  const events = await driver.getEvents(id)
  expect(events.map(eventLabel).slice(-3)).toEqual([
    'AgentErrorEvent:terminal',
    'AgentErrorEvent:terminal',
    'execution_status=paused',
  ])
  expect((await driver.post(id, 'run')).status).toBe(200)
  const ended = await driver.waitUntilIdle(id)
  expect(ended.slice(0, events.length)).toEqual(events)
  expect(ended.map(eventLabel).slice(events.length)).toEqual(['execution_status=running', ...restOfRun])
  expect(findLogIssues(ended)).toEqual([])
})

test('without recoveries a run that was cut is an error, and run continues it', async () => {
  const mark = `slipway-crash-${randomUUID()}`
  const id = await startLongCall(mark)
  await restart('SIGKILL', { SLIPWAY_MAX_RUN_RECOVERIES: '0' })
  expect((await driver.getInfo(id)).execution_status).toBe('error')
  const events = await driver.getEvents(id)
  expect(events.map(eventLabel).slice(-4)).toEqual([
    'AgentErrorEvent:terminal',
    'AgentErrorEvent:terminal',
    'execution_status=error',
    'ConversationErrorEvent:RunCutByRestart',
  ])
  expect((await driver.post(id, 'run')).status).toBe(200)
  const ended = await driver.waitUntilIdle(id)
  expect(ended.map(eventLabel).slice(events.length)).toEqual(['execution_status=running', ...restOfRun])
  expect(findLogIssues(ended)).toEqual([])
})

test('a run whose server dies again and again is continued three times, another run again', {
  timeout: 120_000,
}, async () => {
  const { id } = await driver.createScripted(
    Array.from({ length: 20 }, (_, n) => bashStep(`echo call ${n}; sleep 300`)),
  )
  const waitForCall = async (count: number) => {
    const isCall = ({ kind }: ApiEvent) => kind === 'ActionEvent'
    await expect
      .poll(async () => (await driver.getEvents(id)).filter(isCall).length, { timeout: 30_000 })
      .toBe(count)
  }
  for (const attempt of [1, 2, 3]) {
    await waitForCall(attempt)
    await restart('SIGKILL')
    await driver.waitForEvent(id, ({ key, value }) => key === 'run_recovery' && value === attempt)
  }
  await waitForCall(4)
  await restart('SIGKILL')
  expect((await driver.getInfo(id)).execution_status).toBe('error')
  const events = await driver.getEvents(id)
  expect(events.map(eventLabel).at(-1)).toBe('ConversationErrorEvent:RunCutByRestart')
  await driver.post(id, 'run')
  await waitForCall(5)
  await restart('SIGKILL')
  await waitForCall(6)
  const recoveries = (await driver.getEvents(id)).filter(({ key }) => key === 'run_recovery')
  expect(recoveries.map(({ value }) => value)).toEqual([1, 2, 3, 1])
})

test('processes that a killed server left running are ended before the next one answers', async () => {
  const mark = `slipway-leftover-${randomUUID()}`
  const { id } = await driver.createScripted([
    bashStep(`trap '' HUP; (setsid bash -c 'exec -a ${mark} sleep 300' &) ; exec -a ${mark} sleep 300`),
    finishStep(),
  ])
  // A terminal that was opened later, and ignores that the server hangs up.
  const later = await driver.createScripted([
    bashStep(`trap '' HUP; exec -a ${mark} sleep 300`),
    finishStep(),
  ])
  for (const each of [id, later.id])
    await driver.waitForEvent(each, (event) => collectTexts(event).includes(mark))
  await expect.poll(async () => (await findProcesses(mark)).length, { timeout: 10_000 }).toBe(3)
  await restart('SIGKILL')
  expect(await findProcesses(mark)).toEqual([])
})

test.each(['SIGKILL', 'SIGTERM'] as const)(
  '%s during a model call: nothing of it is stored, and the model is called again',
  async (signal) => {
    await using far = await MockProvider.open()
    far.replies = [
      { calls: [{ name: 'terminal', arguments: { command: 'echo one' } }] },
      (response) => response.on('close', () => {}),
      { calls: [{ name: 'finish', arguments: { message: 'After the restart.' } }] },
    ]
    const { id } = await driver.create(
      { llm: far.llm('compatible') },
      { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
    )
    while (far.requests.length < 2) await sleep(20)
    await restart(signal)
    if (signal === 'SIGTERM') {
      const events = await driver.getEvents(id)
      expect(events.map(eventLabel).slice(-2)).toEqual(['result:terminal', 'execution_status=paused'])
      await driver.post(id, 'run')
    }
    const ended = await driver.waitUntilIdle(id)
    expect(ended.at(-1)).toMatchObject({ value: 'finished' })
    expect(far.requests).toHaveLength(3)
    // The key was sealed and is restored.
    expect(far.requests[2]?.headers.authorization).toBe('Bearer sk-far')
    expect(findLogIssues(ended)).toEqual([])
  },
)

test('a pending confirmation is still pending after a kill, and can be answered', async () => {
  const begin = {
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    confirmation_policy: { kind: 'AlwaysConfirm' },
  }
  const script = [
    toolCallsStep(toolCall('terminal', { command: 'echo a' }), toolCall('terminal', { command: 'echo b' })),
    finishStep(),
  ]
  const accepted = await driver.create({ llm: scriptedModel(script) }, begin)
  const rejected = await driver.create({ llm: scriptedModel(script) }, begin)
  for (const { id } of [accepted, rejected]) await driver.waitUntilIdle(id)
  await restart('SIGKILL')
  for (const { id } of [accepted, rejected]) {
    expect((await driver.getInfo(id)).execution_status).toBe('waiting_for_confirmation')
    expect(findLogIssues(await driver.getEvents(id), { mayWait: true })).toEqual([])
  }
  await driver.post(accepted.id, 'events/respond_to_confirmation', { accept: true })
  const events = await driver.waitUntilIdle(accepted.id)
  expect(events.filter(hasLabel('result:terminal'))).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  await driver.post(rejected.id, 'events/respond_to_confirmation', { accept: false })
  const other = await driver.waitUntilIdle(rejected.id)
  expect(other.filter(hasLabel('UserRejectObservation:terminal'))).toHaveLength(2)
  expect(other.at(-1)).toMatchObject({ value: 'idle' })
})

test('the deadline of a confirmation continues over a kill', async () => {
  const { id } = await driver.createScripted([bashStep('echo a'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds: 2 },
  })
  await driver.waitUntilIdle(id)
  await restart('SIGKILL')
  const events = await driver.waitForEvent(id, ({ kind }) => kind === 'UserRejectObservation')
  expect(findLogIssues(events)).toEqual([])
})

test('changes during a conversation survive a kill: policy, model, secrets, title', async () => {
  const secret = `value-${randomUUID()}`
  const { id } = await driver.createScripted(['One.'])
  await driver.waitUntilIdle(id)
  await driver.post(id, 'confirmation_policy', { policy: { kind: 'AlwaysConfirm' } })
  await driver.post(id, 'secrets', { secrets: { TOKEN: secret } })
  const llm = scriptedModel(['x', bashStep('printf %s "$TOKEN" | wc -c; echo "$TOKEN"'), finishStep()], {
    usage_id: 'second',
  })
  await driver.post(id, 'switch_llm', { llm })
  await api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Stored' })
  await restart('SIGKILL')
  expect(await driver.getInfo(id)).toMatchObject({
    title: 'Stored',
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await driver.sendMessage(id, 'More.')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'waiting_for_confirmation' })
  await driver.post(id, 'run')
  const events = await driver.waitUntilIdle(id)
  const result = collectTexts(events.find(hasLabel('result:terminal')))
  expect([result.includes(`${secret.length}\n`), result.includes('<secret-hidden>')]).toEqual([true, true])
  expect(JSON.stringify(events)).not.toContain(secret)
})

test('with another key the secrets are unreadable, and the conversation continues without them', async () => {
  await restart('SIGTERM', { SLIPWAY_SECRET_KEY: 'one key for the secrets' })
  const mcp_config = {
    off: { url: 'http://127.0.0.1:9/?token=t0', headers: { Authorization: 'Bearer t1' }, disabled: true },
  }
  const agent = {
    llm: scriptedModel([finishStep(), finishStep()]),
    mcp_config,
    agent_context: { secrets: { A: 'value-of-a-1' } },
  }
  const { id } = await driver.create(agent, {
    secrets: { B: 'value-of-b-1' },
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
  })
  await driver.waitUntilIdle(id)
  await restart('SIGTERM', { SLIPWAY_SECRET_KEY: 'another key than before' })
  expect((await driver.sendMessage(id, 'Continue.')).status).toBe(200)
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
  expect((await driver.post(id, 'fork')).status).toBe(201)
})

test('a fork that is killed is complete or absent', { timeout: 60_000 }, async () => {
  const line = (n: number) =>
    JSON.stringify({
      id: `e${n}`,
      timestamp: '2026-01-01T00:00:00Z',
      source: 'user',
      llm_message: { role: 'user', content: [{ type: 'text', text: `message ${n} ${'x'.repeat(500)}` }] },
      kind: 'MessageEvent',
    })
  const source = await api.import(Array.from({ length: 20_000 }, (_, n) => `${line(n)}\n`).join(''))
  const ids = Array.from({ length: 3 }, () => randomUUID())
  for (const [round, id] of ids.entries()) {
    const fork = driver.post(source, 'fork', { id }).then(
      ({ status }) => status,
      () => 0,
    )
    await sleep(30 + round * 150)
    await restart('SIGKILL')
    const reported = await fork
    const { status, body } = await api.requestJson<number>(`/api/conversations/${id}/events/count`)
    if (reported === 201 || status !== 404) expect([round, status, body]).toEqual([round, 200, 20_000])
  }
})

test('SIGKILL after a pause during a tool: the call is answered once and not done again', async () => {
  const mark = `slipway-crash-${randomUUID()}`
  const id = await startLongCall(mark)
  await api.sendJson('POST', `/api/conversations/${id}/pause`, {})
  await driver.waitForEvent(id, hasLabel('execution_status=paused'))
  await restart('SIGKILL')
  expect((await driver.getInfo(id)).execution_status).toBe('paused')
  await api.sendJson('POST', `/api/conversations/${id}/run`, {})
  const ended = await driver.waitUntilIdle(id)
  const errors = ended.filter(hasLabel('AgentErrorEvent:terminal'))
  expect(errors.map(collectTexts).join()).toMatch(/was paused.*may have been done in part/s)
  expect(errors).toHaveLength(2)
  expect(findLogIssues(ended)).toEqual([])
  expect(ended.map(eventLabel).slice(-restOfRun.length)).toEqual(restOfRun)
  expect(await findProcesses(mark)).toEqual([])
})
