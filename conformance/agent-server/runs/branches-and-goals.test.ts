import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  eventLabel,
  finishStep,
  scriptedModel,
} from '../../support/agent-driver.ts'
import { OwnAgentServer, openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'

const { api, driver, directory } = await openAgentFixture()

const isAgentMessage = ({ kind, source }: ApiEvent) => kind === 'MessageEvent' && source === 'agent'
const goalVerdict = (complete: boolean) => ({
  side: true,
  text: JSON.stringify({ score: 1, complete, missing: '' }),
})

async function navigate(id: string, event_id: string | null): Promise<ConversationInfo> {
  const { status, body } = await driver.post(id, 'navigate', { event_id })
  expect(status).toBe(200)
  return body as ConversationInfo
}

test('a conversation continues from another event: every event stays, and the branch decides', async () => {
  const { id } = await driver.createScripted([{ text: 'First.' }, { text: 'Second.' }])
  const first = await driver.waitUntilIdle(id)
  await driver.sendMessage(id, 'And then?')
  const second = await driver.waitUntilIdle(id)
  const answer = first.find(isAgentMessage)?.id ?? ''
  await using client = driver.openSocket(`/sockets/events/${id}`)
  await client.waitUntil((events) => events.length > 0)
  const info = await navigate(id, answer)
  const reported = await client.waitUntil(
    (events) => events.filter((event) => event.key === 'full_state').length > 1,
  )
  expect(reported.slice(1).map(({ key }) => key)).toEqual(['execution_status', 'leaf_event_id', 'full_state'])
  expect(reported.at(-1)?.value).toMatchObject({ leaf_event_id: answer, head_is_empty: false })
  expect(info).toMatchObject({ leaf_event_id: answer, execution_status: 'idle' })
  expect(info.last_user_message_id).toBe(first.find(({ source }) => source === 'user')?.id)
  expect((await driver.getInfo(id)).leaf_event_id).toBe(answer)
  const all = await driver.getEvents(id)
  expect(all.slice(0, second.length)).toEqual(second)
  expect(all.at(-1)).toMatchObject({ key: 'leaf_event_id', value: answer })
  expect((await api.searchAll(id)).map((event) => event.id)).toEqual(all.map((event) => event.id))
  const { body } = await api.requestJson(`/api/conversations/${id}/agent_final_response`)
  expect(body).toEqual({ response: 'First.' })
  const root = await navigate(id, null)
  expect(root).toMatchObject({ leaf_event_id: null, last_user_message_id: null })
  expect((await api.requestJson(`/api/conversations/${id}/agent_final_response`)).body).toEqual({
    response: '',
  })
  await driver.sendMessage(id, 'Again.')
  const anew = (await driver.waitUntilIdle(id)).slice(all.length)
  expect(anew.map(eventLabel)).toEqual(
    expect.arrayContaining(['SystemPromptEvent', 'message:user', 'message:agent']),
  )
  // Forward again, to the first branch.
  expect(await navigate(id, second.at(-1)?.id ?? '')).toMatchObject({ leaf_event_id: second.at(-1)?.id })
})

test('navigation to an unknown event, and during a run, is refused', async () => {
  const { id } = await driver.createScripted([{ text: 'Late.', delay_ms: 2_000 }])
  await driver.waitForEvent(id, (event) => eventLabel(event) === 'execution_status=running')
  expect((await driver.post(id, 'navigate', { event_id: null })).status).toBe(409)
  await driver.waitUntilIdle(id)
  expect((await driver.post(id, 'navigate', { event_id: randomUUID() })).status).toBe(404)
  expect((await driver.post(randomUUID(), 'navigate', { event_id: null })).status).toBe(404)
  for (const event_id of [7, '', {}])
    expect(await driver.post(id, 'navigate', { event_id })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'event_id'] }] },
    })
  const imported = await api.import('{"kind":"PauseEvent","id":"p"}\n')
  expect((await driver.post(imported, 'navigate', { event_id: 'p' })).status).toBe(409)
  const leaf = (await driver.getInfo(id)).leaf_event_id
  expect(await driver.post(id, 'navigate')).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body'], type: 'missing' }] },
  })
  expect((await driver.getInfo(id)).leaf_event_id).toBe(leaf)
  expect((await driver.post(id, 'navigate', {})).body).toMatchObject({ leaf_event_id: null })
})

test('pending actions are answered before the branch is left, and are not executed after a return', async () => {
  const { id } = await driver.create(
    { llm: scriptedModel([bashStep('touch done-elsewhere'), { text: 'Seen.' }]) },
    {
      confirmation_policy: { kind: 'AlwaysConfirm' },
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    },
  )
  const waiting = await driver.waitForEvent(id, (event) =>
    eventLabel(event).endsWith('=waiting_for_confirmation'),
  )
  const action = waiting.find(({ kind }) => kind === 'ActionEvent')
  await navigate(id, waiting.find(({ kind }) => kind === 'MessageEvent')?.id ?? '')
  const left = (await driver.getEvents(id)).slice(waiting.length)
  expect(left.map(eventLabel).slice(0, 2)).toEqual(['AgentErrorEvent:terminal', 'execution_status=idle'])
  await navigate(id, action?.id ?? '')
  const before = (await driver.getEvents(id)).length
  await driver.post(id, 'run')
  const events = (await driver.waitUntilIdle(id)).slice(before)
  expect(events.map(eventLabel).slice(0, 2)).toEqual(['AgentErrorEvent:terminal', 'execution_status=running'])
  expect(events.some(({ kind }) => kind === 'ObservationEvent')).toBe(false)
})

test('a fork of a branched log has the active branch and its end', async () => {
  const { id } = await driver.createScripted([{ text: 'First.' }, { text: 'Second.' }])
  const first = await driver.waitUntilIdle(id)
  await driver.sendMessage(id, 'And then?')
  const second = await driver.waitUntilIdle(id)
  const answer = first.find(isAgentMessage)?.id ?? ''
  await navigate(id, answer)
  const whole = (await driver.post(id, 'fork', {})).body as ConversationInfo
  expect(whole).toMatchObject({ leaf_event_id: answer, forked_from_event_id: null })
  const part = (await driver.post(id, 'fork', { from_event_id: second.at(-2)?.id })).body as ConversationInfo
  const end = (await driver.getEvents(part.id)).at(-1)
  expect(part.leaf_event_id).toBe(end?.id)
  expect((await api.requestJson(`/api/conversations/${part.id}/agent_final_response`)).body).toEqual({
    response: 'Second.',
  })
})

test('the end of a branch is known after a restart, before the conversation is loaded, and after an import', async () => {
  await using own = await OwnAgentServer.open()
  const { id } = await own.driver.createScripted([{ text: 'First.' }])
  const events = await own.driver.waitUntilIdle(id)
  const message = events.find(({ kind }) => kind === 'MessageEvent')?.id
  await own.driver.post(id, 'navigate', { event_id: message })
  await own.restart('SIGKILL')
  const info = await own.driver.getInfo(id)
  expect(info).toMatchObject({ leaf_event_id: message, last_user_message_id: message })
  const page = await own.api.requestJson<{ items: ConversationInfo[] }>('/api/conversations/search')
  expect(page.body.items[0]?.leaf_event_id).toBe(message)
  const lines = (await own.api.export(id)).toString()
  await own.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  const imported = await own.api.import(lines)
  expect((await own.driver.getInfo(imported)).leaf_event_id).toBe(message)
})

const minimalRequest = () => ({
  agent: { kind: 'Agent', llm: scriptedModel([{ text: 'Hello.' }]) },
  workspace: { working_dir: directory },
  autotitle: false,
})

async function create(
  header: string | undefined,
  more: object = {},
): Promise<{ status: number; body: ConversationInfo }> {
  return await api.requestJson<ConversationInfo>('/api/conversations', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(header === undefined ? {} : { 'x-slipway-wire': header }),
    },
    body: JSON.stringify({ ...minimalRequest(), ...more }),
  })
}

test('a conversation that is created with the newer wire has the newer members, and so have its forks', async () => {
  const initial = { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }
  expect(await create('next')).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['header', 'x-slipway-wire'] }] },
  })
  const [plain, named, current] = [
    await create(undefined, initial),
    await create('seed', initial),
    await create('current', initial),
  ]
  for (const { body } of [plain, named])
    expect(JSON.stringify(await driver.waitUntilIdle(body.id))).not.toContain('parent_id')
  const events = await driver.waitUntilIdle(current.body.id)
  events.forEach((event, at) => void expect(event.parent_id).toBe(events[at - 1]?.id))
  const fork = (await driver.post(current.body.id, 'fork', {})).body as ConversationInfo
  await driver.sendMessage(fork.id, 'And you?')
  for (const event of (await driver.waitUntilIdle(fork.id)).slice(1))
    expect(event.parent_id).toEqual(expect.any(String))
})

test('a setting enables the newer wire for all conversations, and the header takes precedence', async () => {
  await using own = await OwnAgentServer.open({ env: { SLIPWAY_WIRE: 'current' }, isInProcess: true })
  const { api, driver } = own
  const { id } = await driver.createScripted([{ text: 'Hello.' }])
  expect((await driver.waitUntilIdle(id)).at(-1)).toHaveProperty('parent_id')
  const { body } = await api.requestJson<ConversationInfo>('/api/conversations', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-slipway-wire': 'seed' },
    body: JSON.stringify({
      ...minimalRequest(),
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    }),
  })
  expect((await driver.waitUntilIdle(body.id)).at(-1)).not.toHaveProperty('parent_id')
})

test.each([
  [undefined, 'ConversationErrorEvent'],
  ['current', 'ServerErrorEvent'],
])('an invalid frame is answered after the first snapshot, in the wire %s by a %s', async (wire, kind) => {
  const { body } = await create(wire)
  await using client = driver.openSocket(`/sockets/events/${body.id}`)
  client.socket.on('open', () => client.socket.send('no json'))
  const events = await client.waitUntil((seen) => seen.length >= 2)
  expect(events.map(eventLabel).slice(0, 1)).toEqual(['full_state'])
  expect(events[1]).toMatchObject({ kind, code: 'JSONDecodeError' })
  expect(await driver.getEvents(body.id)).toEqual([])
})

test('a web page may request the newer wire', async () => {
  const response = await api.fetch('/api/conversations', {
    method: 'OPTIONS',
    headers: { origin: api.endpoint.url, 'access-control-request-method': 'POST' },
  })
  expect(response.headers.get('access-control-allow-headers')).toContain('x-slipway-wire')
})

test('a goal runs through the API, and invalid requests for it are refused', async () => {
  const { id } = await driver.create({
    llm: scriptedModel([{ text: 'Half.' }, { text: 'Whole.' }, goalVerdict(false), goalVerdict(true)]),
  })
  expect((await driver.post(id, 'goal', { objective: ' ' })).status).toBe(400)
  expect((await driver.post(id, 'goal', { objective: 'x', max_iterations: 0 })).status).toBe(422)
  expect((await driver.post(id, 'goal/resume')).status).toBe(400)
  expect((await driver.post(id, 'goal/stop')).body).toEqual({ success: true })
  expect((await driver.post(id, 'goal', { objective: 'All of it.', max_iterations: 3 })).status).toBe(200)
  const events = await driver.waitUntilIdle(id)
  expect(events.filter(({ key }) => key === 'goal').at(-1)?.value).toMatchObject({
    active: false,
    status: 'complete',
    iteration: 2,
  })
  const unknown = randomUUID()
  for (const verb of ['goal', 'goal/stop', 'goal/resume'])
    expect((await driver.post(unknown, verb, verb === 'goal' ? { objective: 'x' } : {})).status).toBe(404)
})

test('a goal is refused during a run', async () => {
  const { id } = await driver.createScripted([{ text: 'Late.', delay_ms: 2_000 }])
  await driver.waitForEvent(id, (event) => eventLabel(event) === 'execution_status=running')
  expect((await driver.post(id, 'goal', { objective: 'x' })).status).toBe(409)
  expect((await driver.post(id, 'goal/resume')).status).toBe(409)
  await driver.waitUntilIdle(id)
})

test('switching the model of an ACP agent is refused for our agents', async () => {
  const { body } = await create(undefined)
  expect((await driver.post(body.id, 'switch_acp_model', { model: 'm' })).status).toBe(400)
  expect((await driver.post(randomUUID(), 'switch_acp_model', { model: 'm' })).status).toBe(404)
  expect((await driver.post(body.id, 'switch_acp_model', {})).status).toBe(422)
})

test('lists and counts of conversations filter by tags', async () => {
  const mark = randomUUID().replaceAll('-', '')
  const ids: string[] = []
  for (const tags of [{ team: mark, colour: "o'red" }, { team: mark, colour: 'blue:1' }, { team: 'other' }])
    ids.push((await create(undefined, { tags })).body.id)
  const list = async (...tag: string[]) => {
    const query = new URLSearchParams(tag.map((one) => ['tag', one]))
    const { status, body } = await api.requestJson<{ items: ConversationInfo[] }>(
      `/api/conversations/search?${query}`,
    )
    const { body: count } = await api.requestJson(`/api/conversations/count?${query}`)
    if (status === 200) expect(count).toBe(body.items.length)
    return status === 200 ? body.items.map(({ id }) => id).sort() : status
  }
  expect(await list(`team:${mark}`)).toEqual(ids.slice(0, 2).sort())
  expect(await list(`team=${mark}`, "colour:o'red")).toEqual([ids[0]])
  expect(await list(`team:${mark}`, 'colour:blue:1')).toEqual([ids[1]])
  expect(await list(`team:${mark}`, 'colour')).toEqual(ids.slice(0, 2).sort())
  expect(await list(`team:${mark}`, 'colour:')).toEqual([])
  expect(await list('No Tag')).toBe(422)
  const idle = await api.requestJson(`/api/conversations/count?tag=team:${mark}&status=idle`)
  expect(idle.body).toBe(2)
})

test('before a sandbox is frozen, runs are paused and their steps complete', async () => {
  await using own = await OwnAgentServer.open()
  const { id } = await own.driver.createScripted([bashStep('sleep 1; echo whole'), finishStep()])
  await own.driver.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
  const answer = await own.api.fetch('/api/conversations/prepare-for-sandbox-pause', { method: 'POST' })
  expect([answer.status, await answer.text(), answer.headers.get('content-type')]).toEqual([204, '', null])
  // Data that is not durable yet is lost.
  await own.restart('SIGKILL')
  expect((await own.driver.getInfo(id)).execution_status).toBe('paused')
  const [result] = (await own.driver.getEvents(id)).filter(({ kind }) => kind === 'ObservationEvent')
  expect(JSON.stringify(result)).toContain('whole')
})

test('before a sandbox is frozen, calls of models are cancelled and long tools are interrupted', async () => {
  await using own = await OwnAgentServer.open({ isInProcess: true })
  const thinking = await own.driver.createScripted([{ text: 'Too late.', delay_ms: 600_000 }])
  const working = await own.driver.createScripted([bashStep('sleep 600'), finishStep()])
  await own.driver.waitForEvent(working.id, ({ kind }) => kind === 'ActionEvent')
  const began = Date.now()
  const answer = await own.api.fetch('/api/conversations/prepare-for-sandbox-pause', { method: 'POST' })
  expect(answer.status).toBe(204)
  // Callers wait 10 seconds and freeze the sandbox then.
  expect(Date.now() - began).toBeLessThan(30_000)
  for (const { id } of [thinking, working]) {
    expect((await own.driver.getInfo(id)).execution_status).toBe('paused')
    expect((await own.driver.getEvents(id)).map(({ kind }) => kind)).toContain('PauseEvent')
  }
  const kinds = (await own.driver.getEvents(working.id)).map(({ kind }) => kind)
  expect(kinds.filter((kind) => kind === 'AgentErrorEvent')).toHaveLength(1)
}, 120_000)

test('with a large agent the snapshot comes first, each frame is below 1 MiB, and a run ends with status and snapshot', async () => {
  const secrets = Object.fromEntries(Array.from({ length: 8_000 }, (_, at) => [`NAME_${at}`, `value-${at}`]))
  const client_tools = Array.from({ length: 2_000 }, (_, at) => ({
    name: `tool_${at}`,
    description: 'd'.repeat(300),
    parameters: { type: 'object' },
  }))
  const agent_context = {
    skills: [{ name: 's', content: 'x'.repeat(2_000_000) }],
    system_message_suffix: 'y'.repeat(1_500_000),
    secrets,
  }
  const { id } = await driver.create(
    { llm: scriptedModel([{ text: 'Hello.' }]), agent_context, tools: [] },
    { client_tools },
  )
  await using client = driver.openSocket(`/sockets/events/${id}`)
  await client.waitUntil((events) => events.length > 0)
  await driver.sendMessage(id, 'Begin.')
  const isEnd = (event: ApiEvent) =>
    event.key === 'full_state' && Object(event.value).execution_status === 'finished'
  const events = await client.waitUntil((seen) => seen.some(isEnd))
  for (const frame of client.frames) expect(Buffer.byteLength(frame)).toBeLessThan(1024 * 1024)
  expect(eventLabel(events[0] as ApiEvent)).toBe('full_state')
  expect(events[0]?.value).toMatchObject({
    execution_status: 'idle',
    head_is_empty: true,
    confirmation_policy: { kind: 'NeverConfirm' },
    workspace: { working_dir: directory },
    agent: { kind: 'Agent', llm: { model: 'scripted/test' } },
  })
  const labels = events.filter(({ key }) => key !== 'stats').map(eventLabel)
  expect(labels.slice(-3)).toEqual(['message:agent', 'execution_status=finished', 'full_state'])
  expect(events.at(-1)?.value).toMatchObject({
    head_is_empty: false,
    leaf_event_id: (await driver.getEvents(id)).at(-1)?.id,
  })
})

test('the skills of an agent are returned on request, without secrets, and no list contains them otherwise', async () => {
  const skills = [
    { name: 'long', content: 'x'.repeat(100_000) },
    { name: 'leaky', content: 'Use the-canary-value for it.' },
  ]
  const secrets = { CANARY: { kind: 'StaticSecret', value: 'the-canary-value' } }
  const { id } = await driver.create(
    { llm: scriptedModel([]), agent_context: { skills } },
    { secrets, tags: { skilled: 'yes' } },
  )
  const shown = async (path: string): Promise<unknown[]> => {
    const { body } = await api.requestJson<
      ConversationInfo | { items: ConversationInfo[] } | ConversationInfo[]
    >(path)
    const [info] = Array.isArray(body)
      ? body
      : 'items' in body
        ? (body.items as ConversationInfo[])
        : [body as ConversationInfo]
    return Object(info?.agent).agent_context.skills
  }
  for (const path of [`/${id}?`, '/search?tag=skilled&', `?ids=${id}&`]) {
    expect(await shown(`/api/conversations${path}include_skills=false`)).toEqual([])
    expect(await shown(`/api/conversations${path}include_skills=true`)).toMatchObject([
      skills[0],
      { name: 'leaky', content: 'Use <secret-hidden> for it.' },
    ])
  }
  const fork = (await driver.post(id, 'fork', {})).body as ConversationInfo
  expect(await shown(`/api/conversations/${fork.id}?include_skills=true`)).toHaveLength(2)
})
