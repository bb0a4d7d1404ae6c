import { access, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { countLoaded } from '../answers.ts'
import { endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  openModel,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()

async function create(body: object, headers: Record<string, string> = {}) {
  return await server.request<MapConversation & Json>('POST', '/api/conversations', { body, headers })
}

const count = async (client: MapClient = server, query: Record<string, string> = {}) =>
  await client.requestOrThrow<number>('GET', '/api/conversations/count', { query })

const search = async (query: Record<string, string> = {}, client: MapClient = server) =>
  await client.requestOrThrow<{ items: MapConversation[]; next_page_id: string | null }>(
    'GET',
    '/api/conversations/search',
    { query },
  )

const llm = { model: 'openai/gpt-4o', api_key: 'sk-sentinel-key', usage_id: 'agent' }
const workspace = () => ({ working_dir: server.directory })

mapCase('F04.create-settings', 'a conversation from the settings is idle and counted', async () => {
  const before = await count()
  const agent_settings = { agent_kind: 'openhands', llm, tools: [] }
  const found = await create({
    agent_settings,
    workspace: workspace(),
    autotitle: false,
    tags: { qa: 'f04' },
  })
  expect(found).toMatchObject({ status: 201, body: { execution_status: 'idle' } })
  expect(await count()).toBe(before + 1)
  const info = await server.getConversation(found.body.id)
  expect(info).toMatchObject({
    execution_status: 'idle',
    agent: { kind: 'Agent', llm: { model: 'openai/gpt-4o' } },
    tags: { qa: 'f04' },
    workspace: workspace(),
  })
  expect(JSON.stringify(info)).not.toContain('sk-sentinel-key')
})

mapCase(
  'F04.create-inline-agent',
  'an agent without kind is taken; its key and skills are not echoed',
  async () => {
    const agent_context = { skills: [{ name: 'map-skill', content: 'Answer briefly.' }] }
    const found = await create({
      agent: { llm, tools: [], agent_context },
      workspace: workspace(),
      autotitle: false,
    })
    expect(found).toMatchObject({ status: 201, body: { agent: { kind: 'Agent' } } })
    expect(JSON.stringify(found.body)).not.toContain('sk-sentinel-key')
    expect(JSON.stringify(found.body)).not.toContain('Answer briefly.')
  },
)

mapCase('F04.create-agent-profile', 'a conversation from a profile remembers it', async () => {
  await server.requestOrThrow('POST', '/api/profiles/map-f04', { body: { llm } })
  await server.requestOrThrow('POST', '/api/agent-profiles/map-f04', {
    body: { llm_profile_ref: 'map-f04', tools: [] },
  })
  const profile = await server.requestOrThrow<{ profile: Json }>('GET', '/api/agent-profiles/map-f04')
  const id = (profile.profile ?? (profile as unknown as Json)).id
  const found = await create({ agent_profile_id: id, workspace: workspace(), autotitle: false })
  expect(found).toMatchObject({
    status: 201,
    body: { launched_agent_profile: { agent_profile_id: id }, agent: { llm: { model: 'openai/gpt-4o' } } },
  })
})

mapCase('F04.create-validation', 'invalid requests create nothing', async () => {
  const before = await count()
  const agent = { kind: 'Agent', llm, tools: [] }
  const agent_settings = { agent_kind: 'openhands', llm, tools: [] }
  for (const body of [
    { workspace: workspace() },
    { agent, agent_profile_id: unknownId, workspace: workspace() },
    { agent_settings, agent_profile_id: unknownId, workspace: workspace() },
    { agent },
    { agent, workspace: workspace(), tags: { 'Bad Key': 'x' } },
    { agent, workspace: workspace(), max_iterations: 0 },
    { agent_settings: { agent_kind: 'unknown' }, workspace: workspace() },
  ])
    expect((await create(body)).status, JSON.stringify(body)).toBe(422)
  expect((await create({ agent_profile_id: unknownId, workspace: workspace() })).status).toBe(404)
  expect(await server.requestStatus('POST', '/api/conversations', { body: {}, isAnonymous: true })).toBe(401)
  expect(await count()).toBe(before)
})

mapCase('F04.create-validation-redaction', 'a 422 beside a key never contains the key', async () => {
  for (const body of [
    { agent: { kind: 'Agent', llm: { ...llm, temperature: 'hot' }, tools: [] }, workspace: workspace() },
    {
      agent_settings: { agent_kind: 'openhands', llm: { ...llm, temperature: 'hot' } },
      workspace: workspace(),
    },
    { agent: { kind: 'Agent', llm: { api_key: llm.api_key }, tools: [] }, workspace: workspace() },
  ]) {
    const found = await create(body)
    expect(found.status).toBe(422)
    expect(JSON.stringify(found.body)).not.toContain('sk-sentinel-key')
  }
})

mapCase('F04.create-idempotent', 'the same id again is 200 and sends nothing', async () => {
  const model = await server.openModel(finishReply())
  const conversation_id = crypto.randomUUID()
  const initial_message = { role: 'user', content: [{ type: 'text', text: 'Once.' }], run: true }
  const body = server.conversationRequest(model, { conversation_id, initial_message, autotitle: false })
  expect((await create(body)).status).toBe(201)
  await server.waitForStatus(conversation_id, 'finished')
  const before = await count()
  expect(await create(body)).toMatchObject({ status: 200, body: { id: conversation_id } })
  expect(await count()).toBe(before)
  const events = await server.getEvents(conversation_id)
  expect(events.filter(({ kind, source }) => kind === 'MessageEvent' && source === 'user')).toHaveLength(1)
})

mapCase(
  'F04.create-initial-message-run-false',
  'a first message with run false is stored only',
  async () => {
    const model = await server.openModel(finishReply())
    const message = (run: boolean) => ({ role: 'user', content: [{ type: 'text', text: 'First.' }], run })
    const stored = await server.createConversation(model, {
      initial_message: message(false),
      autotitle: false,
    })
    const run = await server.createConversation(model, { initial_message: message(true), autotitle: false })
    await server.waitForStatus(run.id, 'finished')
    expect((await server.getConversation(stored.id)).execution_status).toBe('idle')
    const events = await server.getEvents(stored.id)
    expect(events.filter(({ kind }) => kind === 'MessageEvent')).toHaveLength(1)
  },
  { faultThere: 'runs whatever the member says' },
)

mapCase('F04.create-parent', 'a child names its parent, which lists it', async () => {
  const parent = await server.createConversation()
  const child = await server.createConversation(undefined, { parent_conversation_id: parent.id })
  expect(child.parent_conversation_id).toBe(parent.id)
  expect((await server.getConversation(parent.id)).sub_conversation_ids).toEqual([child.id])
  await mkdir(join(server.directory, 'other'), { recursive: true })
  const conversation_id = crypto.randomUUID()
  for (const more of [
    { parent_conversation_id: unknownId },
    { parent_conversation_id: parent.id, workspace: { working_dir: join(server.directory, 'other') } },
    { parent_conversation_id: conversation_id, conversation_id },
  ])
    expect((await create(server.conversationRequest(undefined, more))).status, JSON.stringify(more)).toBe(422)
})

/** A repository with one commit; returns its path. */
async function makeRepository(name: string, client: MapClient = server): Promise<string> {
  const path = join(client.directory, name)
  const git = `git -C '${path}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  await client.runCommand(
    `mkdir -p '${path}' && git init -qb main '${path}' && echo one > '${path}/a.txt' && ${git} add . && ${git} commit -qm first`,
  )
  return path
}

mapCase('F04.create-worktree', 'a conversation in its own worktree, on its own branch', async () => {
  const working_dir = await makeRepository('worktree-source')
  const info = await server.createConversation(undefined, { workspace: { working_dir }, worktree: true })
  const own = (info.workspace as { working_dir: string }).working_dir
  expect(own).not.toBe(working_dir)
  expect(own.endsWith(`/${info.id}/worktree-source`)).toBe(true)
  expect((await server.runCommand(`git -C '${own}' branch --show-current`)).trim()).toBe(
    `openhands/${info.id}`,
  )
  expect(await server.runCommand(`cat '${own}/a.txt'`)).toBe('one\n')
  expect(await server.requestStatus('DELETE', `/api/conversations/${info.id}`)).toBe(200)
  expect(await server.runCommand(`ls -d '${own}' 2>/dev/null; true`)).toBe('')
  expect(await server.runCommand(`git -C '${working_dir}' worktree list | wc -l`)).toMatch(/^\s*1\n$/)
  expect(await server.runCommand(`git -C '${working_dir}' branch --list 'openhands/*'`)).toContain(info.id)
})

mapCase('F04.create-observability', 'headers of observability are validated', async () => {
  const body = server.conversationRequest(undefined)
  const header = (name: string, value: string) => ({ [`x-openhands-observability-${name}`]: value })
  expect((await create(body, header('metadata', '[1]'))).status).toBe(422)
  expect((await create(body, header('metadata', 'no json'))).status).toBe(422)
  const all = {
    ...header('span-name', 'qa.span'),
    ...header('tags', 'a,b'),
    ...header('metadata', '{"k":1}'),
  }
  expect((await create(body, all)).status).toBe(201)
})

mapCase(
  'F04.create-observability-precedence',
  'what may not be a name, a tag or metadata is 422',
  async () => {
    const body = server.conversationRequest(undefined)
    const header = (name: string, value: string) => ({ [`x-openhands-observability-${name}`]: value })
    for (const headers of [
      header('span-name', 'x'.repeat(129)),
      header('span-name', 'no good name!'),
      header('metadata', '{"nested":{}}'),
    ])
      expect((await create(body, headers)).status, JSON.stringify(headers)).toBe(422)
    expect((await create({ ...body, observability_tags: [''] })).status).toBe(422)
  },
)

mapCase('F04.create-secrets', 'secrets of the start are masked in the answer', async () => {
  const secrets = { MAP_TOKEN: { kind: 'StaticSecret', value: 'sentinel-secret' } }
  const found = await create(server.conversationRequest(undefined, { secrets }))
  expect(found.status).toBe(201)
  const text = JSON.stringify(found.body)
  expect(text).toContain('MAP_TOKEN')
  expect(text).not.toContain('sentinel-secret')
})

mapCase(
  'F04.create-secrets-get',
  'secrets of the start are listed at once',
  async () => {
    const secrets = { MAP_TOKEN: { kind: 'StaticSecret', value: 'sentinel-secret' } }
    const { id } = await server.createConversation(undefined, { secrets })
    const text = JSON.stringify(await server.getConversation(id))
    expect(text).toContain('MAP_TOKEN')
    expect(text).not.toContain('sentinel-secret')
  },
  { faultThere: 'not listed until the state is saved' },
)

mapCase('F04.create-secrets-plain', 'a text as a secret is taken or refused, never 500', async () => {
  const found = await create(
    server.conversationRequest(undefined, { secrets: { MAP_TOKEN: 'sentinel-secret' } }),
  )
  expect([201, 422]).toContain(found.status)
})

mapCase('F04.run-real', 'a first message runs; title, final response and replay follow', async () => {
  const model = await server.openModel(commandReply('echo hi'), finishReply('All done.'))
  model.replyWithoutTools = { text: 'A title of the map' }
  const initial_message = { role: 'user', content: [{ type: 'text', text: 'Begin.' }], run: true }
  const { id } = await server.createConversation(model, { initial_message, autotitle: true })
  await server.waitForStatus(id, 'finished')
  const { response } = await server.requestOrThrow<Json>(
    'GET',
    `/api/conversations/${id}/agent_final_response`,
  )
  expect(response).toBe('All done.')
  const { title } = await waitFor(
    () => server.getConversation(id),
    ({ title }) => title !== null && title !== undefined,
  )
  expect(title).toEqual(expect.any(String))
  await using socket = server.openSocket(`/sockets/events/${id}?resend_mode=all`)
  await waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'ObservationEvent'))
})

mapCase('F04.final-response', 'empty before, exact afterwards, 404 for an unknown id', async () => {
  const model = await server.openModel(finishReply('EXACT TEXT'))
  const { id } = await server.createConversation(model, { autotitle: false })
  const path = `/api/conversations/${id}/agent_final_response`
  expect(await server.requestOrThrow('GET', path)).toEqual({ response: '' })
  await server.sendMessage(id, 'Begin.', true)
  await server.waitForStatus(id, 'finished')
  expect(await server.requestOrThrow('GET', path)).toEqual({ response: 'EXACT TEXT' })
  expect(await server.requestStatus('GET', `/api/conversations/${unknownId}/agent_final_response`)).toBe(404)
})

mapCase(
  'F04.title-llm-profile',
  'the named profile alone makes the title; an unknown one falls back',
  async () => {
    const titles = await server.openModel(finishReply())
    titles.replyWithoutTools = { text: 'Title of the profile' }
    titles.replies = [{ text: 'Title of the profile' }]
    await server.requestOrThrow('POST', '/api/profiles/map-f04-title', { body: { llm: titles.llm('chat') } })
    const model = await server.openModel(finishReply())
    model.replyWithoutTools = { text: 'Title of the agent' }
    const initial_message = { role: 'user', content: [{ type: 'text', text: 'Begin.' }], run: true }
    for (const [title_llm_profile, expected] of [
      ['map-f04-title', 'Title of the profile'],
      ['map-f04-unknown', 'Title of the agent'],
    ] as const) {
      const { id } = await server.createConversation(model, { initial_message, title_llm_profile })
      await waitFor(
        () => server.getConversation(id),
        ({ title }) => title === expected,
      )
    }
    expect(titles.requests.length).toBeGreaterThan(0)
  },
)

mapCase('F04.get', 'runtime, trimmed skills, hexadecimal ids and the errors', async () => {
  const agent_context = { skills: [{ name: 'map-skill', content: 'Answer briefly.' }] }
  const { body } = await create({
    agent: { llm, tools: [], agent_context },
    workspace: workspace(),
    autotitle: false,
  })
  const path = `/api/conversations/${body.id}`
  expect(await server.requestOrThrow('GET', path)).toMatchObject({
    runtime_info: { runtime_status: 'available', can_resume: true },
  })
  expect(JSON.stringify(await server.requestOrThrow('GET', path))).not.toContain('Answer briefly.')
  const query = { include_skills: 'true' }
  expect(JSON.stringify(await server.requestOrThrow('GET', path, { query }))).toContain('Answer briefly.')
  expect(await server.getConversation(body.id.replaceAll('-', ''))).toMatchObject({ id: body.id })
  expect(await server.requestStatus('GET', `/api/conversations/${unknownId}`)).toBe(404)
  expect(await server.requestStatus('GET', '/api/conversations/no-uuid')).toBe(422)
  expect(await server.requestStatus('GET', path, { isAnonymous: true })).toBe(401)
})

mapCase('F04.batch-get', 'conversations in the order of ids, null for unknown ones', async () => {
  const first = await server.createConversation()
  const second = await server.createConversation()
  const query = `ids=${second.id}&ids=${unknownId}&ids=${first.id}`
  const found = await server.requestOrThrow<(MapConversation | null)[]>('GET', '/api/conversations', {
    query,
  })
  expect(found.map((one) => one?.id ?? null)).toEqual([second.id, null, first.id])
  expect(await server.requestStatus('GET', '/api/conversations')).toBe(422)
  expect(await server.requestStatus('GET', '/api/conversations', { query: 'ids=no-uuid' })).toBe(422)
})

mapCase('F04.batch-get-limit', '100 ids are a client error', async () => {
  const query = (length: number) => Array.from({ length }, () => `ids=${crypto.randomUUID()}`).join('&')
  expect(await server.requestStatus('GET', '/api/conversations', { query: query(99) })).toBe(200)
  const status = await server.requestStatus('GET', '/api/conversations', { query: query(100) })
  expect(status).toBeGreaterThanOrEqual(400)
  expect(status).toBeLessThan(500)
})

mapCase('F04.search-page', 'pages from the newest on; other orders; invalid members are 422', async () => {
  const first = await server.createConversation()
  const second = await server.createConversation()
  const page = await search({ limit: '1' })
  expect(page.items.map(({ id }) => id)).toEqual([second.id])
  const next = await search({ limit: '1', page_id: String(page.next_page_id) })
  expect(next.items.map(({ id }) => id)).toEqual([first.id])
  const oldest = await search({ limit: '100', sort_order: 'CREATED_AT' })
  const times = oldest.items.map(({ created_at }) => String(created_at))
  expect(times).toEqual([...times].sort())
  for (const query of [{ limit: '0' }, { limit: '101' }, { sort_order: 'unknown' }])
    expect(await server.requestStatus('GET', '/api/conversations/search', { query })).toBe(422)
})

mapCase('F04.search-filter', 'a status filters search and count alike', async () => {
  const paused = await server.createConversation()
  await server.post(paused.id, 'pause')
  const { items } = await search({ status: 'paused', limit: '100' })
  expect(items.map(({ id }) => id)).toContain(paused.id)
  expect(items.every(({ execution_status }) => execution_status === 'paused')).toBe(true)
  expect(await count(server, { status: 'paused' })).toBe(items.length)
  for (const route of ['search', 'count'])
    expect(
      await server.requestStatus('GET', `/api/conversations/${route}`, { query: { status: 'unknown' } }),
    ).toBe(422)
})

mapCase('F04.count', 'the count is that of all pages', async () => {
  let listed = 0
  for (let page_id: string | null = ''; page_id !== null; ) {
    const page: Awaited<ReturnType<typeof search>> = await search({
      limit: '100',
      ...(page_id === '' ? {} : { page_id }),
    })
    listed += page.items.length
    page_id = page.next_page_id
  }
  expect(await count()).toBe(listed)
})

mapCase('F04.patch-title', 'a title is stripped and moves the conversation to the top', async () => {
  const { id, updated_at } = await server.createConversation()
  await server.createConversation()
  const found = await server.request('PATCH', `/api/conversations/${id}`, {
    body: { title: '  A new title  ' },
  })
  expect(found.status).toBe(200)
  const info = await server.getConversation(id)
  expect(info.title).toBe('A new title')
  expect(String(info.updated_at) > String(updated_at)).toBe(true)
  expect((await search({ limit: '1', sort_order: 'UPDATED_AT_DESC' })).items[0]?.id).toBe(id)
})

mapCase('F04.patch-tags', 'tags replace the whole map and are told on the socket', async () => {
  const { id } = await server.createConversation(undefined, { tags: { one: '1', two: '2' } })
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  await server.requestOrThrow('PATCH', `/api/conversations/${id}`, { body: { tags: { three: '3' } } })
  expect((await server.getConversation(id)).tags).toEqual({ three: '3' })
  await waitForFrames(socket, (frames) => frames.some(({ key }) => key === 'tags'))
  const stored = (await server.getEvents(id)).filter(({ key }) => key === 'tags')
  expect(stored).toMatchObject([{ value: { three: '3' } }])
})

mapCase('F04.patch-errors', 'invalid titles, tags and ids change nothing', async () => {
  const { id } = await server.createConversation(undefined, { tags: { one: '1' } })
  const path = `/api/conversations/${id}`
  await server.requestOrThrow('PATCH', path, { body: { title: 'Stays' } })
  for (const body of [{ title: '' }, { title: 'x'.repeat(201) }, { tags: { 'Bad Key': 'x' } }])
    expect(await server.requestStatus('PATCH', path, { body })).toBe(422)
  const body = { title: 'Other' }
  expect(await server.requestStatus('PATCH', '/api/conversations/no-uuid', { body })).toBe(422)
  expect(await server.requestStatus('PATCH', path, { body, isAnonymous: true })).toBe(401)
  expect(await server.getConversation(id)).toMatchObject({ title: 'Stays', tags: { one: '1' } })
})

mapCase('F04.patch-whitespace-title', 'a title of blanks is refused', async () => {
  const { id } = await server.createConversation()
  const path = `/api/conversations/${id}`
  await server.requestOrThrow('PATCH', path, { body: { title: 'Stays' } })
  expect(await server.requestStatus('PATCH', path, { body: { title: '   ' } })).toBe(422)
  expect((await server.getConversation(id)).title).toBe('Stays')
})

mapCase('F04.patch-unknown-id', 'a change of an unknown conversation is 404', async () => {
  const body = { title: 'Any' }
  expect(await server.requestStatus('PATCH', `/api/conversations/${unknownId}`, { body })).toBe(404)
})

mapCase('F04.delete', 'a running conversation is stopped and removed; its workspace stays', async () => {
  const held = heldReply()
  const model = await server.openModel()
  model.replies = [held.reply(model)]
  const parent = await server.createConversation(model, { autotitle: false })
  const child = await server.createConversation(model, {
    parent_conversation_id: parent.id,
    autotitle: false,
  })
  await server.sendMessage(parent.id, 'Begin.', true)
  await held.arrived
  await using socket = server.openSocket(`/sockets/events/${parent.id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect(await server.requestStatus('DELETE', `/api/conversations/${parent.id}`)).toBe(200)
  held.release()
  expect(socket.events().map(({ kind }) => kind)).toContain('InterruptEvent')
  expect(await server.requestStatus('GET', `/api/conversations/${parent.id}`)).toBe(404)
  expect((await server.getConversation(child.id)).parent_conversation_id).toBe(parent.id)
  await access(server.directory)
  await using late = server.openSocket(`/sockets/events/${parent.id}`)
  expect(await late.closed).toMatchObject({ code: 4004 })

  const repository = await makeRepository('delete-source')
  const moved = await server.createConversation(undefined, {
    workspace: { working_dir: repository },
    worktree: true,
  })
  const { working_dir } = moved.workspace as { working_dir: string }
  expect(await server.requestStatus('DELETE', `/api/conversations/${moved.id}`)).toBe(200)
  await expect(access(working_dir)).rejects.toThrow()
  expect(await server.runCommand(`git -C '${repository}' branch --list 'openhands/*'`)).toContain(moved.id)
  expect(await server.requestStatus('DELETE', '/api/conversations/no-uuid')).toBe(422)
  expect(await server.requestStatus('DELETE', `/api/conversations/${child.id}`, { isAnonymous: true })).toBe(
    401,
  )
})

mapCase('F04.delete-unknown-id', 'removing an unknown conversation is 404', async () => {
  expect(await server.requestStatus('DELETE', `/api/conversations/${unknownId}`)).toBe(404)
})

mapCase(
  'F04.restart-persist',
  'a restart changes nothing of the catalogue',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    await using model = await openModel(finishReply('EXACT TEXT'))
    const { id } = await own.createConversation(model, { autotitle: false, tags: { one: '1' } })
    const deleted = await own.createConversation(model)
    await own.requestOrThrow('PATCH', `/api/conversations/${id}`, { body: { title: 'Kept' } })
    await own.sendMessage(id, 'Begin.', true)
    await own.waitForStatus(id, 'finished')
    await own.requestOrThrow('DELETE', `/api/conversations/${deleted.id}`)
    const before = await own.getEvents(id)
    await own.restart()
    expect(await count(own)).toBe(1)
    expect(await own.getConversation(id)).toMatchObject({
      execution_status: 'finished',
      title: 'Kept',
      tags: { one: '1' },
    })
    expect(await own.getEvents(id)).toEqual(before)
    expect(await own.requestOrThrow('GET', `/api/conversations/${id}/agent_final_response`)).toEqual({
      response: 'EXACT TEXT',
    })
    expect(await own.requestStatus('GET', `/api/conversations/${deleted.id}`)).toBe(404)
  },
  { hasOwnServer: true },
)

mapCase(
  'F04.read-no-hydrate',
  'reads of a conversation that is not loaded do not load it',
  async () => {
    await using own = await OwnMapServer.open({ key: 'map-key-2' })
    const { id } = await own.createConversation(undefined, { autotitle: false })
    const body = { title: 'Cold' }
    await own.requestOrThrow('PATCH', `/api/conversations/${id}`, { body })
    await own.sendMessage(id, 'Kept.')
    await own.restart()
    expect(await own.getConversation(id)).toMatchObject({ id, title: 'Cold' })
    const [batch] = await own.requestOrThrow<Json[]>('GET', '/api/conversations', { query: { ids: id } })
    expect(batch).toMatchObject({ id, title: 'Cold' })
    expect((await search({}, own)).items.map((found) => found.id)).toEqual([id])
    expect(await count(own)).toBe(1)
    expect((await own.getEvents(id)).map(({ kind }) => kind)).toContain('MessageEvent')
    expect(await countLoaded(own)).toBe(0)
    await own.sendMessage(id, 'Again.')
    expect(await countLoaded(own)).toBe(1)
  },
  { hasOwnServer: true },
)

endFamily('F04', 32)
