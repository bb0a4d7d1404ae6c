import { expect } from 'vitest'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const refusing = {
  model: 'openai/gpt-4o',
  api_key: 'k',
  base_url: 'http://127.0.0.1:9/v1',
  num_retries: 0,
  usage_id: 'agent',
}

async function withTwo(on: MapClient = server): Promise<string> {
  const { id } = await on.createConversation(undefined, { ...plain, tags: { source: 'yes' } })
  await on.sendMessage(id, 'ONE')
  await on.sendMessage(id, 'TWO')
  return id
}

async function finished(on: MapClient = server) {
  const model = await server.openModel(finishReply('The answer.'))
  model.replyWithoutTools = { text: 'From the side.' }
  const { id } = await on.createConversation(model, plain)
  await on.sendMessage(id, 'The codename is PELICAN.', true)
  await on.waitForStatus(id, 'finished')
  return { id, model }
}

const fork = (id: string, body?: object, on: MapClient = server) =>
  on.request<MapConversation & { detail?: unknown }>('POST', `/api/conversations/${id}/fork`, { body })
const navigate = (id: string, body?: object, on: MapClient = server) =>
  on.request<MapConversation & { detail?: unknown }>('POST', `/api/conversations/${id}/navigate`, { body })
const messages = async (id: string, on: MapClient = server) =>
  (await on.getEvents(id)).filter(({ kind }) => kind === 'MessageEvent')
const ids = (events: readonly Json[]) => events.map(({ id }) => id)

mapCase('F10.fork-whole', 'a whole copy with the same ids, idle, naming its source', async () => {
  const id = await withTwo()
  const source = await server.getConversation(id)
  const { status, body } = await fork(id)
  expect(status).toBe(201)
  expect(body).toMatchObject({
    execution_status: 'idle',
    forked_from_conversation_id: id,
    forked_from_event_id: null,
    leaf_event_id: source.leaf_event_id,
    workspace: source.workspace,
    title: null,
  })
  expect(ids(await server.getEvents(body.id))).toEqual(ids(await server.getEvents(id)))
  expect(await server.getConversation(id)).toMatchObject({ forked_from_conversation_id: null })
})

mapCase(
  'F10.fork-named',
  'id, title and tags of a fork',
  async () => {
    const id = crypto.randomUUID()
    const found = await fork(await withTwo(), { id, title: 'A named fork', tags: { qa: 'f10' } })
    const expected = { id, title: 'A named fork', tags: { qa: 'f10', title: 'A named fork' } }
    expect(found).toMatchObject({ status: 201, body: expected })
    expect(await server.getConversation(id)).toMatchObject(expected)
  },
  { faultThere: 'no tag with the title' },
)

mapCase('F10.fork-tags-consistent', 'tags of the answer and of GET agree', async () => {
  const { body } = await fork(await withTwo())
  expect((await server.getConversation(body.id)).tags).toEqual(body.tags)
})

mapCase('F10.fork-from-event', 'a fork from an event has what is up to it', async () => {
  const id = await withTwo()
  const [first] = await messages(id)
  const { status, body } = await fork(id, { from_event_id: first?.id })
  expect(status).toBe(201)
  expect(body).toMatchObject({ forked_from_event_id: first?.id, leaf_event_id: first?.id })
  expect(ids(await messages(body.id))).toEqual([first?.id])
})

mapCase('F10.fork-metrics', 'statistics are empty, or those of the source', async () => {
  const { id } = await finished()
  const { stats } = await server.getConversation(id)
  const kept = await fork(id, { reset_metrics: false })
  expect(kept.body.stats).toEqual(stats)
  const { body } = await fork(id)
  expect(body.stats).toMatchObject({ usage_to_metrics: {} })
})

mapCase('F10.fork-independent', 'fork and source do not see messages of each other', async () => {
  const id = await withTwo()
  const { body } = await fork(id)
  await server.sendMessage(body.id, 'OF THE FORK')
  await server.sendMessage(id, 'OF THE SOURCE')
  expect(JSON.stringify(await server.getEvents(id))).not.toContain('OF THE FORK')
  expect(JSON.stringify(await server.getEvents(body.id))).not.toContain('OF THE SOURCE')
  await using socket = server.openSocket(`/sockets/events/${body.id}?resend_mode=all`)
  await waitForFrames(socket, (frames) => frames.filter(({ kind }) => kind === 'MessageEvent').length === 3)
})

mapCase('F10.fork-errors', 'errors create nothing', async () => {
  const id = await withTwo()
  const count = () => server.requestOrThrow('GET', '/api/conversations/count')
  const before = await count()
  expect(await fork(unknownId)).toMatchObject({
    status: 404,
    body: { detail: 'Source conversation not found' },
  })
  expect(await fork(id, { from_event_id: 'no-event' })).toMatchObject({
    status: 404,
    body: { detail: 'Unknown from_event_id: no-event' },
  })
  expect(await fork(id, { id })).toMatchObject({
    status: 409,
    body: { detail: `Conversation with id ${id} already exists` },
  })
  expect((await fork(id, { tags: { 'Bad Key': 'x' } })).status).toBe(422)
  expect(await fork(id, { title: 'x'.repeat(201) })).toMatchObject({
    status: 422,
    body: { detail: [{ type: 'string_too_long' }] },
  })
  expect((await fork('no-uuid')).status).toBe(422)
  expect(await server.requestStatus('POST', `/api/conversations/${id}/fork`, { isAnonymous: true })).toBe(401)
  expect(await count()).toBe(before)
})

mapCase(
  'F10.fork-keeps-credentials',
  'a fork has the key of its model',
  async () => {
    const { id, model } = await finished()
    const { body } = await fork(id)
    await server.sendMessage(body.id, 'Again.', true)
    await server.waitForStatus(body.id, 'finished')
    expect(model.requests.at(-1)?.headers.authorization).toBe('Bearer sk-far')
  },
  { faultThere: 'a fork has no key' },
)

mapCase(
  'F10.fork-run-memory',
  'the model of a fork sees the history of the source',
  async () => {
    const { id, model } = await finished()
    const { body } = await fork(id)
    await server.sendMessage(body.id, 'What is the codename?', true)
    await server.waitForStatus(body.id, 'finished')
    expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('PELICAN')
  },
  { faultThere: 'a fork has no key' },
)

mapCase('F10.navigate-event', 'the head moves and nothing is removed', async () => {
  const id = await withTwo()
  const before = ids(await server.getEvents(id))
  const [first] = await messages(id)
  expect(await navigate(id, { event_id: first?.id })).toMatchObject({
    status: 200,
    body: { leaf_event_id: first?.id },
  })
  expect((await server.getConversation(id)).leaf_event_id).toBe(first?.id)
  expect(ids(await server.getEvents(id))).toEqual(expect.arrayContaining(before))
})

mapCase('F10.navigate-branch', 'the next event is a child of the head', async () => {
  const id = await withTwo()
  const [first] = await messages(id)
  await navigate(id, { event_id: first?.id })
  await server.sendMessage(id, 'SIBLING')
  const last = (await messages(id)).at(-1)
  expect(last?.parent_id).toBe(first?.id)
})

mapCase('F10.navigate-empty', 'null is the empty tree; the next event is a root', async () => {
  const id = await withTwo()
  for (const body of [{}, { event_id: null }]) {
    expect(await navigate(id, body)).toMatchObject({ status: 200, body: { leaf_event_id: null } })
    const before = (await server.getEvents(id)).length
    await server.sendMessage(id, 'ROOT')
    const [root, ...others] = (await server.getEvents(id)).slice(before)
    expect(root?.parent_id).toBe('__root__')
    for (const event of others) expect(event.parent_id).not.toBe('__root__')
  }
})

mapCase('F10.navigate-errors', 'errors do not move the head', async () => {
  const id = await withTwo()
  const { leaf_event_id } = await server.getConversation(id)
  expect(await navigate(id, { event_id: 'no-event' })).toMatchObject({
    status: 404,
    body: { detail: 'Unknown event_id: no-event' },
  })
  expect(await navigate(unknownId, {})).toMatchObject({
    status: 404,
    body: { detail: 'Conversation not found' },
  })
  expect((await navigate(id)).status).toBe(422)
  expect(
    await server.requestStatus('POST', `/api/conversations/${id}/navigate`, {
      body: {},
      isAnonymous: true,
    }),
  ).toBe(401)
  expect((await server.getConversation(id)).leaf_event_id).toBe(leaf_event_id)
})

mapCase('F10.navigate-final-response', 'the final response is that of the active branch', async () => {
  const { id } = await finished()
  const [first] = await messages(id)
  await navigate(id, { event_id: first?.id })
  const path = `/api/conversations/${id}/agent_final_response`
  expect(await server.requestOrThrow('GET', path)).toEqual({ response: '' })
})

const condense = (id: string, on: MapClient = server) =>
  on.request<Json>('POST', `/api/conversations/${id}/condense`)

/** A conversation from settings whose model plays finish, after a run. */
async function withCondenser(condenser: object, on: MapClient = server) {
  const model = await server.openModel(finishReply('The answer.'))
  model.replyWithoutTools = { text: 'A summary.' }
  const agent_settings = { agent_kind: 'openhands', llm: model.llm('chat'), tools: [], condenser }
  const body = { agent_settings, workspace: { working_dir: on.directory }, ...plain }
  const { id } = await on.requestOrThrow<{ id: string }>('POST', '/api/conversations', { body })
  await on.sendMessage(id, 'The codename is PELICAN.', true)
  await on.waitForStatus(id, 'finished')
  return { id, model }
}

const kinds = async (id: string, on: MapClient = server) => (await on.getEvents(id)).map(({ kind }) => kind)

mapCase('F10.condense-llm', 'a summary is asked for and stored; the status stays', async () => {
  const { id } = await withCondenser({ enabled: true })
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect(await condense(id)).toMatchObject({ status: 200, body: { success: true } })
  const seen = await kinds(id)
  expect(seen.filter((kind) => kind === 'CondensationRequest')).toHaveLength(1)
  expect(seen.filter((kind) => kind === 'Condensation')).toHaveLength(1)
  await waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'Condensation'))
  expect((await server.getConversation(id)).execution_status).toBe('finished')
})

mapCase(
  'F10.condense-no-condenser',
  'without a condenser nothing is stored and the cause is named',
  async () => {
    const { id } = await withCondenser({ enabled: false })
    const before = await kinds(id)
    const found = await condense(id)
    expect(found.status).not.toBe(200)
    expect(JSON.stringify(found.body)).toMatch(/condenser/i)
    expect(await kinds(id)).toEqual(before)
  },
)

mapCase('F10.condense-status', 'that is a client error', async () => {
  const { id } = await withCondenser({ enabled: false })
  expect(Math.floor((await condense(id)).status / 100)).toBe(4)
})

differs(
  'F10.condense-llm-failure',
  'a model that fails is 500, and the request stays',
  'failures of a model in a request',
  async () => {
    const { id } = await withCondenser({ enabled: true })
    await server.post(id, 'switch_llm', { llm: { ...refusing, usage_id: 'map-refusing' } })
    const found = await condense(id)
    expect(found.status).toBe(409)
    expect(found.body.detail).toEqual(expect.any(String))
    const seen = await kinds(id)
    expect(seen).toContain('CondensationRequest')
    expect(seen).not.toContain('Condensation')
  },
)

mapCase('F10.condense-errors', '404, 422 and 401', async () => {
  expect(await condense(unknownId)).toMatchObject({ status: 404, body: { detail: 'Conversation not found' } })
  expect((await condense('no-uuid')).status).toBe(422)
  const path = `/api/conversations/${await withTwo()}/condense`
  expect(await server.requestStatus('POST', path, { isAnonymous: true })).toBe(401)
})

const ask = (id: string, on: MapClient = server) =>
  on.post(id, 'ask_agent', { question: 'What is the codename?' })

mapCase('F10.ask-agent', 'a question is answered and leaves no trace', async () => {
  const { id, model } = await finished()
  const before = await server.getEvents(id)
  model.replies = [{ text: 'From the side.' }]
  expect(await ask(id)).toMatchObject({ status: 200, body: { response: 'From the side.' } })
  expect(ids((await server.getEvents(id)).filter(({ kind }) => kind === 'MessageEvent'))).toEqual(
    ids(before.filter(({ kind }) => kind === 'MessageEvent')),
  )
  expect((await server.getConversation(id)).execution_status).toBe('finished')
})

differs(
  'F10.ask-agent-errors',
  '422, 401 and 500 with an id',
  'failures of a model in a request',
  async () => {
    const { id } = await finished()
    expect((await server.post(id, 'ask_agent', {})).status).toBe(422)
    const body = { question: 'x' }
    expect(
      await server.requestStatus('POST', `/api/conversations/${id}/ask_agent`, { body, isAnonymous: true }),
    ).toBe(401)
    await server.post(id, 'switch_llm', { llm: { ...refusing, usage_id: 'map-refusing' } })
    const found = await ask(id)
    expect(found.status).toBe(503)
    expect(found.body.detail).toEqual(expect.any(String))
  },
)

mapCase('F10.ask-agent-running', 'a question in a run is answered at once', async () => {
  const held = heldReply(finishReply())
  const model = await server.openModel()
  model.replyWithoutTools = { text: 'From the side.' }
  model.replies = [held.reply(model), { text: 'From the side.' }]
  const { id } = await server.createConversation(model, plain)
  await server.sendMessage(id, 'Begin.', true)
  await held.arrived
  expect(await ask(id)).toMatchObject({ status: 200, body: { response: 'From the side.' } })
  expect((await server.getConversation(id)).execution_status).toBe('running')
  held.release()
})

mapCase('F10.ask-agent-unknown', 'a question to an unknown conversation is 404', async () => {
  expect((await ask(unknownId)).status).toBe(404)
})

mapCase(
  'F10.restart-persist',
  'forks and heads outlive a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const id = await withTwo(own)
    const { body } = await fork(id, { title: 'Kept', tags: { qa: 'f10' } }, own)
    await navigate(id, {}, own)
    await own.restart()
    expect(await fork(id, { id: body.id }, own)).toMatchObject({ status: 409 })
    expect(await own.getConversation(body.id)).toMatchObject({
      title: 'Kept',
      forked_from_conversation_id: id,
      leaf_event_id: body.leaf_event_id,
    })
    expect((await own.getConversation(id)).leaf_event_id).toBe(null)
  },
  { hasOwnServer: true },
)

mapCase(
  'F10.restart-cold-calls',
  'condense and questions work after a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const { id, model } = await withCondenser({ enabled: true }, own)
    await own.restart()
    model.replies = [{ text: 'From the side.' }]
    expect((await ask(id, own)).status).toBe(200)
    expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('PELICAN')
    expect((await condense(id, own)).status).toBe(200)
  },
  { hasOwnServer: true },
)

endFamily('F10', 25)
