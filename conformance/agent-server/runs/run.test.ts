import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bash,
  brief,
  call,
  calls,
  Driver,
  faultsOf,
  finish,
  type Info,
  scripted,
  texts,
} from '../../support/agent-driver.ts'
import { openServer, type TestServer } from '../../support/agent-server.ts'
import { Api, type Event } from '../../support/agent-server-api.ts'

let server: TestServer
let api: Api
let drive: Driver
let directory: string
/** In no repository, also after others have worked. */
let elsewhere: string
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-run-')))
  elsewhere = await realpath(await mkdtemp(join(tmpdir(), 'slipway-run-')))
  server = await openServer()
  api = new Api(server)
  drive = new Driver({ api, server, directory })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  for (const path of [directory, elsewhere]) await rm(path, { recursive: true, force: true })
})

const fresh = async (name: string) => {
  const path = join(directory, name)
  await mkdir(path, { recursive: true })
  return path
}
const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], { cwd }).toString()

test('an initial message is run: the events of a whole run stand in their order, each once', async () => {
  const { id } = await drive.play([
    { text: 'I look.', ...bash('echo "in $(pwd)"') },
    calls(call('think', { thought: 'enough' })),
    finish('All is well.'),
  ])
  const events = await drive.rest(id)
  expect(events.map(brief)).toEqual([
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
  expect(faultsOf(events)).toEqual([])
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
  expect(texts(observation)).toContain(`in ${directory}`)
})

test('an answer without a call ends a run too, and is the final response', async () => {
  const { id } = await drive.play(['It is 42.'])
  expect((await drive.rest(id)).map(brief)).toEqual([
    'SystemPromptEvent',
    'message:user',
    'execution_status=running',
    'message:agent',
    'execution_status=finished',
  ])
  const { body } = await api.json(`/api/conversations/${id}/agent_final_response`)
  expect(body).toEqual({ response: 'It is 42.' })
})

test('create with a known id answers 200 and says nothing again', async () => {
  const conversation_id = randomUUID()
  const first = await drive.play([finish()], { conversation_id })
  await drive.rest(first.id)
  const again = await drive.ask(
    { llm: scripted([finish()]) },
    { conversation_id, initial_message: { content: 'Again.' } },
  )
  expect([again.status, again.body.id]).toEqual([200, conversation_id])
  const said = (await drive.rest(first.id)).filter(({ kind }) => kind === 'MessageEvent')
  expect(said).toHaveLength(1)
})

test('two creates with one id at the same time make one conversation that is begun once', async () => {
  const conversation_id = randomUUID()
  const both = await Promise.all(
    [1, 2, 3].map(() =>
      drive.ask({ llm: scripted([finish()]) }, { conversation_id, initial_message: { content: 'Go.' } }),
    ),
  )
  expect(both.map(({ status }) => status).sort()).toEqual([200, 200, 201])
  const events = await drive.rest(conversation_id)
  expect(events.filter(({ kind }) => kind === 'MessageEvent')).toHaveLength(1)
})

test('agent_settings describe an agent: tools of their own, condenser, and no secret in the answer', async () => {
  const { status, body } = (await api.send('POST', '/api/conversations', {
    agent_settings: { llm: { ...scripted([bash('echo hi'), finish()]), api_key: 'sk-of-settings-1' } },
    workspace: { working_dir: directory },
    initial_message: { content: 'Begin.' },
    autotitle: false,
  })) as { status: number; body: Info }
  expect(status).toBe(201)
  expect(body.agent).toMatchObject({
    kind: 'Agent',
    tools: [{ name: 'terminal' }, { name: 'file_editor' }, { name: 'task_tracker' }],
    condenser: { kind: 'LLMSummarizingCondenser' },
  })
  expect(JSON.stringify(body)).not.toContain('sk-of-settings-1')
  expect((await drive.rest(body.id)).map(brief)).toContain('result:terminal')
})

test.each([
  [{ agent: { llm: {} } }, ['body', 'agent', 'llm', 'model']],
  [
    { agent: { llm: scripted([]), tools: [{ name: 'terminal' }, { name: 'nonesuch' }] } },
    ['body', 'agent', 'tools', 1, 'name'],
  ],
  [
    { agent: { llm: scripted([]), include_default_tools: ['NoTool'] } },
    ['body', 'agent', 'include_default_tools', 0],
  ],
  [{ agent: { llm: scripted([]), filter_tools_regex: '(' } }, ['body', 'agent', 'filter_tools_regex']],
  [{ agent: { kind: 'ACPAgent', acp_command: ['x'] } }, ['body', 'agent']],
  [
    {
      agent: {
        llm: scripted([]),
        condenser: { kind: 'LLMSummarizingCondenser', max_size: 4, keep_first: 3 },
      },
    },
    ['body', 'agent', 'condenser'],
  ],
  [{ agent_settings: { llm: {} } }, ['body', 'agent_settings', 'llm', 'model']],
  [
    { agent_settings: { llm: scripted([]), tools: [{ name: 'nonesuch' }] } },
    ['body', 'agent_settings', 'tools', 0, 'name'],
  ],
  [
    { agent: { llm: scripted([]) }, parent_conversation_id: randomUUID() },
    ['body', 'parent_conversation_id'],
  ],
  [{ agent: { llm: scripted([]) }, plugins: [{ source: 'x' }] }, ['body', 'plugins', 0, 'source']],
])('a conversation that cannot be (%j) is refused at its place', async (body, place) => {
  const workspace = { working_dir: directory }
  const answer = (await api.send('POST', '/api/conversations', { workspace, ...body })) as {
    status: number
    body: { detail: { loc: unknown[] }[] }
  }
  expect([answer.status, answer.body.detail[0]?.loc.slice(0, place.length)]).toEqual([422, place])
})

test('a tool with parameters that it cannot take ends the run with an error that says so', async () => {
  const tools = [{ name: 'terminal', params: { no_change_timeout_seconds: 'soon' } }]
  const answer = await drive.ask(
    { llm: scripted([finish()]), tools },
    { initial_message: { content: 'Go.' } },
  )
  if (answer.status === 422) return
  const events = await drive.rest(answer.body.id)
  expect(events.map(brief).slice(-2)).toEqual([
    'execution_status=error',
    expect.stringMatching(/^ConversationErrorEvent/),
  ])
  expect(events.at(-1)?.detail).toMatch(/no_change_timeout_seconds|number/)
})

test('an unknown agent profile is not found', async () => {
  const { status } = await api.send('POST', '/api/conversations', {
    agent_profile_id: randomUUID(),
    workspace: { working_dir: directory },
  })
  expect(status).toBe(404)
})

test('a directory of no repository becomes one, one inside a repository stays as it is', async () => {
  const outer = join(elsewhere, 'deep')
  const first = await drive.create({ llm: scripted([]) }, { workspace: { working_dir: outer } })
  expect(first.workspace).toEqual({ working_dir: outer, kind: 'LocalWorkspace' })
  expect(existsSync(join(outer, '.git'))).toBe(true)
  const inner = join(outer, 'inner')
  await drive.create({ llm: scripted([]) }, { workspace: { working_dir: inner } })
  expect([existsSync(inner), existsSync(join(inner, '.git'))]).toEqual([true, false])
})

test('a relative working directory is made absolute', async () => {
  const name = `slipway-relative-${randomUUID()}`
  const { workspace } = await drive.create(
    { llm: scripted([]) },
    { workspace: { working_dir: join('node_modules', '.cache', name) } },
  )
  expect(workspace.working_dir).toMatch(new RegExp(`^/.*${name}$`))
  await rm(workspace.working_dir, { recursive: true, force: true })
})

test('a working directory that cannot be made is refused at its place', async () => {
  await writeFile(join(directory, 'a-file'), '')
  const answer = await drive.ask(
    { llm: scripted([]) },
    { workspace: { working_dir: join(directory, 'a-file', 'below') } },
  )
  expect(answer).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'workspace', 'working_dir'] }] },
  })
})

test('with worktree the agent works in a tree of its own, and the repository stays as it was', async () => {
  const repository = await fresh('repo-with-commit')
  git(repository, 'init', '--quiet')
  await writeFile(join(repository, 'file'), 'one\n')
  git(repository, 'add', '.')
  git(repository, 'commit', '--quiet', '-m', 'first')
  const { id, workspace } = await drive.create(
    { llm: scripted([bash('echo two > file && pwd'), finish()]) },
    { workspace: { working_dir: repository }, worktree: true, initial_message: { content: 'Begin.' } },
  )
  const events = await drive.rest(id)
  expect(workspace.working_dir).not.toContain(repository)
  expect(texts(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain(workspace.working_dir)
  expect(await readFile(join(repository, 'file'), 'utf8')).toBe('one\n')
  expect(await readFile(join(workspace.working_dir, 'file'), 'utf8')).toBe('two\n')
  expect(git(repository, 'worktree', 'list')).toContain(workspace.working_dir)
  const working_dir = join(elsewhere, 'no-repository')
  const none = await drive.create({ llm: scripted([]) }, { workspace: { working_dir }, worktree: true })
  expect(none.workspace.working_dir).toBe(working_dir)
})

test('a conversation answers every member of its wire form, with what it has used', async () => {
  const { id } = await drive.play([bash('true'), finish()], {
    tags: { team: 'x' },
    secrets: { TOKEN_A: { kind: 'StaticSecret', value: 'tok-of-info-1', description: 'for A' } },
  })
  const events = await drive.rest(id)
  const info = await drive.info(id)
  expect(Object.keys(info).sort()).toEqual(
    [
      'id workspace persistence_dir max_iterations stuck_detection execution_status confirmation_policy',
      'security_analyzer activated_knowledge_skills invoked_skills blocked_actions blocked_messages',
      'last_user_message_id leaf_event_id stats secret_registry agent_state hook_config title metrics created_at',
      'updated_at forked_from_conversation_id forked_from_event_id parent_conversation_id sub_conversation_ids tags',
      'current_model_id available_models supports_runtime_model_switch launched_agent_profile agent client_tools',
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
      secret_sources: { TOKEN_A: { kind: 'StaticSecret', value: null, description: 'for A' } },
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

test('one event says as many tokens as its parts: metrics are the sum over usage ids', async () => {
  const llm = scripted(
    [
      { ...bash('true'), usage: { prompt_tokens: 100, completion_tokens: 10 } },
      { text: 'Aside.', side: true, usage: { prompt_tokens: 7, completion_tokens: 3 } },
      { ...finish(), usage: { prompt_tokens: 200, completion_tokens: 20 } },
    ],
    { input_cost_per_token: 0.001, output_cost_per_token: 0.01 },
  )
  const { id } = await drive.create({ llm }, { initial_message: { content: 'Begin.' } })
  await drive.rest(id)
  await drive.post(id, 'generate_title')
  const info = await drive.info(id)
  expect(info.metrics).toMatchObject({
    accumulated_token_usage: { prompt_tokens: 307, completion_tokens: 33 },
  })
  expect((info.metrics as { accumulated_cost: number }).accumulated_cost).toBeCloseTo(0.307 + 0.33)
})

test('a message with run runs, one without waits; run beside a run is 409, run when finished changes nothing', async () => {
  const { id } = await drive.create({
    llm: scripted([{ ...bash('true'), delay_ms: 700 }, finish(), 'More.']),
  })
  expect((await drive.post(id, 'events', { content: 'First.' })).status).toBe(200)
  expect((await drive.info(id)).execution_status).toBe('idle')
  expect((await drive.post(id, 'run')).status).toBe(200)
  expect((await drive.info(id)).execution_status).toBe('running')
  expect(await drive.post(id, 'run')).toMatchObject({
    status: 409,
    body: { detail: 'Conversation already running. Wait for completion or pause first.' },
  })
  const ended = await drive.rest(id)
  expect((await drive.post(id, 'run')).status).toBe(200)
  expect(await drive.events(id)).toHaveLength(ended.length)
  await drive.say(id, 'Second.')
  const more = await drive.rest(id)
  expect(more.slice(ended.length).map(brief)).toEqual([
    'execution_status=idle',
    'message:user',
    'execution_status=running',
    'message:agent',
    'execution_status=finished',
  ])
})

test('a message while it runs is answered by the same run', async () => {
  const { id } = await drive.play([{ ...bash('true'), delay_ms: 500 }, 'One.', 'Two.', 'Three.'])
  await drive.say(id, 'And this?')
  const events = await drive.rest(id)
  const last = events.filter(({ kind }) => kind === 'MessageEvent').at(-1)
  expect(last?.source).toBe('agent')
  expect(events.filter((event) => brief(event) === 'message:user')).toHaveLength(2)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(faultsOf(events)).toEqual([])
})

test('messages from many at once are each stored once and all of them answered', async () => {
  const { id } = await drive.create({ llm: scripted(Array.from({ length: 60 }, (_, n) => `Answer ${n}.`)) })
  await Promise.all(Array.from({ length: 20 }, (_, n) => drive.say(id, `Message ${n}.`)))
  const events = await drive.rest(id)
  const said = events.filter((event) => brief(event) === 'message:user').map(texts)
  expect(new Set(said).size).toBe(20)
  const lastOf = (what: string) => events.findLastIndex((event) => brief(event) === what)
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
  ['POST', 'switch_llm', { llm: scripted([]) }],
  ['POST', 'switch_profile', { profile_name: 'p' }],
  ['POST', 'events', { content: 'x' }],
  ['POST', 'events/respond_to_confirmation', { accept: true }],
  ['GET', 'agent_final_response', undefined],
  ['GET', 'events/search', undefined],
  ['DELETE', '', undefined],
]

test('what is asked of a conversation that is not there is not found', async () => {
  const id = randomUUID()
  for (const [method, verb, body] of verbs) {
    const path = `/api/conversations/${id}${verb === '' ? '' : `/${verb}`}`
    const answer = body === undefined ? await api.json(path, { method }) : await api.send(method, path, body)
    expect([verb, answer]).toEqual([verb, { status: 404, body: { detail: expect.stringContaining(id) } }])
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
    expect([verb, (await drive.post(id, verb, body)).status]).toEqual([verb, expected])
  }
})

test('the socket shows a run in order: ready, events as they are stored, then one full_state when it is over', async () => {
  const { id } = await drive.create({ llm: scripted([bash('true'), finish()]) })
  await using client = drive.open(`/sockets/events/${id}`)
  const [ready] = await client.until((events) => events.length > 0)
  expect(ready).toMatchObject({ key: 'full_state', value: { execution_status: 'idle' } })
  await drive.say(id, 'Begin.')
  const isOver = (event: Event) =>
    event.key === 'full_state' && (event.value as Info).execution_status === 'finished'
  const frames = await client.until((events) => events.some(isOver))
  const seen = frames.map(brief).filter((what) => !what.startsWith('stats='))
  expect(seen).toEqual(['full_state', ...(await drive.events(id)).map(brief), 'full_state'])
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
  await drive.post(id, 'run')
  await client.until((events) => events.filter(isOver).length >= 2)
})

test('the state after a pause and after an interrupt comes to the socket too', async () => {
  const { id } = await drive.create({ llm: scripted([{ ...finish(), delay_ms: 20_000 }]) })
  await using client = drive.open(`/sockets/events/${id}`)
  const paused = (count: number) => (events: readonly Event[]) =>
    events.filter(({ key, value }) => key === 'full_state' && (value as Info).execution_status === 'paused')
      .length >= count
  await drive.post(id, 'pause')
  await client.until(paused(1))
  await drive.say(id, 'Begin.')
  await client.until((events) => events.some((event) => brief(event) === 'execution_status=running'))
  await drive.post(id, 'interrupt')
  await client.until(paused(2))
})

test('a message over the socket is run, whether it says so or not', async () => {
  const { id } = await drive.create({ llm: scripted([finish('From the socket.')]) })
  await using client = drive.open(`/sockets/events/${id}`)
  await client.until((events) => events.length > 0)
  client.socket.send('{"role":"user","content":[{"type":"text","text":"Begin."}]}')
  await client.until((events) => events.some((event) => brief(event) === 'execution_status=finished'))
})

const words = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ')
const deltas = (events: readonly Event[]) =>
  events.filter(({ kind }) => kind === 'StreamingDeltaEvent').map(({ content = '' }) => content)

test.each([0, 2])(
  'pieces of an answer come to a socket when the model streams, complete when it keeps up (%i ms)',
  async (delta_ms) => {
    const { id } = await drive.create({ llm: scripted([{ text: words, delta_ms }], { stream: true }) })
    await using client = drive.open(`/sockets/events/${id}`)
    await client.until((events) => events.length > 0)
    await drive.say(id, 'Begin.')
    const frames = await client.until((events) => events.some(({ value }) => value === 'finished'))
    expect(deltas(frames).join('')).toBe(words)
    const answer = frames.findIndex((event) => brief(event) === 'message:agent')
    expect(frames.findLastIndex(({ kind }) => kind === 'StreamingDeltaEvent')).toBeLessThan(answer)
    expect((await drive.events(id)).some(({ kind }) => kind === 'StreamingDeltaEvent')).toBe(false)
  },
)

test('without llm.stream the plain socket has no pieces, the resumable one has them as hints', async () => {
  const { id } = await drive.create({ llm: scripted([{ text: words, delta_ms: 2 }]) })
  await using plain = drive.open(`/sockets/events/${id}`)
  await plain.until((events) => events.length > 0)
  await using resumable = drive.open(`/sockets/events/${id}?after=0`)
  await drive.say(id, 'Begin.')
  await plain.until((events) => events.some(({ value }) => value === 'finished'))
  expect(deltas(plain.events())).toEqual([])
  const ended = (event: Event) => (event.event as Event | undefined)?.value === 'finished'
  const frames = await resumable.until((events) => events.some(ended))
  const hints = frames.flatMap(({ hint }) => (hint === undefined ? [] : [hint as Event]))
  expect(deltas(hints).length).toBeGreaterThan(0)
  expect(words.startsWith(deltas(hints).join('').slice(0, 5))).toBe(true)
  const positions = frames.flatMap(({ position }) => (position === undefined ? [] : [position]))
  expect(positions).toEqual(positions.map((_, at) => at + 1))
})

test('a title is found in the background and stays when somebody gave one', async () => {
  const llm = scripted([finish(), { text: '"About beginnings"', side: true }])
  const { id } = await drive.create({ llm }, { autotitle: true, initial_message: { content: 'Begin.' } })
  const events = await drive.rest(id)
  let title: string | null = null
  for (let tries = 0; tries < 200 && title === null; tries++) {
    title = (await drive.info(id)).title
    if (title === null) await sleep(30)
  }
  expect(title).toBe('About beginnings')
  expect(await drive.events(id)).toHaveLength(events.length)
  await api.send('PATCH', `/api/conversations/${id}`, { title: 'Mine' })
  await drive.say(id, 'More.')
  await drive.rest(id)
  expect((await drive.info(id)).title).toBe('Mine')
})

test('a run that has no more steps ends in an error with the number', async () => {
  const { id } = await drive.play(
    Array.from({ length: 9 }, (_, n) => bash(`echo ${n}`)),
    { max_iterations: 3 },
  )
  const events = await drive.rest(id)
  expect(events.slice(-2)).toMatchObject([
    { key: 'execution_status', value: 'error' },
    { code: 'MaxIterationsReached', detail: expect.stringContaining('(3)') },
  ])
  await drive.post(id, 'run')
  expect((await drive.rest(id)).filter(({ kind }) => kind === 'ObservationEvent')).toHaveLength(6)
})

test('an agent that goes in circles is stuck, and a new message sets it free', async () => {
  const { id } = await drive.play([...Array.from({ length: 4 }, () => bash('echo same')), finish()])
  const events = await drive.rest(id)
  expect(events.at(-1)).toMatchObject({ value: 'stuck' })
  await drive.say(id, 'Stop that.')
  expect((await drive.rest(id)).at(-1)).toMatchObject({ value: 'finished' })
})

test('fifty conversations at once are all finished, each with its own results', {
  timeout: 90_000,
}, async () => {
  const started = performance.now()
  const ids = await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const { id } = await drive.play([bash(`echo number-${n}-$((${n} * 2))`), finish(`${n}`)])
      return id
    }),
  )
  const logs = await Promise.all(ids.map((id) => drive.rest(id)))
  for (const [n, events] of logs.entries()) {
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    expect(faultsOf(events)).toEqual([])
    expect(texts(events.filter(({ kind }) => kind === 'ObservationEvent'))).toContain(`number-${n}-${n * 2}`)
  }
  console.log(`fifty conversations: ${Math.round(performance.now() - started)} ms`)
})

test('a tool of the client is told to the model, its call is answered at once, and the client sends what came of it', async () => {
  const parameters = { type: 'object', properties: { token: { type: 'string' } }, required: ['token'] }
  const client_tools = [{ name: 'show_panel', description: 'Shows a panel.', parameters }]
  const script = [calls(call('show_panel', {})), calls(call('show_panel', { token: 'x' })), finish()]
  const { id, client_tools: kept } = await drive.create(
    { llm: scripted(script) },
    { client_tools, initial_message: { content: 'Begin.' } },
  )
  expect(kept).toMatchObject([{ name: 'show_panel', parameters }])
  const events = await drive.rest(id)
  expect(faultsOf(events)).toEqual([])
  expect(events[0]?.tools).toContainEqual(
    expect.objectContaining({ kind: 'ClientTool', client_tool_name: 'show_panel', input_schema: parameters }),
  )
  const [refused, shown] = events.filter(({ kind }) => kind === 'ActionEvent')
  expect(refused).not.toHaveProperty('action')
  expect(shown?.action).toEqual({ token: 'x', kind: 'ClientAction_show_panel' })
  const answer = events.find(({ kind }) => kind === 'ObservationEvent')
  expect(answer?.observation).toMatchObject({ is_error: false, kind: 'ClientToolObservation' })
})

test('a conversation names those that work for it', async () => {
  const { id } = await drive.create({ llm: scripted([]) })
  const child = await drive.create({ llm: scripted([]) }, { parent_conversation_id: id })
  expect(await drive.info(id)).toMatchObject({ sub_conversation_ids: [child.id] })
  expect(await drive.info(child.id)).toMatchObject({ parent_conversation_id: id, sub_conversation_ids: [] })
})
