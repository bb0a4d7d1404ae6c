import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { event as closedEvent } from '@slipway/protocol'
import { expect } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  finishStep,
  SocketClient,
  scriptedModel,
} from '../support/agent-driver.ts'
import type { ApiEvent, EventPage } from '../support/agent-server-api.ts'
import { openWireServer, sessionKey, unknownId, wireCase } from './wire-server.ts'

/**
 * The remote conversation and the remote workspace of the Python SDK, call by call in its order. It validates
 * every event against closed models: one unknown kind or member in a page ends its synchronisation.
 */
const wire = openWireServer()
const path = (id: string, rest = '') => `/api/conversations/${id}${rest}`

/** The request of the SDK: every member, defaults and nulls included. */
const request = (script: readonly unknown[], more: object = {}) => ({
  agent: {
    kind: 'Agent',
    llm: {
      ...scriptedModel(script),
      api_key: 'sdk-canary',
      num_retries: 5,
      temperature: null,
      timeout: 300,
      extra_headers: null,
      litellm_extra_body: {},
    },
    tools: [{ name: 'terminal', params: {} }],
    mcp_config: {},
    filter_tools_regex: null,
    include_default_tools: ['FinishTool', 'ThinkTool'],
    agent_context: null,
    system_prompt_filename: 'system_prompt.j2',
    security_policy_filename: 'security_policy.j2',
    system_prompt_kwargs: { llm_security_analyzer: true },
    condenser: null,
    critic: null,
    tool_concurrency_limit: 1,
  },
  initial_message: null,
  max_iterations: 500,
  stuck_detection: true,
  stuck_detection_thresholds: {
    action_observation: 4,
    action_error: 3,
    monologue: 3,
    alternating_pattern: 6,
  },
  workspace: { working_dir: wire.directory, kind: 'LocalWorkspace' },
  tool_module_qualnames: { terminal: 'openhands.tools.terminal.definition' },
  agent_definitions: [],
  plugins: null,
  hook_config: null,
  client_tools: [],
  tags: {},
  observability_metadata: null,
  observability_tags: null,
  observability_span_name: 'conversation',
  user_id: null,
  ...more,
})
const create = async (script: readonly unknown[], more: object = {}) =>
  await wire.requestOrThrow<ConversationInfo>('POST', '/api/conversations', { body: request(script, more) })

/** Every page, like its synchronisation. */
async function fetchHistory(id: string): Promise<ApiEvent[]> {
  const found: ApiEvent[] = []
  for (let page_id: string | null = null; ; ) {
    const query: Record<string, string> = { limit: '100', ...(page_id === null ? {} : { page_id }) }
    const page: EventPage = await wire.requestOrThrow<EventPage>('GET', path(id, '/events/search'), { query })
    found.push(...page.items)
    page_id = page.next_page_id
    if (page_id === null) return found
  }
}

const findSchemaIssues = (events: readonly ApiEvent[]) =>
  events.flatMap((event) => {
    const { error } = closedEvent.safeParse(event)
    return error === undefined ? [] : [[event.kind, error.issues]]
  })
const isUpdate = (event: ApiEvent) => event.kind === 'ConversationStateUpdateEvent'
const isFinalState = (event: ApiEvent) =>
  isUpdate(event) &&
  event.key === 'full_state' &&
  (event.value as ConversationInfo).execution_status !== 'running'

/**
 * Its socket: opened without a key, which is the first frame; ready with the first state update of any key.
 */
async function connect(id: string): Promise<SocketClient> {
  const client = new SocketClient(`${wire.url.replace(/^http/, 'ws')}/sockets/events/${id}`, {})
  client.socket.on('open', () =>
    client.socket.send(JSON.stringify({ type: 'auth', session_api_key: sessionKey })),
  )
  await client.waitUntil((events) => events.some(isUpdate))
  return client
}

wireCase(
  'ALL A.1 attach',
  'is 404 for what has to be created, and the whole info for what is there',
  async () => {
    expect(await wire.requestStatus('GET', path(unknownId))).toBe(404)
    const { id } = await create([finishStep()])
    const info = await wire.requestOrThrow<ConversationInfo>('GET', path(id))
    expect(info).toMatchObject({
      id,
      agent: { kind: 'Agent' },
      client_tools: [],
      persistence_dir: expect.any(String),
    })
    for (const member of [
      'execution_status',
      'confirmation_policy',
      'agent',
      'workspace',
      'persistence_dir',
      'stats',
    ])
      expect([member, info[member]]).toEqual([member, expect.anything()])
    // It validates the agent against its own closed unions: the reply must not add members.
    expect(info.agent).toMatchObject({
      condenser: null,
      critic: null,
      tools: [{ name: 'terminal', params: {} }],
    })
    const again = await wire.request<ConversationInfo>('POST', '/api/conversations', {
      body: request([], { conversation_id: id }),
    })
    expect([again.status, again.body.id]).toEqual([200, id])
  },
)

wireCase('ALL A.1 create', 'takes the request with all its members, and an id of the caller', async () => {
  const conversation_id = randomUUID()
  const done = await wire.request<ConversationInfo>('POST', '/api/conversations', {
    body: request([finishStep()], { conversation_id }),
  })
  expect([done.status, done.body.id]).toEqual([201, conversation_id])
  expect(JSON.stringify(done.body)).not.toContain('sdk-canary')
})

wireCase('ALL A.1 history', 'comes in pages until there is no next, and every event validates', async () => {
  const { id } = await create([...Array.from({ length: 40 }, (_, n) => bashStep(`echo ${n}`)), finishStep()])
  await wire.requestOrThrow('POST', path(id, '/events'), {
    body: { role: 'user', content: [{ type: 'text', text: 'Go.' }], run: true },
  })
  await wire.driver.waitUntilIdle(id)
  const events = await fetchHistory(id)
  expect(events.length).toBeGreaterThan(80)
  expect(new Set(events.map((event) => event.id)).size).toBe(events.length)
  expect(findSchemaIssues(events)).toEqual([])
})

wireCase(
  'ALL A.1 socket',
  'is ready with a state update, and ignores its auth frame on an open server',
  async () => {
    const { id } = await create([finishStep()])
    await using client = await connect(id)
    expect(client.events()[0]).toMatchObject({ kind: 'ConversationStateUpdateEvent' })
    expect(findSchemaIssues(client.events())).toEqual([])
  },
)

wireCase(
  'ALL A.1 run',
  'ends with a snapshot that is not running, after which the history is whole',
  async () => {
    const { id } = await create([
      bashStep('echo one'),
      finishStep('One.'),
      bashStep('echo two'),
      finishStep('Two.'),
    ])
    await using client = await connect(id)
    for (const answer of ['One.', 'Two.']) {
      const seen = client.frames.length
      await wire.requestOrThrow('POST', path(id, '/events'), {
        body: { role: 'user', content: [{ type: 'text', text: 'Go.' }], run: false, sender: 'a-user' },
      })
      expect([200, 201, 204, 409]).toContain(await wire.requestStatus('POST', path(id, '/run')))
      await client.waitUntil((events) => events.slice(seen).some((event, n) => isFinalState(event) && n > 2))
      expect((await wire.requestOrThrow<ConversationInfo>('GET', path(id))).execution_status).toBe('finished')
      const events = await fetchHistory(id)
      expect(findSchemaIssues([...events, ...client.events()])).toEqual([])
      const known = new Set(events.map((event) => event.id))
      const live = client.events().filter((event) => known.has(event.id))
      expect(live.map((event) => event.id)).toEqual(events.map((event) => event.id))
      expect(await wire.requestOrThrow('GET', path(id, '/agent_final_response'))).toEqual({
        response: answer,
      })
    }
  },
)

wireCase('ALL A.1 run', 'that fails ends with error in its own update, and over REST', async () => {
  const { id } = await create([{ error: { code: 'LLMBadRequestError', detail: 'No.' } }])
  await using client = await connect(id)
  await wire.requestOrThrow('POST', path(id, '/events'), {
    body: { role: 'user', content: [{ type: 'text', text: 'Go.' }], run: false },
  })
  await wire.requestOrThrow('POST', path(id, '/run'))
  await client.waitUntil((events) =>
    events.some((event) => event.key === 'execution_status' && event.value === 'error'),
  )
  await client.waitUntil((events) => events.some(({ kind }) => kind === 'ConversationErrorEvent'))
  expect((await wire.requestOrThrow<ConversationInfo>('GET', path(id))).execution_status).toBe('error')
  expect(findSchemaIssues(client.events())).toEqual([])
})

wireCase('ALL A.1 state', 'is the info with what the updates say put over it', async () => {
  const { id } = await create([bashStep('sleep 1'), finishStep()])
  await using client = await connect(id)
  const state: Record<string, unknown> = { ...(await wire.requestOrThrow<ConversationInfo>('GET', path(id))) }
  await wire.requestOrThrow('POST', path(id, '/events'), {
    body: { role: 'user', content: [{ type: 'text', text: 'Go.' }] },
  })
  await wire.requestOrThrow('POST', path(id, '/run'))
  await client.waitUntil((events) => {
    const last = events.findLastIndex(({ kind }) => kind === 'ActionEvent')
    return last !== -1 && events.findLastIndex(isFinalState) > last
  })
  for (const { key, value } of client.events().filter(isUpdate)) {
    if (key === 'full_state') Object.assign(state, value)
    else state[String(key)] = value
  }
  const info = await wire.requestOrThrow<ConversationInfo>('GET', path(id))
  for (const member of ['execution_status', 'confirmation_policy', 'workspace', 'max_iterations', 'tags'])
    expect([member, state[member]]).toEqual([member, info[member]])
  expect(state.stats).toMatchObject({ usage_to_metrics: { agent: { accumulated_cost: expect.any(Number) } } })
  expect(JSON.stringify(state)).not.toContain('sdk-canary')
})

wireCase(
  'ALL A.1 others',
  'secrets, policies, rejection, pause, questions, condensing, fork, navigation, deletion',
  async () => {
    const condenser = {
      kind: 'LLMSummarizingCondenser',
      max_size: 240,
      keep_first: 2,
      llm: scriptedModel([]),
    }
    // One of the two becomes the title.
    const side = { side: true, text: 'An answer.' }
    const script = [bashStep('true'), finishStep('Done.'), side, side]
    const base = request(script)
    const { id } = await create(script, { agent: { ...base.agent, condenser } })
    const post = (verb: string, body?: object) =>
      wire.requestStatus('POST', path(id, verb), body === undefined ? {} : { body })
    const source = { kind: 'LookupSecret', url: `${wire.url}/api/settings/secrets/NONE`, headers: {} }
    expect(
      await post('/secrets', {
        secrets: { A: { kind: 'StaticSecret', value: 'v', description: null }, B: 'x', C: source },
      }),
    ).toBe(200)
    expect(await post('/confirmation_policy', { policy: { kind: 'AlwaysConfirm' } })).toBe(200)
    expect(await post('/security_analyzer', { security_analyzer: { kind: 'LLMSecurityAnalyzer' } })).toBe(200)
    await post('/events', { role: 'user', content: [{ type: 'text', text: 'Go.' }], run: false })
    await post('/run')
    await wire.driver.waitUntilIdle(id)
    expect((await wire.requestOrThrow<ConversationInfo>('GET', path(id))).execution_status).toBe(
      'waiting_for_confirmation',
    )
    expect(await post('/run')).toBe(200)
    for (
      let waited = 0;
      (await fetchHistory(id)).filter(({ kind }) => kind === 'ActionEvent').length < 2 && waited < 20_000;
      waited += 100
    )
      await sleep(100)
    await wire.driver.waitUntilIdle(id)
    expect(await post('/events/respond_to_confirmation', { accept: false, reason: 'No.' })).toBe(200)
    expect(await post('/pause')).toBe(200)
    expect(await post('/interrupt')).toBe(200)
    expect(
      await wire.requestOrThrow('POST', path(id, '/ask_agent'), { body: { question: 'What?' } }),
    ).toEqual({
      response: 'An answer.',
    })
    const root = (await fetchHistory(id)).find(({ kind }) => kind === 'MessageEvent')?.id
    const copy = await wire.requestOrThrow<ConversationInfo>('POST', path(id, '/fork'), {
      body: { id: null, title: null, tags: null, reset_metrics: true },
    })
    expect(copy.id).not.toBe(id)
    expect(await post('/navigate', { event_id: root })).toBe(200)
    expect(findSchemaIssues(await fetchHistory(id))).toEqual([])
    for (const each of [copy.id, id]) expect(await wire.requestStatus('DELETE', path(each))).toBe(200)
  },
)

wireCase(
  'ALL A.2 workspace',
  'health, commands by polling, files both ways, git, settings, profiles, secrets, skills',
  async () => {
    expect(await wire.requestStatus('GET', '/health', { isAnonymous: true })).toBe(200)
    const command = await wire.requestOrThrow<{ id: string }>('POST', '/api/bash/start_bash_command', {
      body: {
        command: 'for n in 1 2 3; do echo $n; sleep 0.2; done; exit 6',
        timeout: 30,
        cwd: wire.directory,
      },
    })
    let [out, exit, last]: [string, number | null, number] = ['', null, -1]
    while (exit === null) {
      const order = last < 0 ? {} : { order__gt: String(last) }
      const query = {
        command_id__eq: command.id,
        kind__eq: 'BashOutput',
        sort_order: 'TIMESTAMP',
        limit: '100',
        ...order,
      }
      const { items } = await wire.requestOrThrow<{
        items: { order: number; stdout: string | null; exit_code: number | null }[]
      }>('GET', '/api/bash/bash_events/search', { query })
      for (const item of items) {
        expect(item.order).toBeGreaterThan(last)
        ;[out, exit, last] = [out + (item.stdout ?? ''), item.exit_code, item.order]
      }
      await sleep(100)
    }
    expect([out, exit]).toEqual(['1\n2\n3\n', 6])
    const bytes = Uint8Array.from({ length: 3_000_000 }, (_, n) => (n * 7) % 251)
    const file = `${wire.directory}/sdk.bin`
    expect((await wire.upload(file, bytes)).body).toEqual({ success: true, file_size: bytes.length })
    const query = new URLSearchParams({ path: file })
    const response = await fetch(`${wire.url}/api/file/download?${query}`, { headers: wire.headers })
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
    expect(await wire.requestOrThrow('GET', '/api/git/changes', { query: { path: wire.directory } })).toEqual(
      expect.any(Array),
    )
    const plain = { headers: { 'x-expose-secrets': 'plaintext' } }
    expect(await wire.requestOrThrow('GET', '/api/settings', plain)).toMatchObject({
      agent_settings: { llm: expect.any(Object) },
    })
    expect(await wire.requestStatus('GET', `/api/profiles/none-${randomUUID()}`, plain)).toBe(404)
    expect(await wire.requestOrThrow('GET', '/api/settings/secrets')).toMatchObject({
      secrets: expect.any(Array),
    })
    const skills = {
      load_public: false,
      load_user: true,
      load_project: true,
      load_org: false,
      project_dir: wire.directory,
      org_config: null,
      sandbox_config: null,
    }
    expect(await wire.requestOrThrow('POST', '/api/skills', { body: skills })).toMatchObject({
      skills: expect.any(Array),
    })
  },
)
