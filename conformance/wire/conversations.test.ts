import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { bash, brief, call, calls, finish, type Info, scripted, texts } from '../support/agent-driver.ts'
import { type Json, nowhere, openWire, prove } from './wire-server.ts'

const wire = openWire()
const path = (id: string, verb = '') => `/api/conversations/${id}${verb}`
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const request = (more: object = {}) => ({
  agent: { kind: 'Agent', llm: scripted([finish()]), tools: [] },
  workspace: { working_dir: wire.directory },
  autotitle: false,
  ...more,
})
const info = (id: string) => wire.must<Info>('GET', path(id))

prove(
  'POST /api/conversations',
  'makes one with 201, and answers a known id with 200 and the same',
  async () => {
    const conversation_id = randomUUID()
    const made = await wire.ask<Info>('POST', '/api/conversations', { body: request({ conversation_id }) })
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
    const again = await wire.ask<Info>('POST', '/api/conversations', {
      body: { conversation_id: conversation_id.replaceAll('-', ''), ...request() },
    })
    expect([again.status, again.body.id]).toEqual([200, conversation_id])
    expect((await wire.ask<Info>('POST', '/api/conversations', { body: request() })).body.id).toMatch(uuid)
  },
)

prove(
  'POST /api/conversations',
  'takes an agent without kind, a workspace of another kind, and nulls',
  async () => {
    const { status, body } = await wire.ask<Info>('POST', '/api/conversations', {
      body: {
        agent: { llm: scripted([finish()]) },
        workspace: { type: 'local', working_dir: `${wire.directory}/made/on the way` },
        initial_message: null,
        max_iterations: 500,
        hook_config: null,
        user_id: null,
        no_such_member: { x: 1 },
      },
    })
    expect([status, body.agent]).toEqual([201, expect.objectContaining({ kind: 'Agent' })])
    expect(await wire.bash(`test -d '${wire.directory}/made/on the way' && echo there`)).toBe('there\n')
  },
)

prove(
  'POST /api/conversations',
  'keeps what it is given and shows it in the info, secrets never',
  async () => {
    const { body } = await wire.ask<Info>('POST', '/api/conversations', {
      body: request({
        agent: {
          kind: 'Agent',
          llm: { ...scripted([finish()]), api_key: 'key-canary-1' },
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
      secret_registry: { secret_sources: { TOKEN_A: { kind: 'StaticSecret', value: null } } },
      agent: { tools: [{ name: 'terminal' }, { name: 'file_editor' }], llm: { api_key: null } },
    })
    expect(JSON.stringify([body, await info(body.id)])).not.toContain('canary')
  },
)

prove('POST /api/conversations', 'sends the first message and runs it, whatever its run says', async () => {
  for (const run of [undefined, true, false]) {
    const message = {
      role: 'user',
      content: [{ type: 'text', text: 'Go.' }],
      ...(run === undefined ? {} : { run }),
    }
    const made = await wire.must<Info>('POST', '/api/conversations', {
      body: request({ initial_message: message }),
    })
    await wire.drive.rest(made.id)
    expect((await info(made.id)).execution_status).toBe('finished')
  }
})

prove('POST /api/conversations', 'refuses what it cannot be, with 4xx and the place', async () => {
  const bad: readonly [object, number][] = [
    [{}, 422],
    [{ agent: { kind: 'Agent', llm: scripted([]) } }, 422],
    [{ workspace: { working_dir: wire.directory } }, 422],
    [request({ agent: { kind: 'ACPAgent', acp_command: ['x'] } }), 422],
    [request({ agent: { kind: 'Nothing', llm: scripted([]) } }), 422],
    [request({ max_iterations: 0 }), 422],
    [request({ conversation_id: 'x' }), 422],
    [request({ parent_conversation_id: nowhere }), 422],
    [request({ tags: { Team: 'x' } }), 422],
    [
      request({ client_tools: [{ name: 'terminal', description: 'x', parameters: { type: 'object' } }] }),
      422,
    ],
    [{ ...request(), agent: undefined, agent_profile_id: nowhere }, 404],
    [request({ agent_profile_id: nowhere }), 422],
  ]
  for (const [body, status] of bad)
    expect([body, await wire.status('POST', '/api/conversations', { body })]).toEqual([body, status])
})

prove('POST /api/conversations', 'takes settings in the place of an agent', async () => {
  const { status, body } = await wire.ask<Info>('POST', '/api/conversations', {
    body: {
      agent_settings: { agent_kind: 'openhands', llm: scripted([finish()]), tools: [] },
      workspace: { kind: 'LocalWorkspace', working_dir: wire.directory },
      initial_message: { role: 'user', content: [{ type: 'text', text: 'Go.' }] },
    },
  })
  expect([status, body.agent]).toEqual([201, expect.objectContaining({ kind: 'Agent' })])
  await wire.drive.rest(body.id)
  expect((await info(body.id)).execution_status).toBe('finished')
})

prove('POST /api/conversations', 'takes all that the page sends, which is a lot', async () => {
  const secret = `WIRE_${randomUUID().slice(0, 8)}`
  await wire.must('PUT', '/api/settings/secrets', { body: { name: secret, value: 'page-canary' } })
  await wire.must('PATCH', '/api/settings', {
    body: { agent_settings_diff: { llm: { api_key: 'page-canary' } } },
  })
  const sealed = await wire.must<{ agent_settings: { llm: { api_key: string } } }>('GET', '/api/settings', {
    headers: { 'x-expose-secrets': 'encrypted' },
  })
  const skills = Array.from({ length: 40 }, (_, n) => ({
    name: `skill-${n}`,
    content: 'x'.repeat(4_000),
    trigger: null,
  }))
  const conversation_id = randomUUID()
  const working_dir = `${wire.directory}/workspace/project/${conversation_id.replaceAll('-', '')}`
  const script = [
    bash(`printf %s "$${secret}" > seen.txt`),
    calls(call('open_tab', { tab: 'files' })),
    finish(),
  ]
  const { status, body } = await wire.ask<Info>('POST', '/api/conversations', {
    body: {
      conversation_id,
      agent_settings: {
        agent_kind: 'openhands',
        llm: { ...scripted(script), stream: true, api_key: sealed.agent_settings.llm.api_key },
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
  const events = await wire.drive.rest(conversation_id)
  const now = await info(conversation_id)
  expect(now).toMatchObject({
    execution_status: 'finished',
    tags: { clientsource: 'page' },
    client_tools: [{ name: 'open_tab' }],
  })
  const seen = await wire.ask('GET', '/api/file/download', {
    query: { path: `${now.workspace.working_dir}/seen.txt` },
  })
  expect(seen.body).toBe('page-canary')
  expect(events.map(({ kind, tool_name }) => `${kind} ${tool_name}`)).toContain('ObservationEvent open_tab')
  expect(JSON.stringify([events, now])).not.toContain('page-canary')
  await wire.must('DELETE', `/api/settings/secrets/${secret}`)
  await wire.must('PATCH', '/api/settings', { body: { agent_settings_diff: { llm: { api_key: null } } } })
})

prove(
  'POST /api/conversations',
  'knows a parent and its children, additions to the prompt, and hooks',
  async () => {
    const parent = await wire.idle()
    const hooks = {
      pre_tool_use: [
        { matcher: 'terminal', hooks: [{ type: 'command', command: 'echo "not that" >&2; exit 2' }] },
      ],
    }
    const child = await wire.idle([bash('touch hooked'), finish()], {
      parent_conversation_id: parent.id,
      agent_launch_additions: { system_message_suffix_append: 'Mind the conformance suite.' },
      hook_config: hooks,
    })
    expect(child.parent_conversation_id).toBe(parent.id)
    expect((await info(parent.id)).sub_conversation_ids).toEqual([child.id])
    await wire.must('POST', path(child.id, '/events'), { body: { content: 'Go.', run: true } })
    const events = await wire.drive.rest(child.id)
    expect(texts(events.find(({ kind }) => kind === 'SystemPromptEvent'))).toContain(
      'Mind the conformance suite.',
    )
    expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
      rejection_source: 'hook',
    })
    expect(await wire.bash(`ls '${wire.directory}'`)).not.toContain('hooked')
  },
)

prove(
  'GET /api/conversations/{id}',
  'answers by either spelling of the id, 404 and 422 otherwise',
  async () => {
    const { id } = await wire.idle()
    const long = await info(id)
    const short = await wire.must<Info>('GET', path(id.replaceAll('-', '')))
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
    expect(await wire.status('GET', path(nowhere))).toBe(404)
    expect(await wire.status('GET', path('no-id'))).toBe(422)
  },
)

prove('GET /api/conversations/{id}', 'counts what the model used', async () => {
  const { id } = await wire.played()
  expect(await info(id)).toMatchObject({
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

prove(
  'GET /api/conversations',
  'answers in the order asked for, null for the missing, 422 for too many',
  async () => {
    const [a, b] = [await wire.idle(), await wire.idle()]
    const found = await wire.must<(Info | null)[]>('GET', '/api/conversations', {
      query: `ids=${b.id}&ids=${nowhere}&ids=${a.id.replaceAll('-', '')}`,
    })
    expect(found.map((each) => each?.id ?? null)).toEqual([b.id, null, a.id])
    const many = Array.from({ length: 101 }, () => `ids=${nowhere}`).join('&')
    expect(await wire.status('GET', '/api/conversations', { query: many })).toBe(422)
  },
)

prove('GET /api/conversations/search', 'walks all in pages, each once, in each order', async () => {
  const made = [await wire.idle(), await wire.idle(), await wire.idle()].map(({ id }) => id)
  await wire.must('PATCH', path(String(made[0])), { body: { title: 'Touched' } })
  for (const sort_order of ['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC']) {
    const seen: Info[] = []
    for (let page_id: string | null = ''; page_id !== null; ) {
      const query: Record<string, string> = { limit: '2', sort_order, ...(page_id === '' ? {} : { page_id }) }
      const page: { items: Info[]; next_page_id: string | null } = await wire.must(
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

prove('GET /api/conversations/search', 'filters by status, and refuses limits beyond 1 to 100', async () => {
  const idle = await wire.idle()
  const done = await wire.played()
  const page = await wire.must<{ items: Info[] }>('GET', '/api/conversations/search', {
    query: { status: 'finished' },
  })
  const ids = page.items.map(({ id }) => id)
  expect([ids.includes(done.id), ids.includes(idle.id)]).toEqual([true, false])
  for (const limit of ['0', '101', '-1', 'x', ''])
    expect(await wire.status('GET', '/api/conversations/search', { query: { limit } })).toBe(422)
  expect(await wire.status('GET', '/api/conversations/search', { query: { status: 'asleep' } })).toBe(422)
})

prove('GET /api/conversations/count', 'is a bare number, of all or of one status', async () => {
  const before = await wire.must<number>('GET', '/api/conversations/count', { query: { status: 'finished' } })
  await wire.played()
  const after = await wire.must<number>('GET', '/api/conversations/count', { query: { status: 'finished' } })
  expect(after).toBe(before + 1)
  expect(await wire.must<number>('GET', '/api/conversations/count')).toBeGreaterThanOrEqual(after)
})

prove('PATCH /api/conversations/{id}', 'sets the title and replaces the tags as a whole', async () => {
  const { id } = await wire.idle([finish()], { tags: { a: '1', b: '2' } })
  expect(await wire.must('PATCH', path(id), { body: { title: 'Näme' } })).toEqual({ success: true })
  expect(await info(id)).toMatchObject({ title: 'Näme', tags: { a: '1', b: '2' } })
  await wire.must('PATCH', path(id), { body: { tags: { c: '3' } } })
  expect(await info(id)).toMatchObject({ title: 'Näme', tags: { c: '3' } })
  expect(Object.keys((await info(id)).tags as object)).toEqual(['c'])
  for (const title of ['', 'x'.repeat(201)])
    expect(await wire.status('PATCH', path(id), { body: { title } })).toBe(422)
  expect(await wire.status('PATCH', path(nowhere), { body: { title: 'x' } })).toBe(404)
})

prove(
  'DELETE /api/conversations/{id}',
  'takes it out of everything at once, and leaves its folder',
  async () => {
    const { id } = await wire.played([bash(`touch '${wire.directory}/kept'`), finish()])
    expect(await wire.status('DELETE', path(id))).toBe(200)
    expect(await wire.status('GET', path(id))).toBe(404)
    expect(await wire.status('GET', path(id, '/events/search'))).toBe(404)
    expect(await wire.must('GET', '/api/conversations', { query: { ids: id } })).toEqual([null])
    expect(await wire.status('DELETE', path(id))).toBe(404)
    expect(await wire.bash(`ls '${wire.directory}/kept'`)).toContain('kept')
  },
)

prove('DELETE /api/conversations/{id}', 'also ends one that runs', async () => {
  const { id } = await wire.drive.play([bash('sleep 300'), finish()])
  await wire.drive.until(id, (event) => event.kind === 'ActionEvent')
  expect(await wire.status('DELETE', path(id))).toBe(200)
  expect(await wire.status('GET', path(id))).toBe(404)
})

prove('POST /api/conversations/{id}/run', 'answers at once, 409 while it runs, 404 for nobody', async () => {
  const { id } = await wire.idle([{ ...finish(), delay_ms: 1_500 }])
  await wire.must('POST', path(id, '/events'), { body: { content: [{ type: 'text', text: 'Go.' }] } })
  expect(await wire.ask('POST', path(id, '/run'))).toMatchObject({ status: 200, body: { success: true } })
  const second = await wire.ask('POST', path(id, '/run'), { body: {} })
  expect(second).toMatchObject({
    status: 409,
    body: { detail: 'Conversation already running. Wait for completion or pause first.' },
  })
  await wire.drive.rest(id)
  expect((await info(id)).execution_status).toBe('finished')
  expect(await wire.status('POST', path(nowhere, '/run'))).toBe(404)
})

prove(
  'POST /api/conversations/{id}/pause',
  'pauses what runs and what does not, and run goes on',
  async () => {
    const { id } = await wire.drive.play([bash('sleep 1'), finish()])
    await wire.drive.until(id, (event) => event.kind === 'ActionEvent')
    expect(await wire.ask('POST', path(id, '/pause'))).toMatchObject({ status: 200, body: { success: true } })
    expect((await wire.drive.rest(id)).map(brief)).toContain('PauseEvent')
    expect((await info(id)).execution_status).toBe('paused')
    await wire.must('POST', path(id, '/run'))
    await wire.drive.rest(id)
    expect((await info(id)).execution_status).toBe('finished')
    const idle = await wire.idle()
    await wire.must('POST', path(idle.id, '/pause'), { body: {} })
    expect((await info(idle.id)).execution_status).toBe('paused')
    expect(await wire.status('POST', path(nowhere, '/pause'))).toBe(404)
  },
)

prove(
  'POST /api/conversations/{id}/interrupt',
  'ends a tool and a waiting model, and answers every call',
  async () => {
    const { id } = await wire.drive.play([bash('sleep 300'), { ...finish(), delay_ms: 300_000 }])
    await wire.drive.until(id, (event) => event.kind === 'ActionEvent')
    expect(await wire.status('POST', path(id, '/interrupt'), { body: {} })).toBe(200)
    const events = await wire.drive.rest(id)
    expect((await info(id)).execution_status).toBe('paused')
    const action = events.find(({ kind }) => kind === 'ActionEvent')
    const results = events.filter((event) => event !== action && event.tool_call_id === action?.tool_call_id)
    expect(results).toHaveLength(1)
    await wire.must('POST', path(id, '/run'))
    await sleep(500)
    expect((await info(id)).execution_status).toBe('running')
    expect(await wire.status('POST', path(id, '/interrupt'))).toBe(200)
    await wire.drive.rest(id)
    expect((await info(id)).execution_status).toBe('paused')
    expect(await wire.status('POST', path(nowhere, '/interrupt'))).toBe(404)
  },
)

prove(
  'POST /api/conversations/{id}/interrupt',
  'ends also the step that a pause or the end of a goal lets go on',
  async () => {
    for (const verb of ['/pause', '/goal/stop']) {
      const { id } = await wire.idle([{ ...finish('Never.'), delay_ms: 300_000 }, finish('Next.')])
      await wire.must('POST', path(id, '/goal'), { body: { objective: 'All', max_iterations: 1 } })
      await sleep(500)
      await wire.must('POST', path(id, verb), { body: {} })
      expect(await wire.status('POST', path(id, '/interrupt'))).toBe(200)
      await wire.must('POST', path(id, '/run'))
      await wire.drive.rest(id)
      expect(await wire.must('GET', path(id, '/agent_final_response'))).toEqual({ response: 'Next.' })
    }
  },
)

prove(
  'POST /api/conversations/{id}/secrets',
  'reach commands that name them, are masked and not echoed',
  async () => {
    const { id } = await wire.idle([bash('echo "[$WIRE_A|$WIRE_B|$WIRE_C]" | tee secrets.txt'), finish()])
    const secrets = {
      WIRE_A: 'alpha-canary',
      WIRE_B: { kind: 'StaticSecret', value: 'beta-canary' },
      WIRE_C: { value: 'gamma-canary' },
    }
    expect(await wire.must('POST', path(id, '/secrets'), { body: { secrets } })).toEqual({ success: true })
    await wire.must('POST', path(id, '/events'), { body: { content: 'Go.', run: true } })
    const events = await wire.drive.rest(id)
    const file = await wire.ask('GET', '/api/file/download', {
      query: { path: `${wire.directory}/secrets.txt` },
    })
    expect(file.body).toBe('[alpha-canary|beta-canary|gamma-canary]\n')
    expect(JSON.stringify([events, await info(id)])).not.toContain('canary')
    expect(await wire.status('POST', path(nowhere, '/secrets'), { body: { secrets: {} } })).toBe(404)
    expect(await wire.status('POST', path(id, '/secrets'), { body: {} })).toBe(422)
  },
)

prove('POST /api/conversations/{id}/confirmation_policy', 'is in force from the next call on', async () => {
  const { id } = await wire.idle([bash('true'), finish()])
  const policy = { kind: 'AlwaysConfirm' }
  expect(await wire.must('POST', path(id, '/confirmation_policy'), { body: { policy } })).toEqual({
    success: true,
  })
  expect((await info(id)).confirmation_policy).toEqual(policy)
  await wire.must('POST', path(id, '/events'), { body: { content: 'Go.', run: true } })
  await wire.drive.rest(id)
  expect((await info(id)).execution_status).toBe('waiting_for_confirmation')
  for (const body of [{}, { policy: { kind: 'X' } }, { policy: null }])
    expect(await wire.status('POST', path(id, '/confirmation_policy'), { body })).toBe(422)
  expect(await wire.status('POST', path(nowhere, '/confirmation_policy'), { body: { policy } })).toBe(404)
})

prove(
  'POST /api/conversations/{id}/security_analyzer',
  'is an object or null, and must be there',
  async () => {
    const { id } = await wire.idle()
    const url = path(id, '/security_analyzer')
    await wire.must('POST', url, { body: { security_analyzer: { kind: 'LLMSecurityAnalyzer' } } })
    expect((await info(id)).security_analyzer).toMatchObject({ kind: 'LLMSecurityAnalyzer' })
    await wire.must('POST', url, { body: { security_analyzer: null } })
    expect((await info(id)).security_analyzer).toBeNull()
    for (const body of [{}, { security_analyzer: { kind: 'X' } }, { security_analyzer: 1 }])
      expect(await wire.status('POST', url, { body })).toBe(422)
    const nobody = { body: { security_analyzer: null } }
    expect(await wire.status('POST', path(nowhere, '/security_analyzer'), nobody)).toBe(404)
  },
)

prove(
  'POST /api/conversations/{id}/ask_agent',
  'answers a question and leaves the log as it was',
  async () => {
    const { id } = await wire.played([finish(), { side: true, text: 'Forty-two.' }])
    const before = await wire.drive.events(id)
    const { response } = await wire.must<{ response: string }>('POST', path(id, '/ask_agent'), {
      body: { question: 'How many?' },
    })
    expect(response).toBe('Forty-two.')
    expect(await wire.drive.events(id)).toEqual(before)
    expect(await wire.status('POST', path(nowhere, '/ask_agent'), { body: { question: 'x' } })).toBe(404)
    expect(await wire.status('POST', path(id, '/ask_agent'), { body: {} })).toBe(422)
  },
)

prove(
  'POST /api/conversations/{id}/condense',
  'forgets, with a condenser; 4xx without, 404 for nobody',
  async () => {
    const condenser = { kind: 'LLMSummarizingCondenser', max_size: 80, keep_first: 1, llm: scripted([]) }
    const script = [...Array.from({ length: 6 }, (_, n) => bash(`echo ${n}`)), finish()]
    const { id } = await wire.drive.create(
      { llm: scripted([...script, { side: true, text: 'They counted.' }]), condenser },
      { initial_message: { content: 'Count.' } },
    )
    await wire.drive.rest(id)
    expect(await wire.ask('POST', path(id, '/condense'))).toMatchObject({
      status: 200,
      body: { success: true },
    })
    const events = await wire.drive.until(id, ({ kind }) => kind === 'Condensation')
    expect(events.map(({ kind }) => kind)).toContain('CondensationRequest')
    const without = await wire.played()
    expect([400, 409]).toContain(await wire.status('POST', path(without.id, '/condense')))
    expect(await wire.status('POST', path(nowhere, '/condense'))).toBe(404)
  },
)

prove('GET /api/conversations/{id}/agent_final_response', 'is empty before any, then the last', async () => {
  const { id } = await wire.idle([{ text: 'First.' }, finish('Second.')])
  const response = () => wire.must('GET', path(id, '/agent_final_response'))
  expect(await response()).toEqual({ response: '' })
  for (const text of ['First.', 'Second.']) {
    await wire.must('POST', path(id, '/events'), { body: { content: 'Go.', run: true } })
    await wire.drive.rest(id)
    expect(await response()).toEqual({ response: text })
  }
  expect(await wire.status('GET', path(nowhere, '/agent_final_response'))).toBe(404)
})

prove(
  'POST /api/conversations/{id}/fork',
  'copies all, or up to an event, and both go on apart',
  async () => {
    const { id } = await wire.played([bash('true'), finish('Here.')], { tags: { a: '1' } })
    const source = await wire.drive.events(id)
    const whole = await wire.ask<Info>('POST', path(id, '/fork'))
    expect(whole).toMatchObject({
      status: 201,
      body: { execution_status: 'idle', forked_from_conversation_id: id, tags: { a: '1' } },
    })
    expect(whole.body.id).not.toBe(id)
    const copied = await wire.drive.events(whole.body.id)
    expect(copied.slice(0, source.length).map(({ id }) => id)).toEqual(source.map(({ id }) => id))
    const action = source.findIndex(({ kind }) => kind === 'ObservationEvent')
    const from = String(source[action]?.id)
    const chosen = randomUUID()
    const part = await wire.must<Info>('POST', path(id, '/fork'), {
      body: { id: chosen, title: 'Part', tags: { b: '2' }, from_event_id: from },
    })
    expect(part).toMatchObject({ id: chosen, title: 'Part', tags: { b: '2' }, forked_from_event_id: from })
    const ids = (await wire.drive.events(chosen)).map(({ id }) => id)
    expect(ids.slice(0, action + 1)).toEqual(source.slice(0, action + 1).map(({ id }) => id))
    expect(ids).not.toContain(source.at(-2)?.id)
    expect((await wire.drive.events(id)).length).toBe(source.length)
  },
)

prove(
  'POST /api/conversations/{id}/fork',
  'is 404 for what is not there and 409 for a taken id',
  async () => {
    const { id } = await wire.played()
    expect(await wire.status('POST', path(nowhere, '/fork'), { body: {} })).toBe(404)
    expect(await wire.status('POST', path(id, '/fork'), { body: { from_event_id: 'none' } })).toBe(404)
    expect(await wire.status('POST', path(id, '/fork'), { body: { id } })).toBe(409)
    expect(await wire.status('POST', path(id, '/fork'), { body: { id: 'x' } })).toBe(422)
  },
)

prove(
  'POST /api/conversations/{id}/navigate',
  'goes back to an event, and the next message begins a branch',
  async () => {
    const script = [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }]
    const { id } = await wire.idle(script)
    const say = async (content: string) => {
      await wire.must('POST', path(id, '/events'), { body: { content, run: true } })
      return await wire.drive.rest(id)
    }
    const first = await say('a')
    const target = String(first.findLast(({ kind }) => kind === 'MessageEvent')?.id)
    const second = await say('b')
    const moved = await wire.ask<Info>('POST', path(id, '/navigate'), { body: { event_id: target } })
    expect(moved).toMatchObject({ status: 200, body: { id, leaf_event_id: target } })
    expect((await info(id)).leaf_event_id).toBe(target)
    const third = await say('c')
    const kept = third.filter(({ kind }) => kind === 'MessageEvent').map(({ id }) => id)
    for (const event of second.filter(({ kind }) => kind === 'MessageEvent')) expect(kept).toContain(event.id)
    expect((await info(id)).leaf_event_id).toBe(third.at(-1)?.id)
  },
)

prove('POST /api/conversations/{id}/navigate', 'takes null for the beginning; unknown is 404', async () => {
  const { id } = await wire.played()
  const start = await wire.must<Info>('POST', path(id, '/navigate'), { body: { event_id: null } })
  expect(start.leaf_event_id).toBeNull()
  expect(await wire.status('POST', path(id, '/navigate'), { body: { event_id: 'none' } })).toBe(404)
  expect(await wire.status('POST', path(nowhere, '/navigate'), { body: { event_id: null } })).toBe(404)
})

prove(
  'POST /api/conversations/{id}/load_plugin',
  'is 404 for an unknown plugin, marketplace or conversation',
  async () => {
    const { id } = await wire.idle()
    for (const plugin_ref of ['no-such-plugin@no-such-place', 'no-such-plugin'])
      expect([400, 404]).toContain(
        await wire.status('POST', path(id, '/load_plugin'), { body: { plugin_ref } }),
      )
    expect(await wire.status('POST', path(nowhere, '/load_plugin'), { body: { plugin_ref: 'a@b' } })).toBe(
      404,
    )
    expect(await wire.status('POST', path(id, '/load_plugin'), { body: {} })).toBe(422)
  },
)

prove(
  'POST /api/conversations/{id}/switch_profile',
  'goes on with the model of a profile; unknown is 404',
  async () => {
    const name = `wire-${randomUUID().slice(0, 8)}`
    const llm = scripted([{ text: 'zero' }, { text: 'From the profile.' }], { model: 'scripted/profile' })
    await wire.must('POST', `/api/profiles/${name}`, { body: { llm } })
    const { id } = await wire.played([{ text: 'From the start.' }])
    expect(await wire.status('POST', path(id, '/switch_profile'), { body: { profile_name: name } })).toBe(200)
    expect(await info(id)).toMatchObject({ agent: { llm: { model: 'scripted/profile' } } })
    await wire.must('POST', path(id, '/events'), { body: { content: 'And now?', run: true } })
    expect(texts(await wire.drive.rest(id))).toContain('From the profile.')
    await wire.must('DELETE', `/api/profiles/${name}`)
    for (const target of [id, nowhere])
      expect(
        await wire.status('POST', path(target, '/switch_profile'), { body: { profile_name: name } }),
      ).toBe(404)
  },
)

prove(
  'POST /api/conversations/{id}/switch_llm',
  'goes on with another model and the whole history',
  async () => {
    const { id } = await wire.played([{ text: 'Old.' }])
    const llm = {
      ...scripted([{ text: '-' }, { text: 'New.' }], { model: 'scripted/other' }),
      api_key: 'llm-canary',
    }
    expect(await wire.status('POST', path(id, '/switch_llm'), { body: { llm } })).toBe(200)
    expect(await info(id)).toMatchObject({ agent: { llm: { model: 'scripted/other', api_key: null } } })
    await wire.must('POST', path(id, '/events'), { body: { content: 'And?', run: true } })
    const events = await wire.drive.rest(id)
    expect(texts(events)).toContain('New.')
    expect(JSON.stringify([events, await info(id)])).not.toContain('llm-canary')
    expect(await wire.status('POST', path(nowhere, '/switch_llm'), { body: { llm } })).toBe(404)
    expect(await wire.status('POST', path(id, '/switch_llm'), { body: {} })).toBe(422)
  },
)

prove('POST /api/conversations/{id}/switch_acp_model', 'is 400 for an ordinary agent', async () => {
  const { id } = await wire.idle()
  expect(await wire.status('POST', path(id, '/switch_acp_model'), { body: { model: 'x' } })).toBe(400)
})

prove('POST /api/conversations/{id}/goal', 'runs again until the judge says it is complete', async () => {
  const judge = (score: number, complete: boolean) => ({
    side: true,
    text: JSON.stringify({ score, complete, missing: complete ? '' : 'more of it' }),
  })
  const { id } = await wire.idle([finish('Half.'), finish('Whole.'), judge(0.5, false), judge(1, true)])
  expect(
    await wire.status('POST', path(id, '/goal'), { body: { objective: 'All of it', max_iterations: 5 } }),
  ).toBe(200)
  const status = (event: Json) =>
    event.key === 'goal' && typeof event.value === 'object' && event.value !== null && 'status' in event.value
      ? event.value.status
      : undefined
  const events = await wire.drive.until(id, (event) => status(event) === 'complete')
  expect(texts(events)).toContain('Whole.')
  expect(events.findLast((event) => status(event) !== undefined)).toMatchObject({
    source: 'environment',
    value: { active: false, status: 'complete', objective: 'All of it', max_iterations: 5 },
  })
  for (const body of [{ objective: '' }, {}, { objective: 'x', max_iterations: 0 }])
    expect([400, 422]).toContain(await wire.status('POST', path(id, '/goal'), { body }))
  expect(await wire.status('POST', path(nowhere, '/goal'), { body: { objective: 'x' } })).toBe(404)
})

prove('POST /api/conversations/{id}/goal/stop', 'is fine with a goal and without one', async () => {
  const { id } = await wire.idle([{ ...finish(), delay_ms: 60_000 }])
  expect(await wire.status('POST', path(id, '/goal/stop'), { body: {} })).toBe(200)
  await wire.must('POST', path(id, '/goal'), { body: { objective: 'Never' } })
  expect(await wire.status('POST', path(id, '/goal/stop'), { body: {} })).toBe(200)
  expect(await wire.status('POST', path(nowhere, '/goal/stop'), { body: {} })).toBe(404)
  await wire.ask('POST', path(id, '/interrupt'))
})

prove('POST /api/conversations/{id}/goal/resume', 'is 400 without a goal', async () => {
  const { id } = await wire.idle()
  expect(await wire.status('POST', path(id, '/goal/resume'), { body: {} })).toBe(400)
  expect(await wire.status('POST', path(nowhere, '/goal/resume'), { body: {} })).toBe(404)
})

prove('GET /api/tools/', 'lists names, asked for with the slash and without', async () => {
  for (const spelling of ['/api/tools/', '/api/tools']) {
    const response = await fetch(`${wire.url}${spelling}`, { headers: wire.headers })
    expect([spelling, response.status]).toEqual([spelling, 200])
    expect(await response.json()).toEqual(expect.arrayContaining(['terminal', 'file_editor', 'task_tracker']))
  }
})

prove(
  'ALL states',
  'a message to what has finished makes it idle, and run on finished does nothing',
  async () => {
    const { id } = await wire.played([finish(), finish('Again.')])
    const before = (await wire.drive.events(id)).length
    expect(await wire.status('POST', path(id, '/run'))).toBe(200)
    await wire.drive.rest(id)
    expect((await info(id)).execution_status).toBe('finished')
    const kinds = (await wire.drive.events(id)).slice(before).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind !== 'ConversationStateUpdateEvent')).toEqual([])
    await wire.must('POST', path(id, '/events'), { body: { content: 'More.' } })
    expect((await info(id)).execution_status).toBe('idle')
  },
)

prove('ALL states', 'a message to what waits for an answer rejects it first', async () => {
  const { id } = await wire.drive.play([bash('touch never'), finish()], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await wire.drive.rest(id)
  expect((await info(id)).execution_status).toBe('waiting_for_confirmation')
  await wire.must('POST', path(id, '/events'), { body: { content: 'Do not.', run: false } })
  const events = await wire.drive.events(id)
  expect(events.map(brief)).toContain('UserRejectObservation:terminal')
})

prove(
  'ALL states',
  'errors of the model and limits end in error with a code, and run tries again',
  async () => {
    const failing = [{ error: { code: 'LLMAuthenticationError' } }, finish('Better.')]
    const { id } = await wire.idle(failing)
    await wire.must('POST', path(id, '/events'), { body: { content: 'Go.', run: true } })
    const events = await wire.drive.rest(id)
    expect((await info(id)).execution_status).toBe('error')
    expect(events.findLast(({ kind }) => kind === 'ConversationErrorEvent')).toMatchObject({
      code: 'LLMAuthenticationError',
      detail: expect.any(String),
    })
    const endless = Array.from({ length: 5 }, (_, n) => calls(call('think', { thought: `${n}` })))
    const limited = await wire.played(endless, { max_iterations: 2 })
    expect((await info(limited.id)).execution_status).toBe('error')
    expect((await wire.drive.events(limited.id)).map(brief)).toContain(
      'ConversationErrorEvent:MaxIterationsReached',
    )
  },
)

prove('ALL titles', 'come by themselves after the first message, unless autotitle is false', async () => {
  const script = [finish(), { side: true, text: 'A fine title' }]
  const titled = await wire.drive.create(
    { llm: scripted(script) },
    { autotitle: true, initial_message: { content: 'Something long enough to be named.' } },
  )
  for (let waited = 0; (await info(titled.id)).title === null && waited < 20_000; waited += 100)
    await sleep(100)
  expect(String((await info(titled.id)).title)).not.toHaveLength(0)
  expect(String((await info(titled.id)).title).length).toBeLessThanOrEqual(50)
  const plain = await wire.played()
  expect((await info(plain.id)).title).toBeNull()
})
