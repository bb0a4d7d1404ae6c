import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { SlipwaySessionStore } from '../../packages/session-store/index.js'
import { openAgentFixture } from '../support/agent-fixture.ts'

const { server, api } = await openAgentFixture()
const store = new SlipwaySessionStore({ url: `${server.url}/` })

const newProject = () => `/project/${randomUUID()} ä&=?`
const newKey = () => ({ projectKey: newProject(), sessionId: randomUUID() })
const entry = (type: string, members: object = {}) => ({ type, ...members })
const idsOf = (sessions: readonly { readonly sessionId: string }[]) =>
  sessions.map(({ sessionId }) => sessionId).sort()

interface Page {
  readonly items: readonly { readonly id: string; readonly kind: string; readonly source: string }[]
}

async function conversationOf(projectKey: string): Promise<string> {
  const query = new URLSearchParams({ project_key: projectKey })
  const { body } = await api.requestJson<{ conversation_id: string }[]>(
    `/api/session-store/sessions?${query}`,
  )
  return String(body[0]?.conversation_id)
}

async function post(query: Readonly<Record<string, string>>, body: string) {
  const response = await fetch(`${server.url}/api/session-store/entries?${new URLSearchParams(query)}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body,
  })
  return { status: response.status, body: (await response.json()) as { detail: { loc: unknown }[] } }
}

test('entries are loaded deep-equal, in the order of the appends; an empty append is nothing', async () => {
  const key = newKey()
  await store.append(key, [])
  expect(await store.load(key)).toBeNull()
  expect(await store.load({ ...key, subpath: 'subagents/a' })).toBeNull()
  const first = [entry('b', { n: 1, nested: { x: [1, 2, null], y: null } }), entry('a', { n: 2 })]
  await store.append(key, first)
  await store.append(key, [entry('c'), entry('d')])
  await store.append(key, [])
  await store.append(key, [entry('e')])
  expect(await store.load(key)).toEqual([...first, entry('c'), entry('d'), entry('e')])
})

test('projects, sessions and subpaths are independent', async () => {
  const [one, other] = [newKey(), newKey()]
  const sameSession = { ...other, sessionId: one.sessionId }
  const sub = { ...one, subpath: 'subagents/agent-1' }
  for (const key of [one, sub, sameSession, other]) await store.append(key, [entry(JSON.stringify(key))])
  for (const key of [one, sub, sameSession, other])
    expect(await store.load(key)).toEqual([entry(JSON.stringify(key))])
})

test('sessions are listed by project, with the time of their change and without subpaths', async () => {
  const [one, other] = [newKey(), newKey()]
  const second = { ...one, sessionId: 'second' }
  for (const key of [one, second, other]) await store.append(key, [entry('a')])
  await store.append({ ...one, sessionId: 'sub alone', subpath: 'subagents/x' }, [entry('a')])
  const before = await store.listSessions(one.projectKey)
  expect(idsOf(before)).toEqual([one.sessionId, 'second'].sort())
  for (const { mtime } of before) expect(Math.abs(mtime - Date.now())).toBeLessThan(60_000)
  expect(await store.listSessions(newProject())).toEqual([])
})

test('subpaths are listed by session', async () => {
  const key = newKey()
  const { projectKey, sessionId } = key
  await store.append(key, [entry('main')])
  expect(await store.listSubkeys(key)).toEqual([])
  const subpaths = ['subagents/a', 'subagents/b']
  for (const subpath of subpaths) await store.append({ ...key, subpath }, [entry('sub')])
  await store.append({ projectKey, sessionId: 'other', subpath: 'subagents/c' }, [entry('sub')])
  expect(await store.listSubkeys({ projectKey, sessionId })).toEqual(subpaths)
  expect(await store.listSubkeys({ projectKey, sessionId: 'never' })).toEqual([])
})

test('a deleted session takes its subpaths along and nothing else; a subpath goes alone', async () => {
  const key = newKey()
  const [a, b] = ['subagents/a', 'subagents/b'].map((subpath) => ({ ...key, subpath }))
  const others = [
    { ...key, sessionId: 'other' },
    { ...key, projectKey: newProject() },
  ]
  const all = [key, a ?? key, b ?? key]
  for (const one of [...all, ...others]) await store.append(one, [entry('x')])
  await store.delete(a ?? key)
  expect(await store.load(a ?? key)).toBeNull()
  expect(await store.listSubkeys(key)).toEqual(['subagents/b'])
  expect(await store.load(key)).toEqual([entry('x')])
  await store.delete(key)
  await store.delete(key)
  await store.delete(newKey())
  for (const one of all) expect(await store.load(one)).toBeNull()
  expect(await store.listSubkeys(key)).toEqual([])
  for (const one of others) expect(await store.load(one)).toEqual([entry('x')])
  expect(idsOf(await store.listSessions(key.projectKey))).toEqual(['other'])
  await store.append(key, [entry('again')])
  expect(await store.load(key)).toEqual([entry('again')])
})

test('an entry whose uuid is stored is left out; entries without one are not compared', async () => {
  const key = newKey()
  const [first, title] = [entry('user', { uuid: 'u1', n: 1 }), entry('title')]
  await store.append(key, [first, title, entry('user', { uuid: 'u1', n: 2 })])
  await store.append(key, [first, title, entry('user', { uuid: 'u2' })])
  expect(await store.load(key)).toEqual([first, title, title, entry('user', { uuid: 'u2' })])
})

test('writers at the same time lose, double and reorder nothing', async () => {
  const key = newKey()
  const numbers = Array.from({ length: 40 }, (_, n) => n)
  const write = async (writer: string) => {
    const own = new SlipwaySessionStore({ url: server.url })
    for (const n of numbers)
      await own.append(key, [
        entry(writer, { n, uuid: `${writer}${n}` }),
        entry('both', { uuid: `both${n}` }),
      ])
  }
  await Promise.all(['a', 'b'].map(write))
  const loaded = (await store.load(key)) ?? []
  for (const writer of ['a', 'b', 'both']) {
    const own = loaded.filter(({ type }) => type === writer)
    expect(own.map(({ uuid }) => uuid)).toEqual(numbers.map((n) => `${writer}${n}`))
  }
  expect(loaded).toHaveLength(120)
})

test('odd values come back as they were', async () => {
  const key = newKey()
  const members = '"__proto__":{"a":1},"constructor":null,"":{"toString":[]}'
  const odd = `{"type":"odd","n":123456789012345678901234567890.5,"e":-0,"s":"\\ud800 \\u0000 é \\u2028 😀",${members}}`
  const query = { project_key: key.projectKey, session_id: key.sessionId }
  expect(await post(query, odd)).toMatchObject({ status: 201, body: { appended: 1 } })
  const text = await fetch(`${server.url}/api/session-store/entries?${new URLSearchParams(query)}`)
  expect(await text.text()).toBe(`${odd}\n`)
  expect(await store.load(key)).toEqual([JSON.parse(odd)])
  const large = entry('user', { uuid: 'large', text: 'ä"\n'.repeat(1_300_000) })
  await store.append(key, [large, entry('after', { kind: 'SessionStoreEntry', entry: {} })])
  const [, second, third] = (await store.load(key)) ?? []
  expect(second).toEqual(large)
  expect(third).toEqual(entry('after', { kind: 'SessionStoreEntry', entry: {} }))
})

test('10,000 entries are loaded in order', async () => {
  const key = newKey()
  const entries = Array.from({ length: 10_000 }, (_, n) =>
    entry('user', { uuid: `u${n}`, text: `message ${n}` }),
  )
  for (let n = 0; n < entries.length; n += 500) await store.append(key, entries.slice(n, n + 500))
  expect(await store.load(key)).toEqual(entries)
}, 30_000)

test('bad lines and keys are refused with their place, and nothing is stored', async () => {
  const key = newKey()
  const query = { project_key: key.projectKey, session_id: key.sessionId }
  const deep = `{"a":${'['.repeat(2_000)}${']'.repeat(2_000)}}`
  for (const line of ['[]', '1', '{', '{"a":1},"kind":"x"', '{"a":1}},{"b":2', '{"a":NaN}', deep]) {
    const { status, body } = await post(query, `{"type":"good"}\n${line}\n`)
    expect(status, line.slice(0, 20)).toBe(422)
    expect(body.detail[0]?.loc).toEqual(['body', 2])
  }
  expect(await store.load(key)).toBeNull()
  for (const bad of [{ ...query, subpath: '' }, { project_key: '', session_id: 'x' }, { session_id: 'x' }])
    expect((await post(bad as Record<string, string>, '{}')).status).toBe(422)
  expect((await post({ ...query, session_id: 'x'.repeat(257) }, '{}')).status).toBe(422)
})

test('an append of too many entries is refused before they fill the memory, and nothing is stored', async () => {
  const key = newKey()
  const query = { project_key: key.projectKey, session_id: key.sessionId }
  expect((await post(query, '{}\n'.repeat(100_001))).status).toBe(413)
  expect(await store.load(key)).toBeNull()
})

test('a session is a conversation: searched, exported, imported, forked and counted by its log', async () => {
  const { projectKey, sessionId } = newKey()
  const key = { projectKey, sessionId }
  const said = `zebra${randomUUID().slice(0, 8)}`
  const message = { role: 'user', content: [{ type: 'text', text: `Find the ${said}.` }] }
  await store.append(key, [
    entry('user', { uuid: 'u', message }),
    entry('assistant', { uuid: 'a' }),
    entry('title'),
  ])
  const id = await conversationOf(projectKey)
  const events = await api.requestJson<Page>(`/api/conversations/${id}/events/search`)
  expect(events.body.items.map(({ kind, source }) => [kind, source])).toEqual([
    ['SessionStoreEntry', 'user'],
    ['SessionStoreEntry', 'agent'],
    ['SessionStoreEntry', 'environment'],
  ])
  const found = await api.requestJson<Page>(`/api/conversations/${id}/events/search?body=${said}`)
  expect(found.body.items.map((event) => event.id)).toEqual([events.body.items[0]?.id])
  const everywhere = await fetch(`${server.url}/api/conversations/search_text?body=${said}`)
  expect(await everywhere.text()).toContain(id)
  for (const format of ['jsonl', 'markdown', 'html', 'verifiable']) {
    const exported = await fetch(`${server.url}/api/conversations/${id}/export?format=${format}`)
    expect(exported.status).toBe(200)
    expect(await exported.text(), format).toContain(said)
  }
  const meta = await fetch(`${server.url}/api/conversations/${id}/export?meta=true`)
  const log = await meta.text()
  const loaded = await store.load(key)
  await api.sendJson('POST', `/api/conversations/${id}/fork`, {})
  expect(idsOf(await store.listSessions(projectKey))).toEqual([sessionId])
  await store.delete(key)
  const imported = await fetch(`${server.url}/api/conversations/import?unknown=keep`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: log,
  })
  expect(imported.status).toBe(201)
  expect(await store.load(key)).toEqual(loaded)
  expect(idsOf(await store.listSessions(projectKey))).toEqual([sessionId])
})
