import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scriptedCommand } from '../../../packages/agent/src/acp/testing/scripted-command.ts'
import { eventLabel } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'

/** A program that is never started: nothing runs here. */
const agent = {
  kind: 'ACPAgent',
  acp_command: ['/nothing/there'],
  acp_args: ['--flag'],
  tools: [],
  acp_server: 'custom',
  acp_model: 'small',
  acp_resume_session_id: 'canary-session-1',
  mcp_config: { tools: { command: 'true', env: { KEY: 'canary-mcp-1' } } },
}

test('a conversation of an external agent is created, read, listed, forked, exported and kept', async () => {
  await using server = await OwnAgentServer.open()
  const secrets = { API_KEY: { value: 'canary-secret-1' } }
  const { id } = await server.driver.create(agent, { secrets, tags: { team: 'a' } })
  const shown = {
    agent: {
      kind: 'ACPAgent',
      acp_command: ['/nothing/there'],
      acp_args: ['--flag'],
      acp_server: 'custom',
      acp_model: 'small',
      acp_prompt_timeout: 1800,
      acp_startup_timeout: 90,
      acp_resume_session_id: null,
      tools: [],
      include_default_tools: [],
      llm: { model: 'small', usage_id: 'acp-managed' },
    },
    current_model_id: 'small',
    available_models: [],
    supports_runtime_model_switch: false,
    agent_state: {},
  }
  expect(await server.driver.getInfo(id)).toMatchObject(shown)
  const list = await server.api.requestJson<{ items: object[] }>('/api/conversations/search?tag=team')
  expect(list.body.items).toMatchObject([shown])

  expect((await server.driver.post(id, 'switch_acp_model', { model: 'large' })).status).toBe(200)
  const large = {
    agent: { acp_model: 'large', llm: { model: 'large', usage_id: 'acp-managed' } },
    current_model_id: 'large',
    agent_state: { acp_current_model_id: 'large' },
  }
  expect(await server.driver.getInfo(id)).toMatchObject(large)
  const fork = await server.driver.post(id, 'fork', {})
  expect(fork).toMatchObject({ status: 201, body: large })
  await server.restart()
  expect(await server.driver.getInfo(id)).toMatchObject(large)
  expect((await server.driver.post(id, 'switch_acp_model', { model: 'other' })).status).toBe(200)

  const texts = [
    JSON.stringify(await server.driver.getInfo(id)),
    (await server.api.export(id)).toString(),
    server.output(),
  ]
  for (const text of texts) expect(text).not.toContain('canary')
})

test('requests that need a model of the server are refused', async () => {
  await using server = await OwnAgentServer.open({ isInProcess: true })
  const { id } = await server.driver.create(agent)
  for (const [verb, body, text] of [
    ['switch_llm', { llm: { model: 'openai/m' } }, 'switch_llm'],
    ['ask_agent', { question: 'Why?' }, 'ask_agent'],
    ['goal', { objective: 'x' }, 'goal'],
    ['switch_acp_model', { model: ' ' }, 'model must be a non-empty string'],
  ] as const)
    expect(await server.driver.post(id, verb, body)).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining(text) },
    })
  expect((await server.driver.post(id, 'condense')).status).toBe(409)
  const { body } = await server.driver.post(id, 'generate_title', {})
  expect(body).toEqual({ title: '' })
})

const started = (toolCallId: string) => ({
  update: { sessionUpdate: 'tool_call', toolCallId, title: 'Work', kind: 'execute', status: 'in_progress' },
})
const begin = { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }

function external(script: object, more: object = {}): object {
  return { kind: 'ACPAgent', tools: [], acp_command: scriptedCommand(script), ...more }
}

const isCall = ({ kind }: ApiEvent) => kind === 'ACPToolCallEvent'

test('after a kill of the server the program is gone, its calls end once, and the session continues', async () => {
  await using server = await OwnAgentServer.open()
  const sessions = join(server.directory, 'sessions.json')
  const pidFile = join(server.directory, 'pids')
  const script = {
    turns: [[{ text: 'I start.' }, started('a'), { hang: true }], [{ text: 'Continued.' }]],
    sessions,
    pidFile,
    // It does not notice that its reader is gone.
    ignoresEnd: true,
  }
  const { id } = await server.driver.create(external(script), begin)
  await server.driver.waitForEvent(id, isCall)
  const pids = await findPids(pidFile)
  expect(pids).not.toEqual([])
  await server.restart('SIGKILL')
  await server.driver.waitForEvent(id, (event) => eventLabel(event) === 'execution_status=finished')
  for (const pid of pids) expect(await isAlive(pid)).toBe(false)
  const events = await server.driver.getEvents(id)
  expect(events.filter(isCall).map(({ status }) => status)).toEqual(['in_progress', 'failed'])
  const answers = events.filter(({ kind, source }) => kind === 'MessageEvent' && source === 'agent')
  expect(answers.map(({ llm_message }) => llm_message)).toMatchObject([{ content: [{ text: 'Continued.' }] }])
  expect(new Set(events.map((event) => event.id)).size).toBe(events.length)
  // An orderly end, unlike the disposal, ends the second program too.
  const laterPids = await findPids(pidFile)
  await server.stop()
  for (const pid of laterPids) expect(await isAlive(pid)).toBe(false)
})

test('events of external agents are searched, imported, and of a fork ended', async () => {
  await using server = await OwnAgentServer.open({ isInProcess: true })
  const script = { turns: [[started('a'), { text: 'Done.' }]] }
  const { id } = await server.driver.create(external(script), begin)
  const events = await server.driver.waitForEvent(
    id,
    (event) => eventLabel(event) === 'execution_status=finished',
  )
  const search = await server.api.requestJson<{ items: ApiEvent[] }>(
    `/api/conversations/${id}/events/search?kind=ACPToolCallEvent`,
  )
  expect(search.body.items.map(({ status }) => status)).toEqual(['in_progress', 'completed'])
  const [call] = events.filter(isCall)
  const fork = await server.driver.post(id, 'fork', { from_event_id: call?.id })
  expect(fork.body).toMatchObject({
    agent_state: expect.not.objectContaining({ acp_session_id: expect.anything() }),
  })
  const { id: forkId } = fork.body as { id: string }
  const calls = (await server.driver.getEvents(forkId)).filter(isCall)
  expect(calls.map(({ status }) => status)).toEqual(['in_progress', 'failed'])
  const text = (await server.api.export(id)).toString()
  const imported = await server.driver.getEvents(await server.api.import(text, '?unknown=keep'))
  expect(imported.filter(isCall)).toEqual(events.filter(isCall))
})

test('an external agent sees no key of the server, and ends with it', async () => {
  await using server = await OwnAgentServer.open({
    env: { SLIPWAY_SECRET_KEY: 'canary-key-of-the-server-000000' },
  })
  const pidFile = join(server.directory, 'pids')
  const script = { turns: [[{ variable: 'SLIPWAY_SECRET_KEY' }], [{ hang: true }]], pidFile }
  const { id } = await server.driver.create(external(script), begin)
  await server.driver.waitForEvent(id, (event) => eventLabel(event) === 'execution_status=finished')
  const texts = JSON.stringify(await server.driver.getEvents(id))
  expect(texts).toContain('undefined')
  expect(texts).not.toContain('canary')
  const pids = await findPids(pidFile)
  await server.stop()
  for (const pid of pids) expect(await isAlive(pid)).toBe(false)
})

test('an external agent is asked for its models before a conversation, with secrets that are not shown', async () => {
  await using server = await OwnAgentServer.open({ isInProcess: true })
  const ask = async (script: object, more: object = {}) => {
    const acp_command = scriptedCommand(script)
    const agent_settings = { agent_kind: 'acp', acp_server: 'custom', acp_command, ...more }
    const secrets = { KEY: 'canary-secret-1' }
    const { status, body } = await server.api.sendJson('POST', '/api/acp/models', { agent_settings, secrets })
    expect(status).toBe(200)
    return body
  }
  expect(await ask({ models: ['small', 'large'] })).toEqual({
    available_models: [
      { model_id: 'small', name: 'SMALL', description: null },
      { model_id: 'large', name: 'LARGE', description: null },
    ],
    current_model_id: 'small',
    error: null,
  })
  expect(await ask({ failsInitialize: 'The key canary-secret-1 is wrong' })).toEqual({
    available_models: [],
    current_model_id: null,
    error: { code: 'ACPInitError', detail: expect.stringContaining('<secret-hidden>') },
  })
  expect(await ask({ hangsInitialize: true }, { acp_startup_timeout: 0.5 })).toMatchObject({
    error: { code: 'ACPInitError', detail: expect.stringContaining('acp_startup_timeout') },
  })
  expect(await ask({ requiresAuth: true })).toMatchObject({ error: { code: 'ACPAuthRequired' } })
  const other = { agent_settings: { agent_kind: 'openhands' } }
  expect((await server.api.sendJson('POST', '/api/acp/models', other)).status).toBe(422)
})

/** Programs whose command line contains a mark: their own process ids may count from 1. */
async function findPids(mark: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const isMarked = await Promise.all(
    pids.map((pid) =>
      readFile(`/proc/${pid}/cmdline`, 'latin1').then(
        (line) => line.includes(mark),
        () => false,
      ),
    ),
  )
  return pids.filter((_, at) => isMarked[at])
}

/** False for a zombie too. */
async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat !== undefined && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
}
