import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

const slowTestTimeoutMs = 120_000
type Stage = Awaited<ReturnType<typeof openTestServer>>

/** A conversation of which only a row and some events are there. */
async function createConversation(stage: Stage, sandbox: string, more: object = {}): Promise<string> {
  const id = randomUUID()
  const { key, row } = stage.sandboxes.getSandbox(sandbox)
  const headers = { 'x-session-api-key': key }
  await stage.call('POST', '/webhooks/conversations', { id, ...more }, headers)
  const event = { id: 'e', timestamp: '2026-03-01T10:00:00Z', kind: 'PauseEvent', source: 'user' }
  await stage.call('POST', `/webhooks/events/${id}`, [event], headers)
  expect(row.owner).toBe('ada')
  return id
}

async function createSandbox(stage: Stage, url = 'http://127.0.0.1:9'): Promise<string> {
  stage.sandboxes.next = { status: 'RUNNING' }
  const { id } = await stage.sandboxes.start({ owner: 'ada' })
  stage.sandboxes.getSandbox(id).url = url
  return id
}

/** An agent server that takes every request and never answers. */
async function openSilentServer(): Promise<
  AsyncDisposable & { readonly url: string; readonly requests: string[] }
> {
  const requests: string[] = []
  const server = createServer((request) => void requests.push(`${request.method} ${request.url}`))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    requests,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('agent servers that do not answer make statuses null without an error, and get one request each', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  await using hanging = await openSilentServer()
  const [a, b] = [await createSandbox(stage, hanging.url), await createSandbox(stage)]
  const ids = [
    await createConversation(stage, a),
    await createConversation(stage, a),
    await createConversation(stage, b),
  ]
  const { json } = await stage.call('GET', '/app-conversations/search')
  expect(json.items.map(({ id }: { id: string }) => id).sort()).toEqual(
    ids.map((id) => id.replaceAll('-', '')).sort(),
  )
  for (const item of json.items)
    expect(item).toMatchObject({ sandbox_status: 'RUNNING', execution_status: null })
  expect(hanging.requests).toHaveLength(1)
  const unknown = randomUUID()
  const batch = await stage.call('GET', `/app-conversations?ids=${ids[2]}&ids=${unknown}&ids=${ids[0]}`)
  expect(batch.json.map((one: { id: string } | null) => one?.id)).toEqual([
    ids[2]?.replaceAll('-', ''),
    undefined,
    ids[0]?.replaceAll('-', ''),
  ])
  expect((await stage.call('GET', '/app-conversations')).json.items).toHaveLength(3)
  expect((await stage.call('GET', '/app-conversations?ids=x')).status).toBe(422)
  expect((await stage.call('GET', '/app-conversations/search?limit=1')).json.next_page_id).not.toBeNull()
  expect((await stage.call('GET', '/app-conversations/search?limit=101')).status).toBe(422)
})

test('a patch changes given members and clears null ones', async () => {
  await using stage = await openTestServer()
  const id = await createConversation(stage, await createSandbox(stage), { title: 'Before' })
  const patch = (body: object) => stage.call('PATCH', `/app-conversations/${id}`, body)
  expect(
    (await patch({ selected_repository: 'o/n', selected_branch: 'b', public: true })).json,
  ).toMatchObject({ title: 'Before', selected_repository: 'o/n', selected_branch: 'b', public: true })
  expect((await patch({ title: null, public: null })).json).toMatchObject({
    title: `Conversation ${id.slice(0, 5)}`,
    public: null,
    selected_repository: 'o/n',
  })
  expect((await patch({ selected_repository: null })).status).toBe(422)
  expect((await patch({ selected_repository: 'https://u:p@h/x' })).status).toBe(422)
  expect(
    (await patch({ selected_repository: null, selected_branch: null, git_provider: null })).json,
  ).toMatchObject({ selected_repository: null, selected_branch: null })
  expect((await patch({ title: '' })).status).toBe(422)
  expect(await stage.call('PATCH', `/app-conversations/${randomUUID()}`, { title: 'x' })).toMatchObject({
    status: 404,
    json: { detail: 'unknown_app_conversation' },
  })
  expect(
    (await stage.call('PATCH', `/app-conversations/${id}`, { title: 'x' }, { 'x-user': 'bob' })).status,
  ).toBe(404)
})

test('the state of the sandbox decides how a message is refused', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const sandbox = await createSandbox(stage)
  const id = await createConversation(stage, sandbox)
  const place = stage.sandboxes.getSandbox(sandbox)
  const say = async () =>
    (await stage.call('POST', `/app-conversations/${id}/send-message`, { content: 'Hi.' })).status
  expect(await say()).toBe(502)
  for (const [status, answer] of [
    ['STARTING', 409],
    ['PAUSED', 409],
    ['ERROR', 503],
    ['MISSING', 410],
  ] as const) {
    place.row = { ...place.row, status }
    expect(await say()).toBe(answer)
    expect((await stage.call('GET', `/app-conversations/${id}/file`)).json).toBe('')
    expect((await stage.call('GET', `/app-conversations/${id}/skills`)).json).toEqual({ skills: [] })
    expect((await stage.call('GET', `/app-conversations/${id}/files?path=/`)).status).toBe(answer)
  }
  stage.sandboxes.entries.delete(sandbox)
  expect(await say()).toBe(410)
  expect((await stage.call('POST', `/app-conversations/${id}/send-message`, { content: [] })).status).toBe(
    422,
  )
  expect(
    (await stage.call('POST', `/app-conversations/${randomUUID()}/send-message`, { content: 'x' })).status,
  ).toBe(404)
})

test('a shared sandbox is removed with its last conversation, and children are removed with their parents', async () => {
  await using stage = await openTestServer()
  const sandbox = await createSandbox(stage)
  const parent = await createConversation(stage, sandbox)
  const child = await createConversation(stage, sandbox, { parent_conversation_id: parent })
  const grandchild = await createConversation(stage, sandbox, { parent_conversation_id: child })
  const other = await createConversation(stage, sandbox)
  expect((await stage.conversation(child)).parent_conversation_id).toBe(parent.replaceAll('-', ''))
  expect((await stage.call('GET', '/app-conversations/count')).json).toBe(2)
  expect((await stage.call('DELETE', `/app-conversations/${parent}`)).status).toBe(200)
  for (const id of [parent, child, grandchild]) {
    expect(await stage.conversation(id)).toBeNull()
    expect(await stage.storage.conversations.get([id])).toEqual([undefined])
  }
  expect(stage.sandboxes.entries.has(sandbox)).toBe(true)
  expect((await stage.call('DELETE', `/app-conversations/${other}`)).status).toBe(200)
  expect(stage.sandboxes.entries.has(sandbox)).toBe(false)
})

test('a deletion that fails at any step is completed by a repeated one', async () => {
  for (let at = 0; at < 6; at++) {
    let left = Number.POSITIVE_INFINITY
    const breaking = <T extends object>(target: T): T =>
      new Proxy(target, {
        get(object, name) {
          const member = Reflect.get(object, name)
          if (typeof member !== 'function') return member
          return (...given: unknown[]) => {
            if (/^(remove|change)/.test(String(name)) && left-- <= 0) throw new Error('broken off')
            return member.apply(object, given)
          }
        },
      })
    await using stage = await openTestServer({
      controlPlane: (controlPlane) => ({
        id: controlPlane.id,
        audit: controlPlane.audit,
        sandboxes: controlPlane.sandboxes,
        users: controlPlane.users,
        quota: controlPlane.quota,
        budgets: controlPlane.budgets,
        leases: controlPlane.leases,
        overwriteRemoved: () => controlPlane.overwriteRemoved(),
        usage: controlPlane.usage,
        sandboxEvents: controlPlane.sandboxEvents,
        conversations: breaking(controlPlane.conversations),
        startTasks: breaking(controlPlane.startTasks),
        pendingMessages: breaking(controlPlane.pendingMessages),
        documents: breaking(controlPlane.documents),
        [Symbol.asyncDispose]: () => controlPlane[Symbol.asyncDispose](),
      }),
    })
    const sandbox = await createSandbox(stage)
    const id = await createConversation(stage, sandbox)
    left = at
    const first = await stage.call('DELETE', `/app-conversations/${id}`)
    left = Number.POSITIVE_INFINITY
    if (first.status !== 200)
      expect((await stage.call('DELETE', `/app-conversations/${id}`)).status).toBe(200)
    expect(await stage.conversation(id)).toBeNull()
    expect(stage.sandboxes.entries.size).toBe(0)
    expect(await stage.storage.conversations.get([id])).toEqual([undefined])
  }
})

test('switching the profile of a conversation changes its agent server', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const task = await stage.start()
  const id = task.app_conversation_id
  const to = (profile_name: string) =>
    stage.call('POST', `/app-conversations/${id}/switch_profile`, { profile_name })
  expect((await to('saved')).status).toBe(200)
  expect((await to('nope')).status).toBe(404)
  expect((await to('')).status).toBe(422)
  const place = stage.sandboxes.getSandbox('sb-1')
  const answer = await fetch(`${place.url}/api/conversations/${id}`, {
    headers: { 'x-session-api-key': place.key },
  })
  expect((await answer.json()).agent.llm.usage_id).toMatch(/^profile:saved:[0-9a-f]{12}$/)
  await stage.sandboxes.pause(place.row)
  expect((await to('saved')).status).toBe(409)
})

test('messages for a starting conversation are delivered in order when it is ready', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  stage.accounts.script = Array.from({ length: 8 }, (_, at) => ({ text: `Answer ${at}.` }))
  const { json: task } = await stage.call('POST', '/app-conversations', {})
  const leave = (content: string, headers = {}) =>
    stage.call('POST', `/conversations/task-${task.id}/pending-messages`, { content }, headers)
  expect((await leave('Not mine', { 'x-user': 'bob' })).status).toBe(404)
  for (let at = 1; at <= 3; at++) {
    expect(await leave(`Message ${at}`)).toMatchObject({ status: 201, json: { queued: true, position: at } })
  }
  const id = String((await stage.waitFinished(task.id)).app_conversation_id)
  const said = async () => {
    const { json } = await stage.call(
      'GET',
      `/conversation/${id}/events/search?kind__eq=MessageEvent&source__eq=user`,
    )
    return json.items.map(
      (event: { llm_message: { content: { text: string }[] } }) => event.llm_message.content[0]?.text,
    )
  }
  expect(await stage.until(said, (texts) => texts.length === 3)).toEqual([
    'Message 1',
    'Message 2',
    'Message 3',
  ])
  expect(
    await stage.call('POST', `/conversations/${id}/pending-messages`, { content: 'Message 4' }),
  ).toMatchObject({ status: 201, json: { position: 1 } })
  expect(await stage.until(said, (texts) => texts.length === 4)).toContain('Message 4')
  await stage.until(
    () => stage.controlPlane.pendingMessages.list(id),
    (waiting) => waiting.length === 0,
  )
  expect(
    (await stage.call('POST', `/conversations/${randomUUID()}/pending-messages`, { content: 'x' })).status,
  ).toBe(404)
  expect((await stage.call('POST', '/conversations/task-x/pending-messages', { content: 'x' })).status).toBe(
    404,
  )
})

test('ten messages may wait, and those of a paused conversation are delivered after resuming', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  stage.accounts.script = Array.from({ length: 20 }, () => ({ text: 'Yes.' }))
  const id = String((await stage.start()).app_conversation_id)
  const { row } = stage.sandboxes.getSandbox('sb-1')
  await stage.sandboxes.pause(row)
  const leave = (content: string) => stage.call('POST', `/conversations/${id}/pending-messages`, { content })
  for (let at = 1; at <= 10; at++) expect((await leave(`M${at}`)).json.position).toBe(at)
  expect((await leave('M11')).status).toBe(429)
  expect((await stage.start({ conversation_id: id })).status).toBe('READY')
  const count = async () =>
    (await stage.call('GET', `/conversation/${id}/events/count?kind=MessageEvent&source=user`)).json
  expect(await stage.until(count, (number) => number === 10)).toBe(10)
})

test('a conversation without a sandbox gets a new one, and its history continues', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const id = String((await stage.start({ initial_message: { content: 'First.' } })).app_conversation_id)
  const count = async () =>
    (await stage.call('GET', `/conversation/${id}/events/count?kind=MessageEvent`)).json
  await stage.until(count, (number) => number === 2)
  const export_ = async () => await (await stage.open('GET', `/conversation/${id}/events/export`)).text()
  // Everything that is still on its way has come.
  await stage.until(
    () => stage.conversation(id),
    ({ execution_status }) => execution_status !== 'running' && execution_status !== null,
  )
  const place = stage.sandboxes.getSandbox('sb-1')
  const theirs = async () =>
    await (
      await fetch(`${place.url}/api/conversations/${id}/export`, {
        headers: { 'x-session-api-key': place.key },
      })
    ).text()
  await stage.until(async () => (await theirs()) === (await export_()), Boolean)
  const before = await export_()
  await stage.sandboxes.remove(place.row)
  expect(await stage.conversation(id)).toMatchObject({ sandbox_status: 'MISSING', execution_status: null })
  const again = await stage.start({ conversation_id: id, initial_message: { content: 'Second.' } })
  expect(again).toMatchObject({ status: 'READY', sandbox_id: 'sb-2' })
  expect(await stage.quota.used).toBe(1)
  await stage.until(count, (number) => number === 4)
  const after = await export_()
  expect(after.startsWith(before)).toBe(true)
  expect(after.slice(before.length)).toContain('Second.')
  expect((await stage.conversation(id)).sandbox_id).toBe('sb-2')
})
