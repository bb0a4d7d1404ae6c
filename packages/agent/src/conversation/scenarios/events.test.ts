import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventKinds, must, validateEvent } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import {
  ConversationFixtures,
  contentText,
  createLatch,
  FakeModel,
  type TestConversation,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
const lives: TestConversation[] = []

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())
beforeEach(() => {
  lives.length = 0
})
/** Whatever a test makes happen, each event in the log is one of the specification. */
afterEach(async () => {
  for (const life of lives) {
    for (const event of await life.events()) expect(validateEvent(event), JSON.stringify(event)).toEqual([])
  }
})

async function begin(options: Parameters<ConversationFixtures['create']>[0]): Promise<TestConversation> {
  const life = await fixtures.create(options)
  lives.push(life)
  return life
}

test('a SystemPromptEvent is written once, before the first message, with the tools and the context of its conversation apart', async () => {
  const life = await begin({
    agent: { tools: [{ name: 'terminal' }, { name: 'file_editor' }] },
    request: {
      secrets: { DEPLOY_KEY: { kind: 'StaticSecret', value: 'k-123456', description: 'for deploys' } },
    },
  })
  await life.sendAndWait('hello')
  await life.sendAndWait('and again')
  const events = await life.events()
  expect(events[0]?.kind).toBe('SystemPromptEvent')
  const prompts = await life.eventsOfKind('SystemPromptEvent')
  expect(prompts).toHaveLength(1)
  const [prompt] = prompts
  expect(prompt?.source).toBe('agent')
  expect(prompt?.tools.map(({ kind }) => kind)).toEqual([
    'TerminalTool',
    'FileEditorTool',
    'FinishTool',
    'ThinkTool',
  ])
  expect(prompt?.system_prompt.text).not.toContain(life.workspace)
  expect(prompt?.dynamic_context?.text).toContain(life.workspace)
  expect(prompt?.dynamic_context?.text).toContain('DEPLOY_KEY')
  expect(prompt?.dynamic_context?.text).toContain('for deploys')
})

test('two conversations of the same tools have the same static prompt, and the model gets the context as a second block', async () => {
  const player = new FakeModel()
  const [one, two] = [await begin({ model: player.open }), await begin({})]
  await one.sendAndWait('hello')
  await two.sendAndWait('hello')
  const [first] = await one.eventsOfKind('SystemPromptEvent')
  const [second] = await two.eventsOfKind('SystemPromptEvent')
  expect(first?.system_prompt).toEqual(second?.system_prompt)
  expect(first?.dynamic_context).not.toEqual(second?.dynamic_context)
  const system = player.requests[0]?.messages[0]
  expect(system?.role).toBe('system')
  expect(system?.content.map((block) => ('text' in block ? block.text : ''))).toEqual([
    first?.system_prompt.text,
    first?.dynamic_context?.text,
  ])
  expect(system?.content.map(({ cache_prompt }) => cache_prompt)).toEqual([true, false])
})

test('a MessageEvent of a user holds the message as it was sent, the skills that it calls for and what comes with it', async () => {
  const player = new FakeModel()
  const life = await begin({
    model: player.open,
    agent: {
      agent_context: {
        skills: [
          {
            name: 'deploying',
            content: 'Deploy on Tuesdays only.',
            trigger: { type: 'keyword', keywords: ['deploy'] },
          },
          { name: 'baking', content: 'Bake.', trigger: { type: 'keyword', keywords: ['bake'] } },
        ],
        user_message_suffix: 'Be brief.',
      },
    },
  })
  const content = [
    { type: 'text' as const, text: 'please deploy', cache_prompt: false },
    { type: 'image' as const, image_urls: ['data:image/png;base64,AAAA'], cache_prompt: false },
  ]
  const own = { type: 'text' as const, text: 'From the editor.', cache_prompt: false }
  await life.send('', { content, sender: 'ada', extended_content: [own], run: true })
  await life.conversation.waitUntilIdle()
  const [message, answer] = await life.eventsOfKind('MessageEvent')
  expect(message).toMatchObject({ source: 'user', sender: 'ada', activated_skills: ['deploying'] })
  expect(message?.llm_message).toEqual({ role: 'user', content, thinking_blocks: [] })
  const added = message?.extended_content?.map(({ text }) => text) ?? []
  expect(added[0]).toBe('From the editor.')
  expect(added[1]).toContain('Deploy on Tuesdays only.')
  expect(added[2]).toBe('Be brief.')
  expect(answer).toMatchObject({
    source: 'agent',
    llm_response_id: 'response-0',
    activated_skills: [],
    extended_content: [],
  })
  expect(answer?.llm_message.role).toBe('assistant')
  expect(contentText(answer?.llm_message.content)).toBe('The end.')
  expect(contentText(player.requests[0]?.messages.at(-1)?.content)).toContain('Deploy on Tuesdays only.')
  // A skill is told once.
  await life.sendAndWait('deploy again')
  expect((await life.eventsOfKind('MessageEvent'))[2]?.activated_skills).toEqual([])
})

test('an answer without words or calls is a MessageEvent of the agent, and the environment asks for more', async () => {
  const player = new FakeModel([{ message: { reasoning_content: 'only thoughts' } }, { text: 'Done.' }])
  const life = await begin({ model: player.open })
  await life.sendAndWait('go')
  expect(await life.eventSummary()).toEqual([
    'SystemPromptEvent',
    'MessageEvent user',
    'execution_status: running',
    'MessageEvent agent',
    'MessageEvent environment',
    'MessageEvent agent',
    'execution_status: finished',
  ])
  const [, empty, nudge] = await life.eventsOfKind('MessageEvent')
  expect(empty?.llm_message.content).toEqual([])
  expect(nudge?.llm_message.role).toBe('user')
  expect(contentText(player.requests[1]?.messages.at(-1)?.content)).toBe(
    contentText(nudge?.llm_message.content),
  )
})

test('a run writes in order: the status, each call, its result, the finish, the status', async () => {
  const life = await begin({
    agent: {
      llm: {
        model: 'scripted/x',
        script: [
          {
            text: 'I look first.',
            tool_calls: [{ name: 'terminal', arguments: { command: 'echo one && pwd' } }],
          },
          {
            tool_calls: [
              { name: 'file_editor', arguments: { command: 'create', path: '/W/a.txt', file_text: 'two' } },
            ],
          },
          { tool_calls: [{ name: 'finish', arguments: { message: 'All done.' } }] },
        ],
      },
      tools: [{ name: 'terminal' }, { name: 'file_editor' }],
    },
    model: (llm, options) =>
      openModel(
        { ...llm, script: JSON.parse(JSON.stringify(llm.script).replace('/W/', `${life.workspace}/`)) },
        options,
      ),
  })
  await life.sendAndWait('go')
  expect(await life.eventSummary()).toEqual([
    'SystemPromptEvent',
    'MessageEvent user',
    'execution_status: running',
    'ActionEvent',
    'ObservationEvent',
    'ActionEvent',
    'ObservationEvent',
    'ActionEvent',
    'ObservationEvent',
    'execution_status: finished',
  ])
  const actions = await life.eventsOfKind('ActionEvent')
  const results = await life.eventsOfKind('ObservationEvent')
  expect(
    results.map(({ action_id, tool_call_id, tool_name }) => ({ action_id, tool_call_id, tool_name })),
  ).toEqual(actions.map(({ id, tool_call_id, tool_name }) => ({ action_id: id, tool_call_id, tool_name })))
  expect(contentText(results[0]?.observation.content)).toContain(`one\n${life.workspace}`)
  expect(await readFile(join(life.workspace, 'a.txt'), 'utf8')).toBe('two')
  expect(results[2]?.observation).toMatchObject({ kind: 'FinishObservation', is_error: false })
  expect(contentText(results[2]?.observation.content)).toBe('All done.')
  expect(actions[0]?.thought.map(({ text }) => text)).toEqual(['I look first.'])
})

test('a file rule is shown with the first result that touches such a file', async () => {
  const life = await begin({
    agent: {
      tools: [{ name: 'file_editor' }],
      agent_context: {
        skills: [{ name: 'css', content: 'No floats.', trigger: { type: 'path', paths: ['**/*.css'] } }],
      },
    },
    model: (llm) =>
      new FakeModel([
        { calls: [['file_editor', { command: 'view', path: join(life.workspace, 'a.css') }]] },
        { calls: [['file_editor', { command: 'view', path: join(life.workspace, 'a.css') }]] },
      ]).open(llm),
  })
  await writeFile(join(life.workspace, 'a.css'), 'b {}')
  await life.sendAndWait('look')
  const [first, second] = await life.eventsOfKind('ObservationEvent')
  expect(contentText(first?.observation.content)).toContain('No floats.')
  expect(contentText(second?.observation.content)).not.toContain('No floats.')
})

test('an AgentErrorEvent answers a tool that is missing, and arguments that are no JSON or do not fit', async () => {
  const player = new FakeModel([
    {
      calls: [
        ['no_such_tool', { a: 1 }],
        ['terminal', '{"command": '],
        ['terminal', { commands: 7 }],
        ['think', { thought: 'still here' }],
      ],
    },
  ])
  const life = await begin({ model: player.open, agent: { tools: [{ name: 'terminal' }] } })
  await life.sendAndWait('go')
  expect((await life.eventSummary()).slice(3)).toEqual([
    'ActionEvent',
    'ActionEvent',
    'ActionEvent',
    'ActionEvent',
    'AgentErrorEvent',
    'AgentErrorEvent',
    'AgentErrorEvent',
    'ObservationEvent',
    'MessageEvent agent',
    'execution_status: finished',
  ])
  const errors = await life.eventsOfKind('AgentErrorEvent')
  expect(errors.map(({ source }) => source)).toEqual(['agent', 'agent', 'agent'])
  expect(errors[0]?.error).toContain("'no_such_tool' not found")
  expect(errors[0]?.error).toContain("'terminal'")
  expect(errors[1]?.error).toContain('JSON')
  expect(errors[2]?.error).toContain('command')
  const actions = await life.eventsOfKind('ActionEvent')
  expect(actions.map(({ action }) => action?.kind)).toEqual([undefined, undefined, undefined, 'ThinkAction'])
  expect(actions.map(({ tool_call_id }) => tool_call_id).slice(0, 3)).toEqual(
    errors.map(({ tool_call_id }) => tool_call_id),
  )
  expect(actions[1]?.tool_call.arguments).toBe('{"command": ')
  // The model sees each of its calls answered.
  const results = player.requests[1]?.messages.filter(({ role }) => role === 'tool') ?? []
  expect(results.map(({ tool_call_id }) => tool_call_id)).toEqual(
    actions.map(({ tool_call_id }) => tool_call_id),
  )
})

test('a failure of the model ends the run: first the status, then a ConversationErrorEvent with its code', async () => {
  const player = new FakeModel([
    { failure: 'LLMAuthenticationError', detail: 'The key was not accepted.' },
    { text: 'Better.' },
  ])
  const life = await begin({ model: player.open })
  await life.sendAndWait('go')
  expect((await life.eventSummary()).slice(2)).toEqual([
    'execution_status: running',
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  expect((await life.eventsOfKind('ConversationErrorEvent'))[0]).toMatchObject({
    source: 'environment',
    code: 'LLMAuthenticationError',
    detail: 'The key was not accepted.',
  })
  expect(life.status).toBe('error')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
})

test('an unknown tool in the settings ends the run with a ConversationErrorEvent, and the message is stored', async () => {
  const life = await begin({ agent: { tools: [{ name: 'teleporter' }] } })
  await life.sendAndWait('go')
  expect(await life.eventSummary()).toEqual([
    'MessageEvent user',
    'execution_status: running',
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error?.detail).toContain('terminal')
})

test('a required MCP server that does not start ends the run with a ConversationErrorEvent of code MCPError without its secrets', async () => {
  const life = await begin({
    agent: {
      mcp_config: {
        broken: {
          required: true,
          command: process.execPath,
          args: ['-e', 'console.error(process.env.API_TOKEN); process.exit(3)'],
          env: { API_TOKEN: 'tok-87654321' },
        },
      },
    },
  })
  await life.sendAndWait('go')
  // The prompt lists the tools of the servers, so it waits for them.
  expect(await life.eventSummary()).toEqual([
    'MessageEvent user',
    'execution_status: running',
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error).toMatchObject({ code: 'MCPError', source: 'environment' })
  expect(error?.detail).toContain('broken')
  expect(JSON.stringify(await life.events()) + life.logLines.join()).not.toContain('tok-87654321')
})

test('a run continues without an MCP server that is away; its absence and its return are reported once', async () => {
  let ahead = 0
  const clock = { ...systemClock, monotonic: () => performance.now() + ahead }
  const program = join(fixtures.directory, 'late.cjs')
  const player = new FakeModel([
    { calls: [['think', { thought: 'I wait.' }]] },
    {
      calls: [['think', { thought: 'I wait.' }]],
      before: async () => {
        await writeFile(program, greeter)
        ahead += 2_000
      },
    },
    { calls: [['greet', { name: 'Ada' }]] },
  ])
  const late = { command: process.execPath, args: [program], env: { API_TOKEN: 'tok-87654321' } }
  const life = await begin({
    model: player.open,
    agent: {
      mcp_config: { late, other: { command: process.execPath, args: ['-e', greeter], disabled: true } },
    },
    deps: { clock },
  })
  await life.sendAndWait('greet Ada')
  const turn = ['ActionEvent', 'ObservationEvent']
  expect(await life.eventSummary()).toEqual([
    ...['MessageEvent user', 'execution_status: running', 'SystemPromptEvent'],
    ...['mcp_server', 'MessageEvent environment'],
    ...[...turn, ...turn],
    ...['mcp_server', 'MessageEvent environment'],
    ...turn,
    ...['MessageEvent agent', 'execution_status: finished'],
  ])
  const hasTool = player.requests.map(({ tools }) => tools.some(({ name }) => name === 'greet'))
  expect(hasTool).toEqual([false, false, true, true])
  const told = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'environment')
  expect(told.map((event) => contentText(event.llm_message?.content))).toEqual([
    expect.stringMatching(
      /^The MCP server late cannot be reached\..*\n<server_error server="late">\nit exited with 1; .*Cannot find module/,
    ),
    'The MCP server late is connected now; its tools can be called.\n<server_instructions server="late">\nGreet by name.\n</server_instructions>',
  ])
  expect(life.logLines.filter((line) => line.includes('left out'))).toHaveLength(1)
  await rm(program)
  await life.reopen()
  await life.sendAndWait('again')
  await life.reopen()
  await life.sendAndWait('and again')
  expect(life.conversation.state.awayServers).toEqual(['late'])
  expect((await life.eventSummary()).filter((line) => line === 'mcp_server')).toHaveLength(3)
})

test('with an MCP server the system prompt is written when the run starts, with the tools of the server', async () => {
  const player = new FakeModel([{ calls: [['greet', { name: 'Ada' }]] }])
  const life = await begin({
    model: player.open,
    agent: { mcp_config: { greeter: { command: process.execPath, args: ['-e', greeter] } } },
  })
  await life.sendAndWait('greet Ada')
  expect(await life.eventSummary()).toEqual([
    'MessageEvent user',
    'execution_status: running',
    'SystemPromptEvent',
    'ActionEvent',
    'ObservationEvent',
    'MessageEvent agent',
    'execution_status: finished',
  ])
  const [prompt] = await life.eventsOfKind('SystemPromptEvent')
  expect(prompt?.tools.map(({ kind }) => kind)).toEqual(['FinishTool', 'ThinkTool', 'MCPToolDefinition'])
  expect(prompt?.dynamic_context?.text).toContain('<server_instructions server="greeter">\nGreet by name.\n')
  const [action] = await life.eventsOfKind('ActionEvent')
  expect(action?.action).toEqual({ data: { name: 'Ada' }, kind: 'MCPToolAction' })
  const [result] = await life.eventsOfKind('ObservationEvent')
  expect(contentText(result?.observation.content)).toContain('Hello, Ada!')
  expect(player.requests[0]?.messages.map(({ role }) => role)).toEqual(['system', 'user'])
})

/** A server of one tool, line by line over its standard streams. */
const greeter = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  const answer = (result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
  if (method === 'initialize')
    answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'greeter', version: '1' }, instructions: 'Greet by name.' })
  else if (method === 'tools/list')
    answer({ tools: [{ name: 'greet', description: 'Greets.', inputSchema: { type: 'object', properties: { name: { type: 'string' } } } }] })
  else if (method === 'tools/call')
    answer({ content: [{ type: 'text', text: 'Hello, ' + params.arguments.name + '!' }] })
  else if (id !== undefined) answer({})
})
`

test('a pause is a PauseEvent of the user after the status', async () => {
  const waiting = createLatch()
  const life = await begin({ model: new FakeModel([{ before: () => waiting.opened }]).open })
  await life.send('go', { run: true })
  await life.conversation.pause()
  await life.conversation.pause()
  waiting.open()
  await life.conversation.waitUntilIdle()
  expect((await life.eventSummary()).slice(2, 5)).toEqual([
    'execution_status: running',
    'execution_status: paused',
    'PauseEvent',
  ])
  expect(await life.eventsOfKind('PauseEvent')).toMatchObject([{ source: 'user' }])
})

test('token ids and the log of a completion are events before the answer that they are of', async () => {
  const player = new FakeModel([
    {
      calls: [['think', { thought: 'hm' }]],
      answer: {
        tokenIds: { prompt: [1, 2], response: [3] },
        completionLog: { filename: 'played-1.json', data: '{"request":{}}' },
        usageId: 'agent',
      },
    },
  ])
  const life = await begin({ model: player.open })
  await life.sendAndWait('go')
  expect((await life.eventSummary()).slice(3, 6)).toEqual([
    'LLMCompletionLogEvent',
    'TokenEvent',
    'ActionEvent',
  ])
  expect((await life.eventsOfKind('LLMCompletionLogEvent'))[0]).toMatchObject({
    source: 'environment',
    filename: 'played-1.json',
    log_data: '{"request":{}}',
    model_name: 'played',
    usage_id: 'agent',
  })
  expect((await life.eventsOfKind('TokenEvent'))[0]).toMatchObject({
    source: 'agent',
    prompt_token_ids: [1, 2],
    response_token_ids: [3],
  })
  // Neither is shown to the model.
  expect(player.requests[1]?.messages.map(({ role }) => role)).toEqual([
    'system',
    'user',
    'assistant',
    'tool',
  ])
})

test('a model that logs its completions gives a log of each', async () => {
  const llm = {
    model: 'scripted/x',
    log_completions: true,
    api_key: 'sk-12345678',
    script: [{ text: 'Hi.' }],
  }
  const life = await begin({ agent: { llm }, model: openModel })
  await life.sendAndWait('go')
  const [log] = await life.eventsOfKind('LLMCompletionLogEvent')
  const data = JSON.parse(must(log, 'a log').log_data)
  expect(data.response.message.content[0].text).toBe('Hi.')
  expect(JSON.stringify(log)).not.toContain('sk-12345678')
})

test('what a caller changes is a ConversationStateUpdateEvent of the member and its new value, without secrets', async () => {
  const life = await begin({})
  const policy = {
    kind: 'ConfirmRisky',
    threshold: 'LOW',
    confirm_unknown: false,
    deadline_seconds: undefined,
  } as const
  await life.conversation.setPolicy(policy)
  await life.conversation.setAnalyzer({ kind: 'LLMSecurityAnalyzer' })
  await life.conversation.setAnalyzer(null)
  await life.conversation.switchModel({ ...life.settings.agent.llm, model: 'other', api_key: 'sk-87654321' })
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  expect(updates.map(({ key, value }) => [key, value]).slice(0, 3)).toEqual([
    ['confirmation_policy', { kind: 'ConfirmRisky', threshold: 'LOW', confirm_unknown: false }],
    ['security_analyzer', { kind: 'LLMSecurityAnalyzer' }],
    ['security_analyzer', undefined],
  ])
  expect(life.conversation.analyzer).toBeNull()
  expect(updates[3]).toMatchObject({
    key: 'agent',
    value: { llm: { model: 'other', api_key: '**********' } },
  })
})

test('the table of events names every kind, and tests that there are', async () => {
  const read = (path: string) => readFile(join(import.meta.dirname, '..', path), 'utf8')
  const table = await read('../../../../docs/events.md')
  for (const kind of eventKinds) expect(table).toContain(`\n| ${kind} |`)
  const named = [...table.matchAll(/`([\w/-]+\.test\.ts)`: ([^|)]+?) ?[|)]/g)]
  expect(named.length).toBeGreaterThan(40)
  for (const [, file = '', name = ''] of named) {
    expect((await read(file)).includes(`'${name}`), `${file}: ${name}`).toBe(true)
  }
})
