import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  collectTexts,
  eventLabel,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../support/agent-driver.ts'
import { type Json, openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()
const path = (id: string, verb = '') => `/api/conversations/${id}${verb}`
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const request = (more: object = {}) => ({
  agent: { kind: 'Agent', llm: scriptedModel([finishStep()]), tools: [] },
  workspace: { working_dir: wire.directory },
  autotitle: false,
  ...more,
})
const getInfo = (id: string) => wire.requestOrThrow<ConversationInfo>('GET', path(id))

wireCase('POST /api/conversations', 'creates one with 201, and returns a known id with 200', async () => {
  const conversation_id = randomUUID()
  const made = await wire.request<ConversationInfo>('POST', '/api/conversations', {
    body: request({ conversation_id }),
  })
  expect(made).toMatchObject({
    status: 201,
    body: {
      id: conversation_id,
      execution_status: 'idle',
      workspace: { working_dir: wire.directory, kind: 'LocalWorkspace' },
      persistence_dir: expect.any(String),
      confirmation_policy: { kind: 'NeverConfirm' },
      max_iterations: 500,
      stuck_detection: true,
      security_analyzer: null,
      stats: { usage_to_metrics: {} },
      title: null,
      tags: {},
      agent: { kind: 'Agent', llm: { model: 'scripted/test' } },
      client_tools: [],
    },
  })
  const again = await wire.request<ConversationInfo>('POST', '/api/conversations', {
    body: { conversation_id: conversation_id.replaceAll('-', ''), ...request() },
  })
  expect([again.status, again.body.id]).toEqual([200, conversation_id])
  expect(
    (await wire.request<ConversationInfo>('POST', '/api/conversations', { body: request() })).body.id,
  ).toMatch(uuid)
})

wireCase(
  'POST /api/conversations',
  'accepts an agent without kind, a workspace of another kind, and nulls',
  async () => {
    const { status, body } = await wire.request<ConversationInfo>('POST', '/api/conversations', {
      body: {
        agent: { llm: scriptedModel([finishStep()]) },
        workspace: { type: 'local', working_dir: `${wire.directory}/made/on the way` },
        initial_message: null,
        max_iterations: 500,
        hook_config: null,
        user_id: null,
        no_such_member: { x: 1 },
      },
    })
    expect([status, body.agent]).toEqual([201, expect.objectContaining({ kind: 'Agent' })])
    expect(await wire.runCommand(`test -d '${wire.directory}/made/on the way' && echo there`)).toBe('there\n')
  },
)

wireCase(
  'POST /api/conversations',
  'stores the request and returns it in the info without secrets',
  async () => {
    const { body } = await wire.request<ConversationInfo>('POST', '/api/conversations', {
      body: request({
        agent: {
          kind: 'Agent',
          llm: { ...scriptedModel([finishStep()]), api_key: 'key-canary-1' },
          tools: [{ name: 'terminal' }, { name: 'file_editor' }],
        },
        confirmation_policy: { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: true },
        secrets: { TOKEN_A: { kind: 'StaticSecret', value: 'value-canary-1' }, TOKEN_B: 'value-canary-2' },
        max_iterations: 50,
        stuck_detection: false,
        tags: { team: 'x' },
      }),
    })
    expect(body).toMatchObject({
      confirmation_policy: { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: true },
      max_iterations: 50,
      stuck_detection: false,
      tags: { team: 'x' },
      secret_registry: { secret_sources: { TOKEN_A: { kind: 'StaticSecret', value: '**********' } } },
      agent: { tools: [{ name: 'terminal' }, { name: 'file_editor' }], llm: { api_key: null } },
    })
    expect(JSON.stringify([body, await getInfo(body.id)])).not.toContain('canary')
  },
)

wireCase('POST /api/conversations', 'sends the first message and runs it unless `run` is false', async () => {
  for (const run of [undefined, true, false]) {
    const message = {
      role: 'user',
      content: [{ type: 'text', text: 'Go.' }],
      ...(run === undefined ? {} : { run }),
    }
    const made = await wire.requestOrThrow<ConversationInfo>('POST', '/api/conversations', {
      body: request({ initial_message: message }),
    })
    await wire.driver.waitUntilIdle(made.id)
    expect((await getInfo(made.id)).execution_status).toBe(run === false ? 'idle' : 'finished')
  }
})

wireCase('POST /api/conversations', 'refuses an invalid request with 4xx and the location', async () => {
  const bad: readonly [object, number][] = [
    [{}, 422],
    [{ agent: { kind: 'Agent', llm: scriptedModel([]) } }, 422],
    [{ workspace: { working_dir: wire.directory } }, 422],
    [request({ agent: { kind: 'ACPAgent' } }), 422],
    [request({ agent: { kind: 'Nothing', llm: scriptedModel([]) } }), 422],
    [request({ max_iterations: 0 }), 422],
    [request({ conversation_id: 'x' }), 422],
    [request({ parent_conversation_id: unknownId }), 422],
    [request({ tags: { Team: 'x' } }), 422],
    [
      request({ client_tools: [{ name: 'terminal', description: 'x', parameters: { type: 'object' } }] }),
      422,
    ],
    [{ ...request(), agent: undefined, agent_profile_id: unknownId }, 404],
    [request({ agent_profile_id: unknownId }), 422],
  ]
  for (const [body, status] of bad)
    expect([body, await wire.requestStatus('POST', '/api/conversations', { body })]).toEqual([body, status])
})

wireCase('POST /api/conversations', 'accepts settings instead of an agent', async () => {
  const { status, body } = await wire.request<ConversationInfo>('POST', '/api/conversations', {
    body: {
      agent_settings: { agent_kind: 'openhands', llm: scriptedModel([finishStep()]), tools: [] },
      workspace: { kind: 'LocalWorkspace', working_dir: wire.directory },
      initial_message: { role: 'user', content: [{ type: 'text', text: 'Go.' }] },
    },
  })
  expect([status, body.agent]).toEqual([201, expect.objectContaining({ kind: 'Agent' })])
  await wire.driver.waitUntilIdle(body.id)
  expect((await getInfo(body.id)).execution_status).toBe('finished')
})

wireCase('POST /api/conversations', 'accepts the complete request of the web client', async () => {
  const secret = `WIRE_${randomUUID().slice(0, 8)}`
  await wire.requestOrThrow('PUT', '/api/settings/secrets', { body: { name: secret, value: 'page-canary' } })
  await wire.requestOrThrow('PATCH', '/api/settings', {
    body: { agent_settings_diff: { llm: { api_key: 'page-canary' } } },
  })
  const sealed = await wire.requestOrThrow<{ agent_settings: { llm: { api_key: string } } }>(
    'GET',
    '/api/settings',
    {
      headers: { 'x-expose-secrets': 'encrypted' },
    },
  )
  const skills = Array.from({ length: 40 }, (_, n) => ({
    name: `skill-${n}`,
    content: 'x'.repeat(4_000),
    trigger: null,
  }))
  const conversation_id = randomUUID()
  const working_dir = `${wire.directory}/workspace/project/${conversation_id.replaceAll('-', '')}`
  const script = [
    bashStep(`printf %s "$${secret}" > seen.txt`),
    toolCallsStep(toolCall('open_tab', { tab: 'files' })),
    finishStep(),
  ]
  const { status, body } = await wire.request<ConversationInfo>('POST', '/api/conversations', {
    body: {
      conversation_id,
      agent_settings: {
        agent_kind: 'openhands',
        llm: { ...scriptedModel(script), stream: true, api_key: sealed.agent_settings.llm.api_key },
        agent_context: { skills, load_public_skills: false, load_user_skills: true },
      },
      secrets_encrypted: true,
      workspace: { kind: 'LocalWorkspace', working_dir },
      client_tools: [
        {
          name: 'open_tab',
          description: 'Opens a tab.',
          parameters: { type: 'object', properties: { tab: { type: 'string' } } },
        },
      ],
      confirmation_policy: { kind: 'NeverConfirm' },
      max_iterations: 500,
      stuck_detection: true,
      autotitle: true,
      worktree: true,
      tags: { clientsource: 'page' },
      secrets: {
        [secret]: { kind: 'LookupSecret', url: `/api/settings/secrets/${secret}`, headers: wire.headers },
      },
      initial_message: { role: 'user', content: [{ type: 'text', text: 'Go.' }], run: true },
      hook_config: null,
      plugins: null,
      user_id: 'somebody',
      title_llm_profile: null,
      something_newer: { x: 1 },
    },
  })
  expect([status, body.id]).toEqual([201, conversation_id])
  const events = await wire.driver.waitUntilIdle(conversation_id)
  const now = await getInfo(conversation_id)
  expect(now).toMatchObject({
    execution_status: 'finished',
    tags: { clientsource: 'page' },
    client_tools: [{ name: 'open_tab' }],
  })
  const seen = await wire.request('GET', '/api/file/download', {
    query: { path: `${now.workspace.working_dir}/seen.txt` },
  })
  expect(seen.body).toBe('page-canary')
  expect(events.map(({ kind, tool_name }) => `${kind} ${tool_name}`)).toContain('ObservationEvent open_tab')
  expect(JSON.stringify([events, now])).not.toContain('page-canary')
  await wire.requestOrThrow('DELETE', `/api/settings/secrets/${secret}`)
  await wire.requestOrThrow('PATCH', '/api/settings', {
    body: { agent_settings_diff: { llm: { api_key: null } } },
  })
})

wireCase(
  'POST /api/conversations',
  'supports a parent and its children, additions to the prompt, and hooks',
  async () => {
    const parent = await wire.createIdle()
    const hooks = {
      pre_tool_use: [
        { matcher: 'terminal', hooks: [{ type: 'command', command: 'echo "not that" >&2; exit 2' }] },
      ],
    }
    const child = await wire.createIdle([bashStep('touch hooked'), finishStep()], {
      parent_conversation_id: parent.id,
      agent_launch_additions: { system_message_suffix_append: 'Mind the conformance suite.' },
      hook_config: hooks,
    })
    expect(child.parent_conversation_id).toBe(parent.id)
    expect((await getInfo(parent.id)).sub_conversation_ids).toEqual([child.id])
    await wire.requestOrThrow('POST', path(child.id, '/events'), {
      body: { content: [{ type: 'text', text: 'Go.' }], run: true },
    })
    const events = await wire.driver.waitUntilIdle(child.id)
    expect(collectTexts(events.find(({ kind }) => kind === 'SystemPromptEvent'))).toContain(
      'Mind the conformance suite.',
    )
    expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
      rejection_source: 'hook',
    })
    expect(await wire.runCommand(`ls '${wire.directory}'`)).not.toContain('hooked')
  },
)

wireCase(
  'GET /api/conversations/{id}',
  'accepts either spelling of the id, 404 and 422 otherwise',
  async () => {
    const { id } = await wire.createIdle()
    const long = await getInfo(id)
    const short = await wire.requestOrThrow<ConversationInfo>('GET', path(id.replaceAll('-', '')))
    expect([long.id, short.id]).toEqual([id, id])
    expect(long).toMatchObject({
      created_at: expect.stringMatching(/(Z|\+00:00)$/),
      updated_at: expect.stringMatching(/(Z|\+00:00)$/),
      leaf_event_id: null,
      last_user_message_id: null,
      sub_conversation_ids: [],
      parent_conversation_id: null,
      forked_from_conversation_id: null,
      blocked_actions: {},
      blocked_messages: {},
      activated_knowledge_skills: [],
      invoked_skills: [],
      agent_state: {},
      supports_runtime_model_switch: false,
      available_models: [],
      current_model_id: null,
      launched_agent_profile: null,
    })
    expect(await wire.requestStatus('GET', path(unknownId))).toBe(404)
    expect(await wire.requestStatus('GET', path('no-id'))).toBe(422)
  },
)

wireCase('GET /api/conversations/{id}', 'counts the usage of the model', async () => {
  const { id } = await wire.createFinished()
  expect(await getInfo(id)).toMatchObject({
    stats: {
      usage_to_metrics: {
        agent: {
          accumulated_cost: expect.any(Number),
          accumulated_token_usage: {
            prompt_tokens: expect.any(Number),
            completion_tokens: expect.any(Number),
          },
        },
      },
    },
    leaf_event_id: expect.any(String),
    last_user_message_id: expect.any(String),
  })
})

wireCase(
  'GET /api/conversations',
  'returns the requested order, null for unknown ids, 422 for too many',
  async () => {
    const [a, b] = [await wire.createIdle(), await wire.createIdle()]
    const found = await wire.requestOrThrow<(ConversationInfo | null)[]>('GET', '/api/conversations', {
      query: `ids=${b.id}&ids=${unknownId}&ids=${a.id.replaceAll('-', '')}`,
    })
    expect(found.map((each) => each?.id ?? null)).toEqual([b.id, null, a.id])
    const many = Array.from({ length: 101 }, () => `ids=${unknownId}`).join('&')
    expect(await wire.requestStatus('GET', '/api/conversations', { query: many })).toBe(422)
  },
)

wireCase('GET /api/conversations/search', 'returns all in pages, each once, in each order', async () => {
  const made = [await wire.createIdle(), await wire.createIdle(), await wire.createIdle()].map(({ id }) => id)
  await wire.requestOrThrow('PATCH', path(String(made[0])), { body: { title: 'Touched' } })
  for (const sort_order of ['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC']) {
    const seen: ConversationInfo[] = []
    for (let page_id: string | null = ''; page_id !== null; ) {
      const query: Record<string, string> = { limit: '2', sort_order, ...(page_id === '' ? {} : { page_id }) }
      const page: { items: ConversationInfo[]; next_page_id: string | null } = await wire.requestOrThrow(
        'GET',
        '/api/conversations/search',
        { query },
      )
      seen.push(...page.items)
      page_id = page.next_page_id
    }
    const ids = seen.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of made) expect(ids).toContain(id)
    const moments = seen.map((each) => String(sort_order.startsWith('C') ? each.created_at : each.updated_at))
    const sorted = sort_order.endsWith('DESC') ? moments.toSorted().reverse() : moments.toSorted()
    expect(moments).toEqual(sorted)
  }
})

wireCase(
  'GET /api/conversations/search',
  'filters by status, and refuses limits beyond 1 to 100',
  async () => {
    const idle = await wire.createIdle()
    const done = await wire.createFinished()
    const page = await wire.requestOrThrow<{ items: ConversationInfo[] }>(
      'GET',
      '/api/conversations/search',
      {
        query: { status: 'finished' },
      },
    )
    const ids = page.items.map(({ id }) => id)
    expect([ids.includes(done.id), ids.includes(idle.id)]).toEqual([true, false])
    for (const limit of ['0', '101', '-1', 'x', ''])
      expect(await wire.requestStatus('GET', '/api/conversations/search', { query: { limit } })).toBe(422)
    expect(
      await wire.requestStatus('GET', '/api/conversations/search', { query: { status: 'asleep' } }),
    ).toBe(422)
  },
)

wireCase('GET /api/conversations/count', 'returns a bare number, of all or of one status', async () => {
  const before = await wire.requestOrThrow<number>('GET', '/api/conversations/count', {
    query: { status: 'finished' },
  })
  await wire.createFinished()
  const after = await wire.requestOrThrow<number>('GET', '/api/conversations/count', {
    query: { status: 'finished' },
  })
  expect(after).toBe(before + 1)
  expect(await wire.requestOrThrow<number>('GET', '/api/conversations/count')).toBeGreaterThanOrEqual(after)
})

wireCase('PATCH /api/conversations/{id}', 'sets the title and replaces the tags as a whole', async () => {
  const { id } = await wire.createIdle([finishStep()], { tags: { a: '1', b: '2' } })
  expect(await wire.requestOrThrow('PATCH', path(id), { body: { title: 'Näme' } })).toEqual({ success: true })
  expect(await getInfo(id)).toMatchObject({ title: 'Näme', tags: { a: '1', b: '2' } })
  await wire.requestOrThrow('PATCH', path(id), { body: { tags: { c: '3' } } })
  expect(await getInfo(id)).toMatchObject({ title: 'Näme', tags: { c: '3' } })
  expect(Object.keys((await getInfo(id)).tags as object)).toEqual(['c'])
  for (const title of ['', 'x'.repeat(201)])
    expect(await wire.requestStatus('PATCH', path(id), { body: { title } })).toBe(422)
  expect(await wire.requestStatus('PATCH', path(unknownId), { body: { title: 'x' } })).toBe(404)
})

wireCase(
  'DELETE /api/conversations/{id}',
  'removes it from every list at once, and leaves its folder',
  async () => {
    const { id } = await wire.createFinished([bashStep(`touch '${wire.directory}/kept'`), finishStep()])
    expect(await wire.requestStatus('DELETE', path(id))).toBe(200)
    expect(await wire.requestStatus('GET', path(id))).toBe(404)
    expect(await wire.requestStatus('GET', path(id, '/events/search'))).toBe(404)
    expect(await wire.requestOrThrow('GET', '/api/conversations', { query: { ids: id } })).toEqual([null])
    expect(await wire.requestStatus('DELETE', path(id))).toBe(404)
    expect(await wire.runCommand(`ls '${wire.directory}/kept'`)).toContain('kept')
  },
)

wireCase('DELETE /api/conversations/{id}', 'ends a running one too', async () => {
  const { id } = await wire.driver.createScripted([bashStep('sleep 300'), finishStep()])
  await wire.driver.waitForEvent(id, (event) => event.kind === 'ActionEvent')
  expect(await wire.requestStatus('DELETE', path(id))).toBe(200)
  expect(await wire.requestStatus('GET', path(id))).toBe(404)
})

wireCase(
  'POST /api/conversations/{id}/run',
  'returns at once, 409 during a run, 404 for an unknown conversation',
  async () => {
    const { id } = await wire.createIdle([{ ...finishStep(), delay_ms: 1_500 }])
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'Go.' }] },
    })
    expect(await wire.request('POST', path(id, '/run'))).toMatchObject({
      status: 200,
      body: { success: true },
    })
    const second = await wire.request('POST', path(id, '/run'), { body: {} })
    expect(second).toMatchObject({
      status: 409,
      body: { detail: 'Conversation already running. Wait for completion or pause first.' },
    })
    await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('finished')
    expect(await wire.requestStatus('POST', path(unknownId, '/run'))).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/pause',
  'pauses running and idle conversations, and run continues',
  async () => {
    const { id } = await wire.driver.createScripted([bashStep('sleep 1'), finishStep()])
    await wire.driver.waitForEvent(id, (event) => event.kind === 'ActionEvent')
    expect(await wire.request('POST', path(id, '/pause'))).toMatchObject({
      status: 200,
      body: { success: true },
    })
    expect((await wire.driver.waitUntilIdle(id)).map(eventLabel)).toContain('PauseEvent')
    expect((await getInfo(id)).execution_status).toBe('paused')
    await wire.requestOrThrow('POST', path(id, '/run'))
    await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('finished')
    const idle = await wire.createIdle()
    await wire.requestOrThrow('POST', path(idle.id, '/pause'), { body: {} })
    expect((await getInfo(idle.id)).execution_status).toBe('paused')
    expect(await wire.requestStatus('POST', path(unknownId, '/pause'))).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/interrupt',
  'ends a tool and a model call, and answers every call',
  async () => {
    const { id } = await wire.driver.createScripted([
      bashStep('sleep 300'),
      { ...finishStep(), delay_ms: 300_000 },
    ])
    await wire.driver.waitForEvent(id, (event) => event.kind === 'ActionEvent')
    expect(await wire.requestStatus('POST', path(id, '/interrupt'), { body: {} })).toBe(200)
    const events = await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('paused')
    const action = events.find(({ kind }) => kind === 'ActionEvent')
    const results = events.filter((event) => event !== action && event.tool_call_id === action?.tool_call_id)
    expect(results).toHaveLength(1)
    await wire.requestOrThrow('POST', path(id, '/run'))
    await sleep(500)
    expect((await getInfo(id)).execution_status).toBe('running')
    expect(await wire.requestStatus('POST', path(id, '/interrupt'))).toBe(200)
    await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('paused')
    expect(await wire.requestStatus('POST', path(unknownId, '/interrupt'))).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/interrupt',
  'also ends a step that a pause or the end of a goal would let finish',
  async () => {
    for (const verb of ['/pause', '/goal/stop']) {
      const { id } = await wire.createIdle([
        { ...finishStep('Never.'), delay_ms: 300_000 },
        finishStep('Next.'),
      ])
      await wire.requestOrThrow('POST', path(id, '/goal'), { body: { objective: 'All', max_iterations: 1 } })
      await sleep(500)
      await wire.requestOrThrow('POST', path(id, verb), { body: {} })
      expect(await wire.requestStatus('POST', path(id, '/interrupt'))).toBe(200)
      await wire.requestOrThrow('POST', path(id, '/run'))
      await wire.driver.waitUntilIdle(id)
      expect(await wire.requestOrThrow('GET', path(id, '/agent_final_response'))).toEqual({
        response: 'Next.',
      })
    }
  },
)

wireCase(
  'POST /api/conversations/{id}/secrets',
  'reach commands that name them, are redacted and never returned',
  async () => {
    const { id } = await wire.createIdle([
      bashStep('echo "[$WIRE_A|$WIRE_B|$WIRE_C]" | tee secrets.txt'),
      finishStep(),
    ])
    const secrets = {
      WIRE_A: 'alpha-canary',
      WIRE_B: { kind: 'StaticSecret', value: 'beta-canary' },
      WIRE_C: { value: 'gamma-canary' },
    }
    expect(await wire.requestOrThrow('POST', path(id, '/secrets'), { body: { secrets } })).toEqual({
      success: true,
    })
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'Go.' }], run: true },
    })
    const events = await wire.driver.waitUntilIdle(id)
    const file = await wire.request('GET', '/api/file/download', {
      query: { path: `${wire.directory}/secrets.txt` },
    })
    expect(file.body).toBe('[alpha-canary|beta-canary|gamma-canary]\n')
    expect(JSON.stringify([events, await getInfo(id)])).not.toContain('canary')
    expect(await wire.requestStatus('POST', path(unknownId, '/secrets'), { body: { secrets: {} } })).toBe(404)
    expect(await wire.requestStatus('POST', path(id, '/secrets'), { body: {} })).toBe(422)
  },
)

wireCase('POST /api/conversations/{id}/confirmation_policy', 'applies from the next call on', async () => {
  const { id } = await wire.createIdle([bashStep('true'), finishStep()])
  const policy = { kind: 'AlwaysConfirm' }
  expect(await wire.requestOrThrow('POST', path(id, '/confirmation_policy'), { body: { policy } })).toEqual({
    success: true,
  })
  expect((await getInfo(id)).confirmation_policy).toEqual(policy)
  await wire.requestOrThrow('POST', path(id, '/events'), {
    body: { content: [{ type: 'text', text: 'Go.' }], run: true },
  })
  await wire.driver.waitUntilIdle(id)
  expect((await getInfo(id)).execution_status).toBe('waiting_for_confirmation')
  for (const body of [{}, { policy: { kind: 'X' } }, { policy: null }])
    expect(await wire.requestStatus('POST', path(id, '/confirmation_policy'), { body })).toBe(422)
  expect(
    await wire.requestStatus('POST', path(unknownId, '/confirmation_policy'), { body: { policy } }),
  ).toBe(404)
})

wireCase(
  'POST /api/conversations/{id}/security_analyzer',
  'is an object or null, and is required',
  async () => {
    const { id } = await wire.createIdle()
    const url = path(id, '/security_analyzer')
    await wire.requestOrThrow('POST', url, { body: { security_analyzer: { kind: 'LLMSecurityAnalyzer' } } })
    expect((await getInfo(id)).security_analyzer).toMatchObject({ kind: 'LLMSecurityAnalyzer' })
    await wire.requestOrThrow('POST', url, { body: { security_analyzer: null } })
    expect((await getInfo(id)).security_analyzer).toBeNull()
    for (const body of [{}, { security_analyzer: { kind: 'X' } }, { security_analyzer: 1 }])
      expect(await wire.requestStatus('POST', url, { body })).toBe(422)
    const nobody = { body: { security_analyzer: null } }
    expect(await wire.requestStatus('POST', path(unknownId, '/security_analyzer'), nobody)).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/ask_agent',
  'answers a question and does not change the log',
  async () => {
    const { id } = await wire.createFinished([finishStep(), { side: true, text: 'Forty-two.' }])
    const before = await wire.driver.getEvents(id)
    const { response } = await wire.requestOrThrow<{ response: string }>('POST', path(id, '/ask_agent'), {
      body: { question: 'How many?' },
    })
    expect(response).toBe('Forty-two.')
    expect(await wire.driver.getEvents(id)).toEqual(before)
    expect(await wire.requestStatus('POST', path(unknownId, '/ask_agent'), { body: { question: 'x' } })).toBe(
      404,
    )
    expect(await wire.requestStatus('POST', path(id, '/ask_agent'), { body: {} })).toBe(422)
  },
)

wireCase(
  'POST /api/conversations/{id}/condense',
  'condenses with a condenser; 4xx without, 404 for an unknown conversation',
  async () => {
    const condenser = { kind: 'LLMSummarizingCondenser', max_size: 80, keep_first: 1, llm: scriptedModel([]) }
    const script = [...Array.from({ length: 6 }, (_, n) => bashStep(`echo ${n}`)), finishStep()]
    const { id } = await wire.driver.create(
      { llm: scriptedModel([...script, { side: true, text: 'They counted.' }]), condenser },
      { initial_message: { content: [{ type: 'text', text: 'Count.' }] } },
    )
    await wire.driver.waitUntilIdle(id)
    expect(await wire.request('POST', path(id, '/condense'))).toMatchObject({
      status: 200,
      body: { success: true },
    })
    const events = await wire.driver.waitForEvent(id, ({ kind }) => kind === 'Condensation')
    expect(events.map(({ kind }) => kind)).toContain('CondensationRequest')
    const without = await wire.createFinished()
    expect([400, 409]).toContain(await wire.requestStatus('POST', path(without.id, '/condense')))
    expect(await wire.requestStatus('POST', path(unknownId, '/condense'))).toBe(404)
  },
)

wireCase(
  'GET /api/conversations/{id}/agent_final_response',
  'is empty at first, then the last response',
  async () => {
    const { id } = await wire.createIdle([{ text: 'First.' }, finishStep('Second.')])
    const response = () => wire.requestOrThrow('GET', path(id, '/agent_final_response'))
    expect(await response()).toEqual({ response: '' })
    for (const text of ['First.', 'Second.']) {
      await wire.requestOrThrow('POST', path(id, '/events'), {
        body: { content: [{ type: 'text', text: 'Go.' }], run: true },
      })
      await wire.driver.waitUntilIdle(id)
      expect(await response()).toEqual({ response: text })
    }
    expect(await wire.requestStatus('GET', path(unknownId, '/agent_final_response'))).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/fork',
  'copies everything or up to an event, and both continue independently',
  async () => {
    const { id } = await wire.createFinished([bashStep('true'), finishStep('Here.')], { tags: { a: '1' } })
    const source = await wire.driver.getEvents(id)
    const whole = await wire.request<ConversationInfo>('POST', path(id, '/fork'))
    expect(whole).toMatchObject({
      status: 201,
      body: { execution_status: 'idle', forked_from_conversation_id: id, tags: { a: '1' } },
    })
    expect(whole.body.id).not.toBe(id)
    const copied = await wire.driver.getEvents(whole.body.id)
    expect(copied.slice(0, source.length).map(({ id }) => id)).toEqual(source.map(({ id }) => id))
    const action = source.findIndex(({ kind }) => kind === 'ObservationEvent')
    const from = String(source[action]?.id)
    const chosen = randomUUID()
    const part = await wire.requestOrThrow<ConversationInfo>('POST', path(id, '/fork'), {
      body: { id: chosen, title: 'Part', tags: { b: '2' }, from_event_id: from },
    })
    expect(part).toMatchObject({ id: chosen, title: 'Part', tags: { b: '2' }, forked_from_event_id: from })
    const ids = (await wire.driver.getEvents(chosen)).map(({ id }) => id)
    expect(ids.slice(0, action + 1)).toEqual(source.slice(0, action + 1).map(({ id }) => id))
    expect(ids).not.toContain(source.at(-2)?.id)
    expect((await wire.driver.getEvents(id)).length).toBe(source.length)
  },
)

wireCase(
  'POST /api/conversations/{id}/fork',
  'is 404 for an unknown conversation and 409 for an existing id',
  async () => {
    const { id } = await wire.createFinished()
    expect(await wire.requestStatus('POST', path(unknownId, '/fork'), { body: {} })).toBe(404)
    expect(await wire.requestStatus('POST', path(id, '/fork'), { body: { from_event_id: 'none' } })).toBe(404)
    expect(await wire.requestStatus('POST', path(id, '/fork'), { body: { id } })).toBe(409)
    expect(await wire.requestStatus('POST', path(id, '/fork'), { body: { id: 'x' } })).toBe(422)
  },
)

wireCase(
  'POST /api/conversations/{id}/navigate',
  'navigates to an event, and the next message starts a branch',
  async () => {
    const script = [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }]
    const { id } = await wire.createIdle(script)
    const say = async (text: string) => {
      const content = [{ type: 'text', text }]
      await wire.requestOrThrow('POST', path(id, '/events'), { body: { content, run: true } })
      return await wire.driver.waitUntilIdle(id)
    }
    const first = await say('a')
    const target = String(first.findLast(({ kind }) => kind === 'MessageEvent')?.id)
    const second = await say('b')
    const moved = await wire.request<ConversationInfo>('POST', path(id, '/navigate'), {
      body: { event_id: target },
    })
    expect(moved).toMatchObject({ status: 200, body: { id, leaf_event_id: target } })
    expect((await getInfo(id)).leaf_event_id).toBe(target)
    const third = await say('c')
    const messageIds = third.filter(({ kind }) => kind === 'MessageEvent').map(({ id }) => id)
    for (const event of second.filter(({ kind }) => kind === 'MessageEvent'))
      expect(messageIds).toContain(event.id)
    expect((await getInfo(id)).leaf_event_id).toBe(third.at(-1)?.id)
  },
)

wireCase(
  'POST /api/conversations/{id}/navigate',
  'accepts null for the beginning; unknown is 404',
  async () => {
    const { id } = await wire.createFinished()
    const start = await wire.requestOrThrow<ConversationInfo>('POST', path(id, '/navigate'), {
      body: { event_id: null },
    })
    expect(start.leaf_event_id).toBeNull()
    expect(await wire.requestStatus('POST', path(id, '/navigate'), { body: { event_id: 'none' } })).toBe(404)
    expect(await wire.requestStatus('POST', path(unknownId, '/navigate'), { body: { event_id: null } })).toBe(
      404,
    )
  },
)

wireCase(
  'POST /api/conversations/{id}/load_plugin',
  'is 404 for an unknown plugin, marketplace or conversation',
  async () => {
    const { id } = await wire.createIdle()
    for (const plugin_ref of ['no-such-plugin@no-such-place', 'no-such-plugin'])
      expect([400, 404]).toContain(
        await wire.requestStatus('POST', path(id, '/load_plugin'), { body: { plugin_ref } }),
      )
    expect(
      await wire.requestStatus('POST', path(unknownId, '/load_plugin'), { body: { plugin_ref: 'a@b' } }),
    ).toBe(404)
    expect(await wire.requestStatus('POST', path(id, '/load_plugin'), { body: {} })).toBe(422)
  },
)

wireCase(
  'POST /api/conversations/{id}/switch_profile',
  'continues with the model of a profile; unknown is 404',
  async () => {
    const name = `wire-${randomUUID().slice(0, 8)}`
    const llm = scriptedModel([{ text: 'zero' }, { text: 'From the profile.' }], {
      model: 'scripted/profile',
    })
    await wire.requestOrThrow('POST', `/api/profiles/${name}`, { body: { llm } })
    const { id } = await wire.createFinished([{ text: 'From the start.' }])
    expect(
      await wire.requestStatus('POST', path(id, '/switch_profile'), { body: { profile_name: name } }),
    ).toBe(200)
    expect(await getInfo(id)).toMatchObject({ agent: { llm: { model: 'scripted/profile' } } })
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'And now?' }], run: true },
    })
    expect(collectTexts(await wire.driver.waitUntilIdle(id))).toContain('From the profile.')
    await wire.requestOrThrow('DELETE', `/api/profiles/${name}`)
    for (const target of [id, unknownId])
      expect(
        await wire.requestStatus('POST', path(target, '/switch_profile'), { body: { profile_name: name } }),
      ).toBe(404)
  },
)

wireCase(
  'POST /api/conversations/{id}/switch_llm',
  'continues with another model and the whole history',
  async () => {
    const { id } = await wire.createFinished([{ text: 'Old.' }])
    const llm = {
      ...scriptedModel([{ text: '-' }, { text: 'New.' }], { model: 'scripted/other' }),
      api_key: 'llm-canary',
    }
    expect(await wire.requestStatus('POST', path(id, '/switch_llm'), { body: { llm } })).toBe(200)
    expect(await getInfo(id)).toMatchObject({ agent: { llm: { model: 'scripted/other', api_key: null } } })
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'And?' }], run: true },
    })
    const events = await wire.driver.waitUntilIdle(id)
    expect(collectTexts(events)).toContain('New.')
    expect(JSON.stringify([events, await getInfo(id)])).not.toContain('llm-canary')
    expect(await wire.requestStatus('POST', path(unknownId, '/switch_llm'), { body: { llm } })).toBe(404)
    expect(await wire.requestStatus('POST', path(id, '/switch_llm'), { body: {} })).toBe(422)
  },
)

wireCase('POST /api/conversations/{id}/switch_acp_model', 'is 400 for an ordinary agent', async () => {
  const { id } = await wire.createIdle()
  expect(await wire.requestStatus('POST', path(id, '/switch_acp_model'), { body: { model: 'x' } })).toBe(400)
})

wireCase('POST /api/conversations/{id}/goal', 'runs until the judge finds the goal complete', async () => {
  const judge = (score: number, complete: boolean) => ({
    side: true,
    text: JSON.stringify({ score, complete, missing: complete ? '' : 'more of it' }),
  })
  const { id } = await wire.createIdle([
    finishStep('Half.'),
    finishStep('Whole.'),
    judge(0.5, false),
    judge(1, true),
  ])
  expect(
    await wire.requestStatus('POST', path(id, '/goal'), {
      body: { objective: 'All of it', max_iterations: 5 },
    }),
  ).toBe(200)
  const status = (event: Json) =>
    event.key === 'goal' && typeof event.value === 'object' && event.value !== null && 'status' in event.value
      ? event.value.status
      : undefined
  const events = await wire.driver.waitForEvent(id, (event) => status(event) === 'complete')
  expect(collectTexts(events)).toContain('Whole.')
  expect(events.findLast((event) => status(event) !== undefined)).toMatchObject({
    source: 'environment',
    value: { active: false, status: 'complete', objective: 'All of it', max_iterations: 5 },
  })
  for (const body of [{ objective: '' }, {}, { objective: 'x', max_iterations: 0 }])
    expect([400, 422]).toContain(await wire.requestStatus('POST', path(id, '/goal'), { body }))
  expect(await wire.requestStatus('POST', path(unknownId, '/goal'), { body: { objective: 'x' } })).toBe(404)
})

wireCase('POST /api/conversations/{id}/goal/stop', 'succeeds with and without a goal', async () => {
  const { id } = await wire.createIdle([{ ...finishStep(), delay_ms: 60_000 }])
  expect(await wire.requestStatus('POST', path(id, '/goal/stop'), { body: {} })).toBe(200)
  await wire.requestOrThrow('POST', path(id, '/goal'), { body: { objective: 'Never' } })
  expect(await wire.requestStatus('POST', path(id, '/goal/stop'), { body: {} })).toBe(200)
  expect(await wire.requestStatus('POST', path(unknownId, '/goal/stop'), { body: {} })).toBe(404)
  await wire.request('POST', path(id, '/interrupt'))
})

wireCase('POST /api/conversations/{id}/goal/resume', 'is 400 without a goal', async () => {
  const { id } = await wire.createIdle()
  expect(await wire.requestStatus('POST', path(id, '/goal/resume'), { body: {} })).toBe(400)
  expect(await wire.requestStatus('POST', path(unknownId, '/goal/resume'), { body: {} })).toBe(404)
})

wireCase('GET /api/tools/', 'lists names, with and without a trailing slash', async () => {
  for (const spelling of ['/api/tools/', '/api/tools']) {
    const response = await fetch(`${wire.url}${spelling}`, { headers: wire.headers })
    expect([spelling, response.status]).toEqual([spelling, 200])
    expect(await response.json()).toEqual(expect.arrayContaining(['terminal', 'file_editor', 'task_tracker']))
  }
})

wireCase(
  'ALL states',
  'a message to what has finished makes it idle, and run on finished does nothing',
  async () => {
    const { id } = await wire.createFinished([finishStep(), finishStep('Again.')])
    const before = (await wire.driver.getEvents(id)).length
    expect(await wire.requestStatus('POST', path(id, '/run'))).toBe(200)
    await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('finished')
    const kinds = (await wire.driver.getEvents(id)).slice(before).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind !== 'ConversationStateUpdateEvent')).toEqual([])
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'More.' }] },
    })
    expect((await getInfo(id)).execution_status).toBe('idle')
  },
)

wireCase('ALL states', 'a message to what waits for an answer rejects it first', async () => {
  const { id } = await wire.driver.createScripted([bashStep('touch never'), finishStep()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await wire.driver.waitUntilIdle(id)
  expect((await getInfo(id)).execution_status).toBe('waiting_for_confirmation')
  await wire.requestOrThrow('POST', path(id, '/events'), {
    body: { content: [{ type: 'text', text: 'Do not.' }], run: false },
  })
  const events = await wire.driver.getEvents(id)
  expect(events.map(eventLabel)).toContain('UserRejectObservation:terminal')
})

wireCase(
  'ALL states',
  'errors of the model and limits end in error with a code, and run tries again',
  async () => {
    const failing = [{ error: { code: 'LLMAuthenticationError' } }, finishStep('Better.')]
    const { id } = await wire.createIdle(failing)
    await wire.requestOrThrow('POST', path(id, '/events'), {
      body: { content: [{ type: 'text', text: 'Go.' }], run: true },
    })
    const events = await wire.driver.waitUntilIdle(id)
    expect((await getInfo(id)).execution_status).toBe('error')
    expect(events.findLast(({ kind }) => kind === 'ConversationErrorEvent')).toMatchObject({
      code: 'LLMAuthenticationError',
      detail: expect.any(String),
    })
    const endless = Array.from({ length: 5 }, (_, n) => toolCallsStep(toolCall('think', { thought: `${n}` })))
    const limited = await wire.createFinished(endless, { max_iterations: 2 })
    expect((await getInfo(limited.id)).execution_status).toBe('error')
    expect((await wire.driver.getEvents(limited.id)).map(eventLabel)).toContain(
      'ConversationErrorEvent:MaxIterationsReached',
    )
  },
)

wireCase('ALL titles', 'come on their own after the first message, unless autotitle is false', async () => {
  const script = [finishStep(), { side: true, text: 'A fine title' }]
  const titled = await wire.driver.create(
    { llm: scriptedModel(script) },
    {
      autotitle: true,
      initial_message: { content: [{ type: 'text', text: 'Something long enough to be named.' }] },
    },
  )
  for (let waited = 0; (await getInfo(titled.id)).title === null && waited < 20_000; waited += 100)
    await sleep(100)
  expect(String((await getInfo(titled.id)).title)).not.toHaveLength(0)
  expect(String((await getInfo(titled.id)).title).length).toBeLessThanOrEqual(50)
  const plain = await wire.createFinished()
  expect((await getInfo(plain.id)).title).toBeNull()
})

wireCase(
  'GET /api/conversations/{id}/runtime',
  'is there, as every view of a conversation says',
  async () => {
    const { id } = await wire.createIdle()
    const runtime = { runtime_status: 'available', can_resume: true, runtime_error: null }
    expect(await wire.requestOrThrow('GET', path(id, '/runtime'))).toEqual(runtime)
    expect(await wire.requestOrThrow('POST', path(id, '/runtime/reprovision'), { body: { x: 1 } })).toEqual(
      runtime,
    )
    expect(await wire.requestOrThrow('GET', path(id))).toMatchObject({ runtime_info: runtime })
    expect(await wire.requestStatus('GET', path(unknownId, '/runtime'))).toBe(404)
    expect(await wire.requestStatus('GET', path('x', '/runtime'))).toBe(422)
  },
)

wireCase('POST /api/conversations', 'the types of refusals that clients read', async () => {
  const { id } = await wire.createIdle()
  const image = { content: [{ type: 'image' }] }
  const workspaces = { workspaces: [{ id: 'x', path: '/x', name: 'n'.repeat(257) }] }
  for (const [method, address, body, loc, type] of [
    ['GET', path('nope'), undefined, ['path', 'conversation_id'], 'uuid_parsing'],
    ['POST', path(id, '/secrets'), { secrets: 'x' }, ['body', 'secrets'], 'dict_type'],
    ['POST', path(id, '/navigate'), undefined, ['body'], 'missing'],
    ['POST', path(id, '/events'), { content: 'x' }, ['body', 'content'], 'list_type'],
    ['POST', path(id, '/events'), image, ['body', 'content', 0, 'image_urls'], 'missing'],
    [
      'POST',
      path(id, '/goal'),
      { objective: 'x', max_iterations: 0 },
      ['body', 'max_iterations'],
      'greater_than_equal',
    ],
    [
      'POST',
      '/api/conversations',
      request({ max_iterations: 1.5 }),
      ['body', 'max_iterations'],
      'int_from_float',
    ],
    ['POST', '/api/workspaces', workspaces, ['body', 'workspaces', 0, 'name'], 'string_too_long'],
    ['GET', `${path(id)}/events/search?limit=x`, undefined, ['query', 'limit'], 'int_parsing'],
  ] as const) {
    const answer = await wire.request(method, address, body === undefined ? {} : { body })
    expect(answer, address).toMatchObject({ status: 422, body: { detail: [{ loc, type }] } })
  }
})

wireCase('POST /api/conversations', 'a workspace that is a file is refused', async () => {
  const file = `${wire.directory}/a-file`
  await wire.runCommand(`touch '${file}'`)
  const { status, body } = await wire.request<Json>('POST', '/api/conversations', {
    body: request({ workspace: { working_dir: file } }),
  })
  expect([status, body]).toMatchObject([422, { detail: [{ loc: ['body', 'workspace', 'working_dir'] }] }])
})
