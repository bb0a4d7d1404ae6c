import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  collectTexts,
  eventLabel,
  findLogIssues,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../../support/agent-driver.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'

const { api, driver, directory } = await openAgentFixture()
/** Outside any repository, also after other tests. */
const unrelatedDirectory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-run-')))
afterAll(async () => await rm(unrelatedDirectory, { recursive: true, force: true }))

const makeDirectory = async (name: string) => {
  const path = join(directory, name)
  await mkdir(path, { recursive: true })
  return path
}
const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], { cwd }).toString()

test('an initial message starts a run: its events are in order, each once', async () => {
  const { id } = await driver.createScripted([
    { text: 'I look.', ...bashStep('echo "in $(pwd)"') },
    toolCallsStep(toolCall('think', { thought: 'enough' })),
    finishStep('All is well.'),
  ])
  const events = await driver.waitUntilIdle(id)
  expect(events.map(eventLabel)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'ActionEvent:terminal',
    'result:terminal',
    'ActionEvent:think',
    'result:think',
    'ActionEvent:finish',
    'result:finish',
    'execution_status=finished',
  ])
  expect(findLogIssues(events)).toEqual([])
  const [prompt, , , action, observation] = events
  expect(prompt?.tools).toMatchObject([
    { kind: 'TerminalTool' },
    { kind: 'FinishTool' },
    { kind: 'ThinkTool' },
  ])
  expect(action).toMatchObject({
    source: 'agent',
    thought: [{ type: 'text', text: 'I look.' }],
    action: { kind: 'TerminalAction', command: 'echo "in $(pwd)"' },
    security_risk: 'UNKNOWN',
  })
  expect(observation).toMatchObject({
    source: 'environment',
    action_id: action?.id,
    tool_call_id: action?.tool_call_id,
    observation: { exit_code: 0, is_error: false, timeout: false, kind: 'TerminalObservation' },
  })
  expect(collectTexts(observation)).toContain(`in ${directory}`)
})

test('a reply without a call ends a run too, and is the final response', async () => {
  const { id } = await driver.createScripted(['It is 42.'])
  expect((await driver.waitUntilIdle(id)).map(eventLabel)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'message:agent',
    'execution_status=finished',
  ])
  const { body } = await api.requestJson(`/api/conversations/${id}/agent_final_response`)
  expect(body).toEqual({ response: 'It is 42.' })
})

test('create with a known id returns 200 and repeats no message', async () => {
  const conversation_id = randomUUID()
  const first = await driver.createScripted([finishStep()], { conversation_id })
  await driver.waitUntilIdle(first.id)
  const again = await driver.tryCreate(
    { llm: scriptedModel([finishStep()]) },
    { conversation_id, initial_message: { content: [{ type: 'text', text: 'Again.' }] } },
  )
  expect([again.status, again.body.id]).toEqual([200, conversation_id])
  const said = (await driver.waitUntilIdle(first.id)).filter(({ kind }) => kind === 'MessageEvent')
  expect(said).toHaveLength(1)
})

test('two concurrent creates with one id create one conversation and start it once', async () => {
  const conversation_id = randomUUID()
  const both = await Promise.all(
    [1, 2, 3].map(() =>
      driver.tryCreate(
        { llm: scriptedModel([finishStep()]) },
        { conversation_id, initial_message: { content: [{ type: 'text', text: 'Go.' }] } },
      ),
    ),
  )
  expect(both.map(({ status }) => status).sort()).toEqual([200, 200, 201])
  const events = await driver.waitUntilIdle(conversation_id)
  expect(events.filter(({ kind }) => kind === 'MessageEvent')).toHaveLength(1)
})

test('agent_settings describe an agent: its own tools, condenser, and no secret in the reply', async () => {
  const { status, body } = (await api.sendJson('POST', '/api/conversations', {
    agent_settings: {
      llm: { ...scriptedModel([bashStep('echo hi'), finishStep()]), api_key: 'sk-of-settings-1' },
    },
    workspace: { working_dir: directory },
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    autotitle: false,
  })) as { status: number; body: ConversationInfo }
  expect(status).toBe(201)
  expect(body.agent).toMatchObject({
    kind: 'Agent',
    tools: [{ name: 'terminal' }, { name: 'file_editor' }, { name: 'task_tracker' }],
    condenser: { kind: 'LLMSummarizingCondenser' },
  })
  expect(JSON.stringify(body)).not.toContain('sk-of-settings-1')
  expect((await driver.waitUntilIdle(body.id)).map(eventLabel)).toContain('result:terminal')
})

test.each([
  [{ agent: { llm: {} } }, ['body', 'agent', 'llm', 'model']],
  [
    { agent: { llm: scriptedModel([]), tools: [{ name: 'terminal' }, { name: 'nonesuch' }] } },
    ['body', 'agent', 'tools', 1, 'name'],
  ],
  [
    { agent: { llm: scriptedModel([]), include_default_tools: ['NoTool'] } },
    ['body', 'agent', 'include_default_tools', 0],
  ],
  [{ agent: { llm: scriptedModel([]), filter_tools_regex: '(' } }, ['body', 'agent', 'filter_tools_regex']],
  [{ agent: { kind: 'ACPAgent', acp_command: [] } }, ['body', 'agent', 'acp_command']],
  [
    { agent: { kind: 'ACPAgent', acp_command: ['x'], tools: [{ name: 'terminal' }] } },
    ['body', 'agent', 'tools'],
  ],
  [{ agent: { kind: 'ACPAgent', acp_command: ['x'], acp_model: ' ' } }, ['body', 'agent', 'acp_model']],
  [
    { agent: { kind: 'ACPAgent', acp_command: ['x'] }, response_schema: { type: 'object' } },
    ['body', 'response_schema'],
  ],
  [
    { agent_settings: { agent_kind: 'acp', acp_server: 'custom' } },
    ['body', 'agent_settings', 'acp_command'],
  ],
  [
    {
      agent: {
        llm: scriptedModel([]),
        condenser: { kind: 'LLMSummarizingCondenser', max_size: 4, keep_first: 3 },
      },
    },
    ['body', 'agent', 'condenser'],
  ],
  [{ agent_settings: { llm: {} } }, ['body', 'agent_settings', 'llm', 'model']],
  [
    { agent_settings: { llm: scriptedModel([]), tools: [{ name: 'nonesuch' }] } },
    ['body', 'agent_settings', 'tools', 0, 'name'],
  ],
  [
    { agent: { llm: scriptedModel([]) }, parent_conversation_id: randomUUID() },
    ['body', 'parent_conversation_id'],
  ],
  [{ agent: { llm: scriptedModel([]) }, plugins: [{ source: 'x' }] }, ['body', 'plugins', 0, 'source']],
])('an invalid create request (%j) is refused with its location', async (body, place) => {
  const workspace = { working_dir: directory }
  const answer = (await api.sendJson('POST', '/api/conversations', { workspace, ...body })) as {
    status: number
    body: { detail: { loc: unknown[] }[] }
  }
  expect([answer.status, answer.body.detail[0]?.loc.slice(0, place.length)]).toEqual([422, place])
})

test('a tool with invalid parameters ends the run with an error that names them', async () => {
  const tools = [{ name: 'terminal', params: { no_change_timeout_seconds: 'soon' } }]
  const answer = await driver.tryCreate(
    { llm: scriptedModel([finishStep()]), tools },
    { initial_message: { content: [{ type: 'text', text: 'Go.' }] } },
  )
  if (answer.status === 422) return
  const events = await driver.waitUntilIdle(answer.body.id)
  expect(events.map(eventLabel).slice(-2)).toEqual([
    'execution_status=error',
    expect.stringMatching(/^ConversationErrorEvent/),
  ])
  expect(events.at(-1)?.detail).toMatch(/no_change_timeout_seconds|number/)
})

test('an unknown agent profile is not found', async () => {
  const { status } = await api.sendJson('POST', '/api/conversations', {
    agent_profile_id: randomUUID(),
    workspace: { working_dir: directory },
  })
  expect(status).toBe(404)
})

test('a directory outside a repository becomes one, one inside a repository does not change', async () => {
  const outer = join(unrelatedDirectory, 'deep')
  const first = await driver.create({ llm: scriptedModel([]) }, { workspace: { working_dir: outer } })
  expect(first.workspace).toEqual({ working_dir: outer, kind: 'LocalWorkspace' })
  expect(existsSync(join(outer, '.git'))).toBe(true)
  const inner = join(outer, 'inner')
  await driver.create({ llm: scriptedModel([]) }, { workspace: { working_dir: inner } })
  expect([existsSync(inner), existsSync(join(inner, '.git'))]).toEqual([true, false])
})

test('a relative working directory is made absolute', async () => {
  const name = `slipway-relative-${randomUUID()}`
  const { workspace } = await driver.create(
    { llm: scriptedModel([]) },
    { workspace: { working_dir: join('node_modules', '.cache', name) } },
  )
  expect(workspace.working_dir).toMatch(new RegExp(`^/.*${name}$`))
  await rm(workspace.working_dir, { recursive: true, force: true })
})

test('a working directory that cannot be created is refused with its location', async () => {
  await writeFile(join(directory, 'a-file'), '')
  const answer = await driver.tryCreate(
    { llm: scriptedModel([]) },
    { workspace: { working_dir: join(directory, 'a-file', 'below') } },
  )
  expect(answer).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'workspace', 'working_dir'] }] },
  })
})

test('with worktree the agent works in a worktree, and the repository does not change', async () => {
  const repository = await makeDirectory('repo-with-commit')
  git(repository, 'init', '--quiet')
  await writeFile(join(repository, 'file'), 'one\n')
  git(repository, 'add', '.')
  git(repository, 'commit', '--quiet', '-m', 'first')
  const { id, workspace } = await driver.create(
    { llm: scriptedModel([bashStep('echo two > file && pwd'), finishStep()]) },
    {
      workspace: { working_dir: repository },
      worktree: true,
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    },
  )
  const events = await driver.waitUntilIdle(id)
  expect(workspace.working_dir).not.toContain(repository)
  expect(collectTexts(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain(
    workspace.working_dir,
  )
  expect(await readFile(join(repository, 'file'), 'utf8')).toBe('one\n')
  expect(await readFile(join(workspace.working_dir, 'file'), 'utf8')).toBe('two\n')
  expect(git(repository, 'worktree', 'list')).toContain(workspace.working_dir)
  const working_dir = join(unrelatedDirectory, 'no-repository')
  const none = await driver.create({ llm: scriptedModel([]) }, { workspace: { working_dir }, worktree: true })
  expect(none.workspace.working_dir).toBe(working_dir)
})

test('a conversation has every member of its wire form, and its usage', async () => {
  const { id } = await driver.createScripted([bashStep('true'), finishStep()], {
    tags: { team: 'x' },
    secrets: { TOKEN_A: { kind: 'StaticSecret', value: 'tok-of-info-1', description: 'for A' } },
  })
  const events = await driver.waitUntilIdle(id)
  const info = await driver.getInfo(id)
  expect(Object.keys(info).sort()).toEqual(
    [
      'id workspace persistence_dir max_iterations stuck_detection execution_status confirmation_policy',
      'security_analyzer activated_knowledge_skills invoked_skills blocked_actions blocked_messages',
      'last_user_message_id leaf_event_id stats secret_registry agent_state hook_config title metrics created_at',
      'updated_at forked_from_conversation_id forked_from_event_id parent_conversation_id sub_conversation_ids tags',
      'current_model_id available_models supports_runtime_model_switch launched_agent_profile agent client_tools',
      'runtime_info',
    ]
      .join(' ')
      .split(' ')
      .sort(),
  )
  const message = events.find(({ kind }) => kind === 'MessageEvent')
  expect(info).toMatchObject({
    id,
    workspace: { working_dir: directory, kind: 'LocalWorkspace' },
    persistence_dir: expect.stringContaining(id.replaceAll('-', '')),
    max_iterations: 500,
    stuck_detection: true,
    execution_status: 'finished',
    confirmation_policy: { kind: 'NeverConfirm' },
    security_analyzer: null,
    activated_knowledge_skills: [],
    last_user_message_id: message?.id,
    leaf_event_id: events.at(-1)?.id,
    secret_registry: {
      secret_sources: { TOKEN_A: { kind: 'StaticSecret', value: '**********', description: 'for A' } },
    },
    title: null,
    tags: { team: 'x' },
    agent: { kind: 'Agent', llm: { model: 'scripted/test', api_key: null, usage_id: 'agent' } },
    supports_runtime_model_switch: false,
  })
  const { usage_to_metrics } = info.stats as { usage_to_metrics: Record<string, Record<string, unknown[]>> }
  expect(Object.keys(usage_to_metrics)).toEqual(['agent'])
  expect(usage_to_metrics.agent).toMatchObject({
    model_name: 'scripted/test',
    accumulated_token_usage: { prompt_tokens: expect.any(Number) },
  })
  expect(usage_to_metrics.agent?.token_usages).toHaveLength(2)
  expect(info.metrics).toMatchObject({
    accumulated_cost: 0,
    accumulated_token_usage: { model: 'scripted/test' },
  })
})

test('metrics are the sum over usage ids', async () => {
  const llm = scriptedModel(
    [
      { ...bashStep('true'), usage: { prompt_tokens: 100, completion_tokens: 10 } },
      { text: 'Aside.', side: true, usage: { prompt_tokens: 7, completion_tokens: 3 } },
      { ...finishStep(), usage: { prompt_tokens: 200, completion_tokens: 20 } },
    ],
    { input_cost_per_token: 0.001, output_cost_per_token: 0.01 },
  )
  const { id } = await driver.create(
    { llm },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  await driver.waitUntilIdle(id)
  await driver.post(id, 'generate_title')
  const info = await driver.getInfo(id)
  expect(info.metrics).toMatchObject({
    accumulated_token_usage: { prompt_tokens: 307, completion_tokens: 33 },
  })
  expect((info.metrics as { accumulated_cost: number }).accumulated_cost).toBeCloseTo(0.307 + 0.33)
})

test('a message with run starts a run, one without does not; run during a run is 409, run when finished changes nothing', async () => {
  const { id } = await driver.create({
    llm: scriptedModel([{ ...bashStep('true'), delay_ms: 700 }, finishStep(), 'More.']),
  })
  expect((await driver.post(id, 'events', { content: [{ type: 'text', text: 'First.' }] })).status).toBe(200)
  expect((await driver.getInfo(id)).execution_status).toBe('idle')
  expect((await driver.post(id, 'run')).status).toBe(200)
  expect((await driver.getInfo(id)).execution_status).toBe('running')
  expect(await driver.post(id, 'run')).toMatchObject({
    status: 409,
    body: { detail: 'Conversation already running. Wait for completion or pause first.' },
  })
  const ended = await driver.waitUntilIdle(id)
  expect((await driver.post(id, 'run')).status).toBe(200)
  expect(await driver.getEvents(id)).toHaveLength(ended.length)
  await driver.sendMessage(id, 'Second.')
  const more = await driver.waitUntilIdle(id)
  expect(more.slice(ended.length).map(eventLabel)).toEqual([
    'execution_status=idle',
    'message:user',
    'execution_status=running',
    'message:agent',
    'execution_status=finished',
  ])
})

test('a message during a run is answered by the same run', async () => {
  const { id } = await driver.createScripted([
    { ...bashStep('true'), delay_ms: 500 },
    'One.',
    'Two.',
    'Three.',
  ])
  await driver.sendMessage(id, 'And this?')
  const events = await driver.waitUntilIdle(id)
  const last = events.filter(({ kind }) => kind === 'MessageEvent').at(-1)
  expect(last?.source).toBe('agent')
  expect(events.filter((event) => eventLabel(event) === 'message:user')).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(findLogIssues(events)).toEqual([])
})

test('concurrent messages are each stored once and all answered', async () => {
  const { id } = await driver.create({
    llm: scriptedModel(Array.from({ length: 60 }, (_, n) => `Answer ${n}.`)),
  })
  await Promise.all(Array.from({ length: 20 }, (_, n) => driver.sendMessage(id, `Message ${n}.`)))
  const events = await driver.waitUntilIdle(id)
  const said = events.filter((event) => eventLabel(event) === 'message:user').map(collectTexts)
  expect(new Set(said).size).toBe(20)
  const lastOf = (what: string) => events.findLastIndex((event) => eventLabel(event) === what)
  expect(lastOf('message:agent')).toBeGreaterThan(lastOf('message:user'))
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
})

const verbs: readonly (readonly [string, string, object | undefined])[] = [
  ['POST', 'run', undefined],
  ['POST', 'pause', undefined],
  ['POST', 'interrupt', undefined],
  ['POST', 'secrets', { secrets: {} }],
  ['POST', 'confirmation_policy', { policy: { kind: 'NeverConfirm' } }],
  ['POST', 'security_analyzer', { security_analyzer: null }],
  ['POST', 'ask_agent', { question: '?' }],
  ['POST', 'condense', undefined],
  ['POST', 'fork', undefined],
  ['POST', 'generate_title', undefined],
  ['POST', 'switch_llm', { llm: scriptedModel([]) }],
  ['POST', 'switch_profile', { profile_name: 'p' }],
  ['POST', 'events', { content: [{ type: 'text', text: 'x' }] }],
  ['POST', 'events/respond_to_confirmation', { accept: true }],
  ['GET', 'agent_final_response', undefined],
  ['GET', 'events/search', undefined],
  ['DELETE', '', undefined],
]

test('requests for an unknown conversation are 404', async () => {
  const id = randomUUID()
  for (const [method, verb, body] of verbs) {
    const path = `/api/conversations/${id}${verb === '' ? '' : `/${verb}`}`
    const answer =
      body === undefined ? await api.requestJson(path, { method }) : await api.sendJson(method, path, body)
    // Clients compare this text.
    const known: Record<string, string> = {
      condense: 'Conversation not found',
      fork: 'Source conversation not found',
    }
    const detail = known[verb] ?? expect.stringContaining(id)
    expect([verb, answer]).toEqual([verb, { status: 404, body: { detail } }])
  }
})

test('an imported conversation has no agent: 409 where one is needed, and nothing to stop', async () => {
  const id = await api.import('')
  for (const [, verb, body] of verbs.filter(([method]) => method === 'POST')) {
    const expected = ['pause', 'interrupt', 'events', 'events/respond_to_confirmation'].includes(verb)
      ? 200
      : verb === 'fork'
        ? 201
        : 409
    expect([verb, (await driver.post(id, verb, body)).status]).toEqual([verb, expected])
  }
})

test('the socket shows a run in order: ready, events as they are stored, then one full_state at its end', async () => {
  const { id } = await driver.create({ llm: scriptedModel([bashStep('true'), finishStep()]) })
  await using client = driver.openSocket(`/sockets/events/${id}`)
  const [ready] = await client.waitUntil((events) => events.length > 0)
  expect(ready).toMatchObject({ key: 'full_state', value: { execution_status: 'idle' } })
  await driver.sendMessage(id, 'Begin.')
  const isOver = (event: ApiEvent) =>
    event.key === 'full_state' && (event.value as ConversationInfo).execution_status === 'finished'
  const frames = await client.waitUntil((events) => events.some(isOver))
  const seen = frames.map(eventLabel).filter((what) => !what.startsWith('stats='))
  expect(seen).toEqual(['full_state', ...(await driver.getEvents(id)).map(eventLabel), 'full_state'])
  const stats = frames.filter(({ key }) => key === 'stats')
  expect(stats.length).toBeGreaterThan(0)
  expect(stats[0]?.value).toMatchObject({ usage_to_metrics: { agent: { model_name: 'scripted/test' } } })
  expect(frames.at(-1)?.value).toMatchObject({
    id,
    persistence_dir: expect.any(String),
    workspace: { working_dir: directory },
    agent: { kind: 'Agent' },
    confirmation_policy: { kind: 'NeverConfirm' },
  })
  expect(JSON.stringify(frames.filter(({ key }) => key !== 'stats'))).not.toContain(':null')
  await driver.post(id, 'run')
  await client.waitUntil((events) => events.filter(isOver).length >= 2)
})

test('the socket sends the state after a pause and after an interrupt too', async () => {
  const { id } = await driver.create({ llm: scriptedModel([{ ...finishStep(), delay_ms: 20_000 }]) })
  await using client = driver.openSocket(`/sockets/events/${id}`)
  const paused = (count: number) => (events: readonly ApiEvent[]) =>
    events.filter(
      ({ key, value }) => key === 'full_state' && (value as ConversationInfo).execution_status === 'paused',
    ).length >= count
  await driver.post(id, 'pause')
  await client.waitUntil(paused(1))
  await driver.sendMessage(id, 'Begin.')
  await client.waitUntil((events) => events.some((event) => eventLabel(event) === 'execution_status=running'))
  await driver.post(id, 'interrupt')
  await client.waitUntil(paused(2))
})

test('a message over the socket starts a run, with and without `run`', async () => {
  const { id } = await driver.create({ llm: scriptedModel([finishStep('From the socket.')]) })
  await using client = driver.openSocket(`/sockets/events/${id}`)
  await client.waitUntil((events) => events.length > 0)
  client.socket.send('{"role":"user","content":[{"type":"text","text":"Begin."}]}')
  await client.waitUntil((events) =>
    events.some((event) => eventLabel(event) === 'execution_status=finished'),
  )
})

const words = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ')
const deltas = (events: readonly ApiEvent[]) =>
  events.filter(({ kind }) => kind === 'StreamingDeltaEvent').map(({ content = '' }) => content)

test.each([0, 2])(
  'a socket receives deltas of a streaming model, all of them when it keeps up (%i ms)',
  async (delta_ms) => {
    const { id } = await driver.create({ llm: scriptedModel([{ text: words, delta_ms }], { stream: true }) })
    await using client = driver.openSocket(`/sockets/events/${id}`)
    await client.waitUntil((events) => events.length > 0)
    await driver.sendMessage(id, 'Begin.')
    const frames = await client.waitUntil((events) => events.some(({ value }) => value === 'finished'))
    expect(deltas(frames).join('')).toBe(words)
    const answer = frames.findIndex((event) => eventLabel(event) === 'message:agent')
    expect(frames.findLastIndex(({ kind }) => kind === 'StreamingDeltaEvent')).toBeLessThan(answer)
    expect((await driver.getEvents(id)).some(({ kind }) => kind === 'StreamingDeltaEvent')).toBe(false)
  },
)

test('without llm.stream the plain socket receives no deltas, the resumable one receives them as hints', async () => {
  const { id } = await driver.create({ llm: scriptedModel([{ text: words, delta_ms: 2 }]) })
  await using plain = driver.openSocket(`/sockets/events/${id}`)
  await plain.waitUntil((events) => events.length > 0)
  await using resumable = driver.openSocket(`/sockets/events/${id}?after=0`)
  await driver.sendMessage(id, 'Begin.')
  await plain.waitUntil((events) => events.some(({ value }) => value === 'finished'))
  expect(deltas(plain.events())).toEqual([])
  const ended = (event: ApiEvent) => (event.event as ApiEvent | undefined)?.value === 'finished'
  const frames = await resumable.waitUntil((events) => events.some(ended))
  const hints = frames.flatMap(({ hint }) => (hint === undefined ? [] : [hint as ApiEvent]))
  expect(deltas(hints).length).toBeGreaterThan(0)
  expect(words.startsWith(deltas(hints).join('').slice(0, 5))).toBe(true)
  const positions = frames.flatMap(({ position }) => (position === undefined ? [] : [position]))
  expect(positions).toEqual(positions.map((_, at) => at + 1))
})

test('a title is generated in the background, and never replaces a title of the user', async () => {
  const llm = scriptedModel([finishStep(), { text: '"About beginnings"', side: true }])
  const { id } = await driver.create(
    { llm },
    { autotitle: true, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  const events = await driver.waitUntilIdle(id)
  let title: string | null = null
  for (let tries = 0; tries < 200 && title === null; tries++) {
    title = (await driver.getInfo(id)).title
    if (title === null) await sleep(30)
  }
  expect(title).toBe('About beginnings')
  expect(await driver.getEvents(id)).toHaveLength(events.length)
  await api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Mine' })
  await driver.sendMessage(id, 'More.')
  await driver.waitUntilIdle(id)
  expect((await driver.getInfo(id)).title).toBe('Mine')
})

test('a run at its step limit ends in an error with the limit', async () => {
  const { id } = await driver.createScripted(
    Array.from({ length: 9 }, (_, n) => bashStep(`echo ${n}`)),
    { max_iterations: 3 },
  )
  const events = await driver.waitUntilIdle(id)
  expect(events.slice(-2)).toMatchObject([
    { key: 'execution_status', value: 'error' },
    { code: 'MaxIterationsReached', detail: expect.stringContaining('(3)') },
  ])
  await driver.post(id, 'run')
  expect((await driver.waitUntilIdle(id)).filter(({ kind }) => kind === 'ObservationEvent')).toHaveLength(6)
})

test('an agent in a loop is stuck, and a new message continues it', async () => {
  const { id } = await driver.createScripted([
    ...Array.from({ length: 4 }, () => bashStep('echo same')),
    finishStep(),
  ])
  const events = await driver.waitUntilIdle(id)
  expect(events.at(-1)).toMatchObject({ value: 'stuck' })
  await driver.sendMessage(id, 'Stop that.')
  expect((await driver.waitUntilIdle(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('fifty conversations at once are all finished, each with its own results', {
  timeout: 90_000,
}, async () => {
  const started = performance.now()
  const ids = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const { id } = await driver.createScripted([
        bashStep(`echo number-${n}-$((${n} * 2))`),
        finishStep(`${n}`),
      ])
      return id
    }),
  )
  const logs = await Promise.all(ids.map((id) => driver.waitUntilIdle(id)))
  for (const [n, events] of logs.entries()) {
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    expect(findLogIssues(events)).toEqual([])
    expect(collectTexts(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain(
      `number-${n}-${n * 2}`,
    )
  }
  console.log(`fifty conversations: ${Math.round(performance.now() - started)} ms`)
})

test('a client tool is offered to the model, its call is answered at once, and the client sends the result', async () => {
  const parameters = { type: 'object', properties: { token: { type: 'string' } }, required: ['token'] }
  const client_tools = [{ name: 'show_panel', description: 'Shows a panel.', parameters }]
  const script = [
    toolCallsStep(toolCall('show_panel', {})),
    toolCallsStep(toolCall('show_panel', { token: 'x' })),
    finishStep(),
  ]
  const { id, client_tools: storedTools } = await driver.create(
    { llm: scriptedModel(script) },
    { client_tools, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  expect(storedTools).toMatchObject([{ name: 'show_panel', parameters }])
  const events = await driver.waitUntilIdle(id)
  expect(findLogIssues(events)).toEqual([])
  expect(events[0]?.tools).toContainEqual(
    expect.objectContaining({ kind: 'ClientTool', client_tool_name: 'show_panel', input_schema: parameters }),
  )
  const [refused, shown] = events.filter(({ kind }) => kind === 'ActionEvent')
  expect(refused).not.toHaveProperty('action')
  expect(shown?.action).toEqual({ token: 'x', kind: 'ClientAction_show_panel' })
  const answer = events.find(({ kind }) => kind === 'ObservationEvent')
  expect(answer?.observation).toMatchObject({ is_error: false, kind: 'ClientToolObservation' })
})

test('a conversation lists its sub-conversations', async () => {
  const { id } = await driver.create({ llm: scriptedModel([]) })
  const child = await driver.create({ llm: scriptedModel([]) }, { parent_conversation_id: id })
  expect(await driver.getInfo(id)).toMatchObject({ sub_conversation_ids: [child.id] })
  expect(await driver.getInfo(child.id)).toMatchObject({
    parent_conversation_id: id,
    sub_conversation_ids: [],
  })
})
