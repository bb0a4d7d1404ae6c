import { access, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AgentScript, ScriptStep } from '../../acp/testing/scripted-agent.ts'
import { scriptedCommand } from '../../acp/testing/scripted-command.ts'
import { ConversationFixtures, FakeModel, type TestConversation, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
const model = new FakeModel()
let scripts = 0

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  // No model of the server was asked.
  expect(model.requests).toEqual([])
  await fixtures[Symbol.asyncDispose]()
})

interface Options {
  readonly agent?: object
  readonly request?: Readonly<Record<string, unknown>>
  readonly environment?: Readonly<Record<string, string>>
}

/** A conversation of an external agent that plays these turns; `received` is what the program was sent. */
async function create(script: AgentScript, { agent, request, environment }: Options = {}) {
  const log = join(fixtures.directory, `received-${scripts++}`)
  const conversation = await fixtures.create({
    agent: {
      kind: 'ACPAgent',
      llm: undefined,
      acp_command: scriptedCommand({ log, ...script }),
      acp_startup_timeout: 20,
      ...agent,
    },
    ...(request && { request }),
    ...(environment && { deps: { environment } }),
    model: model.open,
  })
  const received = async (method: string | undefined) => {
    const text = await readFile(log, 'utf8').catch(() => '')
    const messages = text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    return messages
      .filter((message) => message.method === method)
      .map(({ params, result }) => params ?? result)
  }
  return { conversation, received }
}

const started = (id: string, more: object = {}): ScriptStep => ({
  update: {
    sessionUpdate: 'tool_call',
    toolCallId: id,
    title: `Run ${id}`,
    kind: 'execute',
    status: 'pending',
    rawInput: { command: 'ls' },
    ...more,
  },
})
const updated = (id: string, status: string, more: object = {}): ScriptStep => ({
  update: { sessionUpdate: 'tool_call_update', toolCallId: id, status, ...more },
})
const always = { confirmation_policy: { kind: 'AlwaysConfirm' } }
const permission = (command: string) => ({
  toolCallId: 'p',
  title: 'Run a command',
  kind: 'execute',
  status: 'pending',
  rawInput: { command },
})

async function texts(conversation: TestConversation): Promise<string[]> {
  const messages = await conversation.eventsOfKind('MessageEvent')
  const ofAgent = messages.filter(({ source }) => source === 'agent')
  return ofAgent.map(({ llm_message }) =>
    (llm_message?.content ?? []).map((part) => ('text' in part ? part.text : '')).join(''),
  )
}

async function calls(conversation: TestConversation) {
  const events = (await conversation.events()) as unknown as Record<string, unknown>[]
  return events.filter(({ kind }) => kind === 'ACPToolCallEvent')
}

async function errors(conversation: TestConversation) {
  return (await conversation.eventsOfKind('ConversationErrorEvent')).map(({ code, detail }) => [code, detail])
}

const waitFor = (conversation: TestConversation, status: string) =>
  waitUntil(() => conversation.status === status && !conversation.conversation.isRunning)

test('a turn becomes one message with its reasoning, and two events for each call', async () => {
  const { conversation, received } = await create({
    turns: [
      [
        { thought: 'Let me ' },
        { thought: 'look.' },
        { text: 'I look' },
        { text: ' first.' },
        started('a'),
        updated('a', 'in_progress', { content: [{ type: 'content', content: { type: 'text', text: 'x' } }] }),
        updated('a', 'completed', { rawOutput: { exit: 0, nothing: null } }),
        updated('a', 'completed', { rawOutput: 'late' }),
        started('b', { status: 'failed', kind: 'edit' }),
        started('c', { rawInput: undefined }),
        { text: 'Done.' },
        { result: { stopReason: 'end_turn', usage: { inputTokens: 7, outputTokens: 3, thoughtTokens: 1 } } },
      ],
    ],
  })
  const image = { type: 'image' as const, image_urls: ['data:image/png;base64,aGk='], cache_prompt: false }
  const text = { type: 'text' as const, text: 'Begin.', cache_prompt: false }
  await conversation.send('', { content: [text, image], run: true })
  await conversation.conversation.waitUntilIdle()
  expect(conversation.status).toBe('finished')
  expect(await conversation.eventSummary()).toEqual([
    'SystemPromptEvent',
    'MessageEvent user',
    'execution_status: running',
    ...Array(5).fill('ACPToolCallEvent'),
    'MessageEvent agent',
    'execution_status: finished',
  ])
  const [, message] = await conversation.eventsOfKind('MessageEvent')
  expect(message?.llm_message).toMatchObject({
    content: [{ type: 'text', text: 'I look first.\n\nDone.' }],
    reasoning_content: 'Let me look.',
  })
  const call = { tool_call_id: 'a', title: 'Run a', tool_kind: 'execute', raw_input: { command: 'ls' } }
  expect(await calls(conversation)).toMatchObject([
    { ...call, source: 'agent', status: 'pending', is_error: false },
    { ...call, status: 'completed', raw_output: { exit: 0, nothing: null }, content: [{ type: 'content' }] },
    { tool_call_id: 'b', status: 'failed', is_error: true, tool_kind: 'edit' },
    { tool_call_id: 'c', status: 'pending' },
    { tool_call_id: 'c', status: 'completed', is_error: false },
  ])
  expect(await received('session/prompt')).toMatchObject([
    {
      prompt: [
        { type: 'text', text: 'Begin.' },
        { type: 'image', mimeType: 'image/png', data: 'aGk=' },
      ],
    },
  ])
  expect(conversation.conversation.stats.toJSON().usage_to_metrics).toMatchObject({
    'acp-managed': {
      accumulated_token_usage: { prompt_tokens: 7, completion_tokens: 3, reasoning_tokens: 1 },
    },
  })
  expect(conversation.settings.agent_state).toMatchObject({
    acp_session_id: 'session-1',
    acp_agent_name: 'scripted-agent',
  })
})

test('deltas are published under the id of the message', async () => {
  const { conversation } = await create({ turns: [[{ text: 'One ' }, { text: 'two.' }]] })
  await conversation.sendAndWait('Begin.')
  const deltas = conversation.updates.filter(({ kind }) => kind === 'delta')
  expect(deltas.map((update) => 'content' in update && update.content).join('')).toBe('One two.')
  const [, message] = await conversation.eventsOfKind('MessageEvent')
  for (const delta of deltas) expect(delta).toMatchObject({ item: { id: message?.id } })
})

test('the next message goes to the same session, and only that message', async () => {
  const { conversation, received } = await create(
    { turns: [[{ text: 'One.' }], [{ text: 'Two.' }]] },
    { agent: { agent_context: { system_message_suffix: 'Be brief.' } } },
  )
  await conversation.sendAndWait('First.')
  await conversation.sendAndWait('Second.')
  expect(await texts(conversation)).toEqual(['One.', 'Two.'])
  expect(
    (await received('session/prompt')).map(({ prompt }) =>
      prompt.map((block: { text: string }) => block.text),
    ),
  ).toEqual([['First.', 'Be brief.'], ['Second.']])
  expect(await received('session/new')).toHaveLength(1)
})

test('a request for permission is allowed once where nothing is confirmed', async () => {
  const { conversation } = await create({ turns: [[{ permission: permission('rm -rf /') }]] })
  await conversation.sendAndWait('Begin.')
  expect(await texts(conversation)).toEqual(['<yes>'])
  expect(await conversation.eventsOfKind('ActionEvent')).toEqual([])
})

test.each([
  [true, '<yes>', 'ObservationEvent'],
  [false, '<no>', 'UserRejectObservation'],
])('a request that is confirmed waits: accepted %s', async (accept, answer, kind) => {
  const { conversation } = await create(
    { turns: [[{ permission: permission('ls') }, { text: ' after' }]] },
    { request: always },
  )
  await conversation.sendAndWait('Begin.')
  expect(conversation.status).toBe('waiting_for_confirmation')
  const [action] = await conversation.eventsOfKind('ActionEvent')
  expect(action).toMatchObject({
    action: { kind: 'MCPToolAction', data: { title: 'Run a command', input: { command: 'ls' } } },
    tool_name: 'request_permission',
    summary: 'ls',
  })
  const ids = { action_ids: [action?.id ?? ''] }
  await expect(
    conversation.conversation.resolveConfirmation({ accept, reason: 'no', action_ids: ['other'] }),
  ).rejects.toMatchObject({ code: 'conflict' })
  await conversation.conversation.resolveConfirmation({ accept, reason: 'no', ...ids })
  await waitFor(conversation, 'finished')
  expect(await texts(conversation)).toEqual([`${answer} after`])
  const results = (await conversation.events()).filter(
    (event) => 'action_id' in event && event.action_id === action?.id,
  )
  expect(results.map((event) => event.kind)).toEqual([kind])
})

test.each([
  ['ls', 'finished'],
  ['rm -rf /', 'waiting_for_confirmation'],
])('with an analyzer, %s leads to %s; what is no command always waits', async (command, status) => {
  const request = {
    confirmation_policy: { kind: 'ConfirmRisky', confirm_unknown: false },
    security_analyzer: { kind: 'PatternSecurityAnalyzer' },
  }
  const { conversation } = await create({ turns: [[{ permission: permission(command) }]] }, { request })
  await conversation.sendAndWait('Begin.')
  expect(conversation.status).toBe(status)
  const other = await create(
    { turns: [[{ permission: { toolCallId: 'q', title: 'Edit', kind: 'edit', rawInput: { path: 'x' } } }]] },
    { request },
  )
  await other.conversation.sendAndWait('Begin.')
  expect(other.conversation.status).toBe('waiting_for_confirmation')
})

test('a denied command is rejected without a question', async () => {
  const { conversation } = await create(
    { turns: [[{ permission: permission('git push') }]] },
    { request: { command_rules: [{ pattern: 'git push', decision: 'deny' }] } },
  )
  await conversation.sendAndWait('Begin.')
  expect(await texts(conversation)).toEqual(['<no>'])
})

test('a program that offers no single permission is not given all', async () => {
  const options = [{ optionId: 'always', name: 'Always', kind: 'allow_always' }]
  const { conversation } = await create({ turns: [[{ permission: permission('ls'), options }]] })
  await conversation.sendAndWait('Begin.')
  expect(await texts(conversation)).toEqual(['<cancelled>'])
})

test.each(['pause', 'interrupt'] as const)(
  '%s cancels the turn, and the next run continues',
  async (stop) => {
    const { conversation, received } = await create({
      turns: [[started('a'), { hang: true }], [{ text: 'Continued.' }]],
    })
    await conversation.send('Begin.', { run: true })
    await waitUntil(async () => (await calls(conversation)).length > 0)
    await conversation.conversation[stop]()
    await waitFor(conversation, 'paused')
    expect(await received('session/cancel')).toHaveLength(1)
    expect((await calls(conversation)).map(({ status }) => status)).toEqual(['pending', 'failed'])
    expect(await conversation.eventsOfKind('PauseEvent')).toHaveLength(1)
    await conversation.conversation.run()
    await conversation.conversation.waitUntilIdle()
    expect(await texts(conversation)).toEqual(['Continued.'])
    const prompts = await received('session/prompt')
    expect(prompts[1].prompt).toEqual([{ type: 'text', text: expect.stringContaining('interrupted') }])
    expect(await received('session/new')).toHaveLength(1)
  },
)

test('a second pause does not let the next prompt begin before the turn has ended', async () => {
  const { conversation } = await create(
    {
      turns: [
        [{ permission: permission('ls') }, { waitMs: 300 }, { text: 'Late.' }],
        [{ waitMs: 600 }, { text: 'Two.' }],
      ],
      ignoresCancel: true,
    },
    { request: always },
  )
  await conversation.send('First.', { run: true })
  await waitFor(conversation, 'waiting_for_confirmation')
  const { conversation: paused } = conversation
  const first = paused.pause()
  const second = paused.pause()
  await Promise.race([first, second])
  await conversation.sendAndWait('Second.')
  await Promise.all([first, second])
  expect(await texts(conversation)).toEqual(['Two.'])
})

test.each(['pause', 'interrupt'] as const)(
  '%s during a question cancels the turn, and the next message is answered',
  async (stop) => {
    const { conversation, received } = await create(
      { turns: [[started('a'), { permission: permission('ls') }, { hang: true }], [{ text: 'Next.' }]] },
      { request: always },
    )
    await conversation.sendAndWait('Begin.')
    expect(conversation.status).toBe('waiting_for_confirmation')
    await conversation.conversation[stop]()
    expect(conversation.status).toBe('paused')
    expect(await received('session/cancel')).toHaveLength(1)
    const answers = (await received(undefined)).map(({ outcome }) => outcome)
    expect(answers.filter((outcome) => outcome !== undefined)).toEqual([{ outcome: 'cancelled' }])
    expect(await conversation.eventsOfKind('AgentErrorEvent')).toMatchObject([
      { tool_name: 'request_permission' },
    ])
    expect(await conversation.eventsOfKind('PauseEvent')).toHaveLength(1)
    expect((await calls(conversation)).at(-1)).toMatchObject({ tool_call_id: 'p', status: 'failed' })
    await conversation.sendAndWait('Continue.')
    expect(conversation.status).toBe('finished')
    expect(await texts(conversation)).toEqual(['Next.'])
    expect(await received('session/new')).toHaveLength(1)
  },
)

test('a program that ignores the cancellation is ended, and started again', async () => {
  const { conversation, received } = await create({
    turns: [[{ hang: true }]],
    ignoresCancel: true,
    sessions: join(fixtures.directory, 'stubborn'),
  })
  await conversation.send('Begin.', { run: true })
  await waitUntil(async () => (await received('session/prompt')).length > 0)
  await conversation.conversation.interrupt()
  await waitFor(conversation, 'paused')
  await conversation.conversation.run()
  await conversation.conversation.waitUntilIdle()
  expect(await texts(conversation)).toEqual(['No more turns.'])
  expect(await received('session/load')).toHaveLength(1)
}, 30_000)

test('a program that ends in its turn is an error with its last output; the next message starts it again', async () => {
  const { conversation } = await create(
    {
      turns: [
        [started('a'), { stderr: 'fatal: key-canary-77 is wrong\n' }, { waitMs: 200 }, { exit: 3 }],
        [{ text: 'Back.' }],
      ],
      sessions: join(fixtures.directory, 'crashing'),
    },
    { request: { secrets: { KEY: 'key-canary-77' } } },
  )
  await conversation.sendAndWait('Begin.')
  expect(conversation.status).toBe('error')
  const [[code, detail] = []] = await errors(conversation)
  expect(code).toBe('ACPPromptError')
  expect(detail).toContain('it exited with 3')
  expect(detail).toContain('fatal: <secret-hidden> is wrong')
  expect((await calls(conversation)).map(({ status }) => status)).toEqual(['pending', 'failed'])
  await conversation.sendAndWait('Again.')
  expect(conversation.status).toBe('finished')
  expect(await texts(conversation)).toEqual(['Back.'])
})

test.each([
  ['ACPSpawnError', {}, { acp_command: ['/nothing/there'] }],
  ['ACPSpawnError', {}, { acp_command: ['a\0b'] }],
  ['ACPInitError', { failsInitialize: 'No.' }, {}],
  ['ACPInitError', { hangsInitialize: true }, { acp_startup_timeout: 0.7 }],
  ['ACPInitError', {}, { acp_command: [process.execPath, '-e', 'process.exit(4)'] }],
  ['ACPAuthRequired', { requiresAuth: true }, {}],
])('a program that does not start is %s: %j %j', async (code, script, agent) => {
  const { conversation } = await create(script, { agent })
  await conversation.sendAndWait('Begin.')
  expect(conversation.status).toBe('error')
  expect((await errors(conversation)).map(([found]) => found)).toEqual([code])
})

test('a program of another version of the protocol is refused with both versions', async () => {
  const { conversation } = await create({ protocolVersion: 2 })
  await conversation.sendAndWait('Begin.')
  expect(await errors(conversation)).toEqual([
    ['ACPInitError', expect.stringMatching(/version 2 .* version 1/)],
  ])
})

test.each([
  ['ACPSpawnError', ['bin/agent']],
  ['ACPInitError', [process.execPath, 'agent.js']],
])('a program with a relative path is told about its folder: %s', async (code, acp_command) => {
  const { conversation } = await create({}, { agent: { acp_command } })
  await conversation.sendAndWait('Begin.')
  expect(await errors(conversation)).toEqual([[code, expect.stringContaining('in an empty folder')]])
})

test('a program that says nothing for too long is an error; what it says counts', async () => {
  const slow = [{ text: 'a' }, { waitMs: 500 }, { text: 'b' }, { waitMs: 500 }, { text: 'c' }]
  const { conversation } = await create(
    { turns: [slow, [{ hang: true }]] },
    { agent: { acp_prompt_timeout: 0.9 } },
  )
  await conversation.sendAndWait('Begin.')
  expect(await texts(conversation)).toEqual(['abc'])
  await conversation.sendAndWait('Again.')
  expect(await errors(conversation)).toEqual([
    ['ACPPromptError', expect.stringContaining('acp_prompt_timeout')],
  ])
})

test('after a restart the session is loaded, and what it repeats is not stored', async () => {
  const { conversation, received } = await create({
    turns: [[{ text: 'One.' }], [{ text: 'Two.' }]],
    sessions: join(fixtures.directory, 'kept'),
  })
  await conversation.sendAndWait('First.')
  await conversation.reopen()
  await conversation.sendAndWait('Second.')
  expect(await texts(conversation)).toEqual(['One.', 'Two.'])
  expect(await received('session/load')).toMatchObject([{ sessionId: 'session-1' }])
  expect((await received('session/prompt'))[1].prompt).toEqual([{ type: 'text', text: 'Second.' }])
})

test.each([
  ['hangs', /has not answered in time .* new session/],
  ['exits', /has ended .* new session/],
] as const)('a program that %s at the load of its session begins a new one', async (load, said) => {
  const { conversation, received } = await create(
    { turns: [[{ text: 'One.' }], [{ text: 'Two.' }]], sessions: join(fixtures.directory, load), load },
    { agent: { acp_startup_timeout: 5 } },
  )
  await conversation.sendAndWait('First.')
  await conversation.reopen()
  await conversation.sendAndWait('Second.')
  expect(await errors(conversation)).toEqual([])
  expect(await texts(conversation)).toEqual(['One.', 'Two.'])
  expect(await received('session/new')).toHaveLength(2)
  const [history, message] = (await received('session/prompt'))[1].prompt
  expect(history.text).toMatch(/User: First\.\n\nYou: One\./)
  expect(message.text).toBe('Second.')
  expect(JSON.stringify(conversation.logLines)).toMatch(said)
})

test('what a loaded session repeats after the answer to the load is not stored', async () => {
  const { conversation, received } = await create({
    turns: [[{ text: 'One.' }], [{ waitMs: 100 }, { text: 'Two.' }]],
    sessions: join(fixtures.directory, 'late'),
    load: 'repeats late',
  })
  await conversation.sendAndWait('First.')
  await conversation.reopen()
  await conversation.sendAndWait('Second.')
  expect(await texts(conversation)).toEqual(['One.', 'Two.'])
  expect(await received('session/load')).toHaveLength(1)
})

test('what a session whose load was refused still sends is not stored', async () => {
  const { conversation } = await create({
    turns: [[{ text: 'One.' }], [{ waitMs: 500 }, { text: 'Two.' }]],
    sessions: join(fixtures.directory, 'refused'),
    load: 'refuses, and repeats late',
  })
  await conversation.sendAndWait('First.')
  await conversation.reopen()
  await conversation.sendAndWait('Second.')
  expect(await texts(conversation)).toEqual(['One.', 'Two.'])
})

test('a session that is lost gets the texts of the conversation', async () => {
  const { conversation, received } = await create({ turns: [[{ text: 'One.' }]] })
  await conversation.sendAndWait('First.')
  await conversation.reopen()
  await conversation.sendAndWait('Second.')
  const [history, message] = (await received('session/prompt'))[1].prompt
  expect(history.text).toMatch(/User: First\.\n\nYou: One\./)
  expect(message.text).toBe('Second.')
})

test('a confirmation that outlives its program is answered by an error, and asked again', async () => {
  const { conversation } = await create(
    {
      turns: [[{ permission: permission('ls') }], [{ text: 'Asked again.' }]],
      sessions: join(fixtures.directory, 'asked'),
    },
    { request: always },
  )
  await conversation.sendAndWait('Begin.')
  await conversation.reopen()
  expect(conversation.status).toBe('waiting_for_confirmation')
  await conversation.conversation.resolveConfirmation({ accept: true, reason: '' })
  await waitFor(conversation, 'finished')
  expect(await conversation.eventsOfKind('AgentErrorEvent')).toHaveLength(1)
  expect(await texts(conversation)).toEqual(['Asked again.'])
})

test.each([false, true])(
  'the model is switched in the open session: older method %s',
  async (hasOldModels) => {
    const { conversation, received } = await create(
      { turns: [[{ text: 'One.' }], [{ text: 'Two.' }]], models: ['small', 'large'], hasOldModels },
      { agent: { acp_model: 'small' } },
    )
    await conversation.sendAndWait('First.')
    expect(conversation.settings.agent_state).toMatchObject({
      acp_current_model_id: 'small',
      acp_supports_runtime_model_switch: true,
      acp_available_models: [{ model_id: 'small' }, { model_id: 'large' }],
    })
    await conversation.conversation.switchAcpModel('large')
    for (const other of ['huge', ' '])
      await expect(conversation.conversation.switchAcpModel(other)).rejects.toMatchObject({
        code: 'bad_request',
      })
    expect(conversation.settings).toMatchObject({
      agent: { acp_model: 'large' },
      agent_state: { acp_current_model_id: 'large' },
    })
    await conversation.sendAndWait('Second.')
    const sent = await received(hasOldModels ? 'session/set_model' : 'session/set_config_option')
    expect(sent.map(({ modelId, value }) => modelId ?? value)).toEqual(['large'])
    expect(await received('session/new')).toHaveLength(1)
  },
)

test.each([
  [
    'large',
    'high',
    [
      ['model', 'large'],
      ['thinking', 'high'],
    ],
    undefined,
  ],
  ['large', 'low', [['model', 'large']], undefined],
  ['large', 'utmost', [['model', 'large']], 'does not offer the effort utmost'],
  ['small', 'high', [], 'does not offer the effort high'],
])('the effort is an option of the session: %s, %s', async (acp_model, acp_effort, options, warning) => {
  const { conversation, received } = await create(
    { turns: [[{ text: 'One.' }]], models: ['small', 'large'], efforts: ['low', 'high'] },
    { agent: { acp_model, acp_effort } },
  )
  await conversation.sendAndWait('First.')
  expect(await texts(conversation)).toEqual(['One.'])
  const sent = await received('session/set_config_option')
  expect(sent.map(({ configId, value }) => [configId, value])).toEqual(options)
  const warned = JSON.stringify(conversation.logLines)
  if (warning === undefined) expect(warned).not.toContain('effort')
  else expect(warned).toContain(warning)
})

test('a switch of the model keeps the effort, which the session offers with the new model', async () => {
  const { conversation, received } = await create(
    { turns: [[{ text: 'One.' }]], models: ['small', 'large'], efforts: ['low', 'high'] },
    { agent: { acp_model: 'small', acp_effort: 'high' } },
  )
  await conversation.sendAndWait('First.')
  await conversation.conversation.switchAcpModel('large')
  const sent = await received('session/set_config_option')
  expect(sent.map(({ configId, value }) => [configId, value])).toEqual([
    ['model', 'large'],
    ['thinking', 'high'],
  ])
})

test('a switch that takes too long is a timeout and changes nothing', async () => {
  const { conversation } = await create(
    { turns: [[{ text: 'One.' }]], models: ['small', 'large'], hangsModel: true },
    { agent: { acp_model: 'small', acp_prompt_timeout: 0.5 } },
  )
  await conversation.sendAndWait('First.')
  await expect(conversation.conversation.switchAcpModel('large')).rejects.toMatchObject({ code: 'timeout' })
  expect(conversation.settings.agent).toMatchObject({ acp_model: 'small' })
})

test('secrets are variables and files of the program, and hidden in what it says', async () => {
  const secrets = { API_KEY: 'value-canary-1', LOGIN_JSON: '{"token":"value-canary-2"}' }
  const spec = { secret_name: 'LOGIN_JSON', filename: 'login.json', env_var: 'LOGIN', subdir: 'own' }
  const { conversation, received } = await create(
    {
      turns: [
        [
          { variable: 'API_KEY' },
          { text: ' ' },
          { file: 'LOGIN' },
          { text: ' ' },
          { variable: 'LOGIN_JSON' },
          started('a', { title: 'Say value-canary-1', rawInput: { name: 'value-canary-1' } }),
          updated('a', 'completed', { rawOutput: 'value-canary-1' }),
          { permission: { ...permission('echo value-canary-1'), toolCallId: 'b' } },
        ],
      ],
    },
    { agent: { acp_file_secrets: [spec] }, request: { secrets, ...always } },
  )
  await conversation.sendAndWait('Begin.')
  await conversation.conversation.resolveConfirmation({ accept: true, reason: '' })
  await waitFor(conversation, 'finished')
  expect(await received('initialize')).toHaveLength(1)
  const [text] = await texts(conversation)
  expect(text).toMatch(/^<secret-hidden> .*<secret-hidden>.* undefined/)
  const log = JSON.stringify([await conversation.events(), conversation.updates, conversation.logLines])
  expect(log).not.toContain('value-canary')
  const file = join(
    fixtures.directory,
    'conversations',
    conversation.id.replaceAll('-', ''),
    'acp/own/login.json',
  )
  await access(file)
  await conversation.conversation.close()
  await expect(access(file)).rejects.toThrow()
})

test('a message instead of an answer rejects the request, and follows the turn', async () => {
  const { conversation, received } = await create(
    { turns: [[{ permission: permission('ls') }, { text: ' Then this.' }], [{ text: 'Stopped.' }]] },
    { request: always },
  )
  await conversation.sendAndWait('Begin.')
  expect(conversation.status).toBe('waiting_for_confirmation')
  await conversation.sendAndWait('Stop that.')
  expect(conversation.status).toBe('finished')
  expect(await texts(conversation)).toEqual(['<no> Then this.', 'Stopped.'])
  expect((await received('session/prompt'))[1].prompt).toEqual([{ type: 'text', text: 'Stop that.' }])
})

test('two requests at once wait together, and one answer is for both', async () => {
  const update = (id: string) => ({ ...permission('ls'), toolCallId: id })
  const { conversation } = await create(
    { turns: [[{ permissions: [update('a'), update('b')] }]] },
    { request: always },
  )
  await conversation.send('Begin.', { run: true })
  await waitUntil(async () => (await conversation.eventsOfKind('ActionEvent')).length === 2)
  const actions = await conversation.eventsOfKind('ActionEvent')
  await expect(
    conversation.conversation.resolveConfirmation({
      accept: true,
      reason: '',
      action_ids: [actions[0]?.id ?? ''],
    }),
  ).rejects.toMatchObject({ code: 'conflict' })
  await conversation.conversation.resolveConfirmation({
    accept: true,
    reason: '',
    action_ids: actions.map(({ id }) => id),
  })
  await waitFor(conversation, 'finished')
  expect(await texts(conversation)).toEqual(['<yes><yes>'])
})

test('from another event on, a new session gets the texts of that branch', async () => {
  const { conversation, received } = await create({
    turns: [[{ text: 'One.' }], [{ text: 'Two.' }], [{ text: 'Three.' }]],
    sessions: join(fixtures.directory, 'branched'),
  })
  await conversation.sendAndWait('First.')
  const [, answer] = await conversation.eventsOfKind('MessageEvent')
  await conversation.sendAndWait('Second.')
  await conversation.conversation.navigate(answer?.id ?? null)
  await conversation.sendAndWait('Instead.')
  expect(await received('session/load')).toEqual([])
  expect(await received('session/new')).toHaveLength(2)
  const [history, message] = (await received('session/prompt'))[2].prompt
  expect(history.text).toContain('One.')
  expect(history.text).not.toContain('Second.')
  expect(message.text).toBe('Instead.')
})

test('a secret that is added later reaches the program, in the same session', async () => {
  const { conversation, received } = await create({
    turns: [[{ variable: 'LATE' }], [{ variable: 'LATE' }]],
    sessions: join(fixtures.directory, 'late-secret'),
  })
  await conversation.sendAndWait('First.')
  await conversation.conversation.addSecrets({
    LATE: { kind: 'StaticSecret', value: 'late-value-1' } as never,
  })
  await conversation.sendAndWait('Second.')
  expect(await texts(conversation)).toEqual(['undefined', '<secret-hidden>'])
  expect(await received('session/load')).toHaveLength(1)
})

test('the servers of the conversation are passed on', async () => {
  const { conversation, received } = await create(
    { turns: [[{ text: 'One.' }]] },
    {
      agent: {
        mcp_config: {
          local: { command: 'tool', args: ['$TOKEN'], env: { A: 'b' } },
          far: { url: 'http://127.0.0.1:9/mcp', headers: { X: 'y' } },
          old: { url: 'http://127.0.0.1:9/sse', transport: 'sse' },
          off: { command: 'tool', disabled: true },
        },
      },
      request: { secrets: { TOKEN: 'token-value-1' } },
    },
  )
  await conversation.sendAndWait('Begin.')
  expect(await received('session/new')).toEqual([
    {
      cwd: conversation.workspace,
      mcpServers: [
        {
          name: 'local',
          command: '/bin/sh',
          args: [
            '-c',
            'cd -- "$0" && exec "$@"',
            expect.stringMatching(/^\/(?:.*\/run-\w+)?$/),
            'tool',
            'token-value-1',
          ],
          env: [
            { name: 'SLIPWAY_WORKSPACE', value: conversation.workspace },
            { name: 'A', value: 'b' },
          ],
        },
        { type: 'http', name: 'far', url: 'http://127.0.0.1:9/mcp', headers: [{ name: 'X', value: 'y' }] },
      ],
    },
  ])
})

test.skipIf(process.platform !== 'linux')(
  'the program starts in an empty folder, which goes with it',
  async () => {
    const environment = { PATH: '/usr/local/bin:/usr/bin:/bin' }
    const { conversation } = await create({ turns: [[{ hang: true }]] }, { environment })
    await conversation.send('Begin.', { run: true })
    const mark = `received-${scripts - 1}`
    await waitUntil(async () => (await processes(mark)).length > 0)
    const [id] = await processes(mark)
    const folder = await readlink(`/proc/${id}/cwd`)
    expect(folder).toMatch(/\/slipway\/programs\/unmarked\/run-\w+$/)
    expect(await readFile(`/proc/${id}/environ`, 'utf8')).toContain(
      `SLIPWAY_WORKSPACE=${conversation.workspace}\0`,
    )
    await conversation.conversation.close()
    await expect(readdir(folder)).rejects.toThrow('ENOENT')
  },
)

test('the program ends with the conversation, and so does what it has started', async () => {
  const { conversation } = await create({ turns: [[{ hang: true }]] })
  await conversation.send('Begin.', { run: true })
  const mark = `received-${scripts - 1}`
  await waitUntil(async () => (await processes(mark)).length > 0)
  await conversation.conversation.close()
  await waitUntil(async () => (await processes(mark)).length === 0)
})

/** The ids of the processes whose command line has a text. */
async function processes(text: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    ids.map(async (id) => [id, await readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')] as const),
  )
  return lines.filter(([, line]) => line.includes(text)).map(([id]) => id)
}
