import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, expect, test } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const sessionKey = 'mcp-server-test-session-key'
const server = await OwnAgentServer.open({ sessionKey, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())
const { api, driver } = server

async function makeKey(request: object): Promise<string> {
  const { status, body } = await api.sendJson('POST', '/api/keys', { name: 'test', ...request })
  expect(status, JSON.stringify(body)).toBe(201)
  return (body as { key: string }).key
}

type Mode = 'auto' | 'legacy'

class McpUser implements AsyncDisposable {
  readonly client: Client

  private constructor(client: Client) {
    this.client = client
  }

  static async connect(key = sessionKey, mode: Mode = 'auto'): Promise<McpUser> {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    const requestInit = { headers: { authorization: `Bearer ${key}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit }))
    return new McpUser(client)
  }

  async tools(): Promise<string[]> {
    return (await this.client.listTools()).tools.map(({ name }) => name)
  }

  /** The JSON of an answer, or the words of a refusal. */
  // biome-ignore lint/suspicious/noExplicitAny: answers of many forms
  async call(name: string, input: object = {}): Promise<any> {
    const { content, isError } = await this.client.callTool({ name, arguments: { ...input } })
    const [part] = content as { text: string }[]
    return isError ? { refused: part?.text } : JSON.parse(part?.text ?? '')
  }

  async read(uri: string): Promise<string> {
    const { contents } = await this.client.readResource({ uri })
    return (contents[0] as { text: string }).text
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close()
  }
}

const failing = [bashStep('echo first-marker; (exit 3)'), bashStep('echo second'), finishStep('All is done.')]
const worked = await driver.createScripted(failing, { tags: { team: 'blue' } })
await driver.waitUntilIdle(worked.id)
const asking = await driver.createScripted([bashStep('echo asked'), finishStep('Asked.')], {
  confirmation_policy: { kind: 'AlwaysConfirm' },
})
await driver.waitUntilIdle(asking.id)

test.for(['auto', 'legacy'] as const)('era %s: tools and resources of a session key', async (mode) => {
  await using user = await McpUser.connect(sessionKey, mode)
  expect(await user.tools()).toEqual([
    ...['list_conversations', 'search', 'read_events', 'summarize_usage', 'list_questions', 'wait'],
    ...['start_conversation', 'send_message', 'stop_conversation', 'answer_question'],
  ])
  const { conversations } = await user.call('list_conversations', { tags: ['team:blue'] })
  expect(conversations).toMatchObject([{ conversation_id: worked.id, status: 'finished' }])
  const { resources } = await user.client.listResources()
  expect(resources.map(({ uri }) => uri)).toContain(`slipway://conversations/${worked.id}/log`)
  const lines = (await user.read(`slipway://conversations/${worked.id}/log`)).trim().split('\n')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ position: 1 })
})

test('a search finds messages and outputs with their positions, which are read', async () => {
  await using user = await McpUser.connect()
  const failed = await user.call('search', { failed: true, where: 'outputs' })
  expect(failed.hits).toMatchObject([
    {
      conversation_id: worked.id,
      tool: 'terminal',
      exit_code: 3,
      is_error: true,
      snippet: expect.stringContaining('first-marker'),
    },
  ])
  const [{ position }] = failed.hits
  const { events, head } = await user.call('read_events', {
    conversation_id: worked.id,
    first: position,
    limit: 1,
  })
  expect(events).toMatchObject([{ position, event: { kind: 'ObservationEvent' } }])
  expect(head).toBeGreaterThan(position)
  const outputs = await user.call('search', { text: 'FIRST-marker', where: 'outputs', tags: ['team'] })
  expect(outputs.hits).toHaveLength(1)
  expect(
    (await user.call('search', { text: 'first-marker', where: 'outputs', tags: ['other'] })).hits,
  ).toEqual([])
  const messages = await user.call('search', { text: 'done', where: 'messages' })
  expect(messages).toHaveProperty('next_cursor')
  expect((await user.call('search', { failed: true, until: '2001-01-01T00:00:00Z' })).hits).toEqual([])
})

test('the cursor of a search continues where it stopped, and a foreign one is refused in words', async () => {
  await using user = await McpUser.connect()
  const found: unknown[] = []
  let cursor: string | undefined
  do {
    const page = await user.call('search', { where: 'outputs', limit: 1, cursor })
    found.push(...page.hits)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  expect(found).toHaveLength((await user.call('search', { where: 'outputs', limit: 50 })).hits.length)
  expect((await user.call('search', { where: 'outputs', cursor: 'x' })).refused).toContain('cursor')
  const forged = Buffer.from(JSON.stringify({ index: 0, page: 'x' })).toString('base64url')
  expect((await user.call('search', { where: 'outputs', cursor: forged })).refused).toEqual(
    expect.any(String),
  )
})

test('a conversation is started, waited for, continued, summarized and stopped', async () => {
  await using user = await McpUser.connect(await makeKey({ scopes: ['read', 'act'] }))
  const script = [{ text: 'One.' }, { text: 'Two.' }]
  await api.sendJson('POST', '/api/profiles/mcp', { llm: { model: 'scripted/x', script } })
  expect((await user.call('start_conversation', { text: 'x', profile: 'none' })).refused).toContain('none')
  expect((await user.call('start_conversation', { text: 'x', working_dir: 'a' })).refused).toContain(
    'absolute',
  )
  const { conversation_id } = await user.call('start_conversation', { text: 'Say one.', profile: 'mcp' })
  const waited = await user.call('wait', { conversation_id })
  expect(waited).toMatchObject({ conversation_id, last_answer: 'One.' })
  expect(waited.status).not.toBe('running')
  await user.call('send_message', { conversation_id, text: 'Say two.', idempotency_key: 'k' })
  await user.call('send_message', { conversation_id, text: 'Say two.', idempotency_key: 'k' })
  expect(await user.call('wait', { conversation_id })).toMatchObject({ last_answer: 'Two.' })
  expect(await user.call('summarize_usage', { conversation_id })).toMatchObject({ conversations: 1, cost: 0 })
  expect(await user.call('summarize_usage')).toMatchObject({ conversations: 3, is_complete: true })
  expect(await user.call('stop_conversation', { conversation_id })).toEqual({ is_stopped: true })
})

test('an agent with a key of its conversation sees that one alone, and answers nothing', async () => {
  await using bound = await McpUser.connect(
    await makeKey({ scopes: ['read', 'act'], conversation_id: asking.id }),
  )
  expect(await bound.tools()).not.toContain('answer_question')
  expect((await bound.call('list_conversations')).conversations).toMatchObject([
    { conversation_id: asking.id },
  ])
  expect((await bound.client.listResources()).resources).toHaveLength(1)
  expect((await bound.call('search', { failed: true })).hits).toEqual([])
  const { id: other } = worked
  for (const [name, input] of [
    ['read_events', { conversation_id: other }],
    ['search', { conversation_id: other, text: 'x' }],
    ['search', { conversation_id: other, failed: true }],
    ['summarize_usage', { conversation_id: other }],
    ['wait', { conversation_id: other }],
    ['send_message', { conversation_id: other, text: 'x' }],
    ['stop_conversation', { conversation_id: other }],
  ] as const)
    expect((await bound.call(name, input)).refused).toBe(`Conversation not found: ${other}`)
  for (const kind of ['log', 'diff', 'files/a'])
    await expect(bound.read(`slipway://conversations/${other}/${kind}`)).rejects.toThrow('not found')
  expect((await bound.call('start_conversation', { text: 'x' })).refused).toContain('bound')
  expect((await bound.call('list_questions')).refused).toContain('bound')
  const sent = await bound.call('send_message', { conversation_id: asking.id, text: 'Yes, go ahead.' })
  expect(sent.refused).toContain('waits for an answer')
  await expect(
    bound.call('answer_question', { conversation_id: asking.id, accept: true, actions_digest: 'x' }),
  ).rejects.toThrow()
})

test('what waits is answered with the digest of what was seen', async () => {
  await using reader = await McpUser.connect(await makeKey({ scopes: ['read'] }))
  expect(await reader.tools()).not.toContain('send_message')
  const { questions } = await reader.call('list_questions')
  expect(questions).toMatchObject([{ conversation_id: asking.id, actions: [{ tool_name: 'terminal' }] }])
  const [{ actions_digest }] = questions
  await using answerer = await McpUser.connect(await makeKey({ scopes: ['answer'] }))
  expect(await answerer.tools()).toEqual(['answer_question'])
  const answer = { conversation_id: asking.id, accept: true }
  const foreign = `sha256:${'0'.repeat(64)}`
  expect((await answerer.call('answer_question', { ...answer, actions_digest: foreign })).refused).toContain(
    'not the ones',
  )
  expect(await answerer.call('answer_question', { ...answer, actions_digest })).toEqual({ is_answered: true })
  await driver.waitUntilIdle(asking.id)
  expect((await reader.call('list_questions')).questions).toEqual([])
})

test('files and changes of a workspace are resources, also with odd names', async () => {
  await using user = await McpUser.connect()
  const { working_dir: workspace } = (await driver.getInfo(worked.id)).workspace as { working_dir: string }
  await mkdir(join(workspace, 'sub dir'), { recursive: true })
  await writeFile(join(workspace, 'sub dir', 'ä.txt'), 'words')
  const base = `slipway://conversations/${worked.id}`
  expect(await user.read(`${base}/files/sub%20dir/%C3%A4.txt`)).toBe('words')
  await expect(user.read(`${base}/files/../../etc/passwd`)).rejects.toThrow()
  await expect(user.read(`${base}/files/%2e%2e/%2e%2e/etc/passwd`)).rejects.toThrow()
  expect(JSON.parse(await user.read(`${base}/diff`))).toHaveProperty('total')
})

test('long events are cut, and an answer stays within its bound', async () => {
  await using user = await McpUser.connect()
  const text = 'x'.repeat(200_000)
  const line = {
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text }] },
  }
  const lines = Array.from({ length: 40 }, (_, at) => {
    const timestamp = `2026-01-01T00:00:${String(at).padStart(2, '0')}`
    return JSON.stringify({ id: `e${at}`, timestamp, ...line, activated_skills: [], extended_content: [] })
  })
  const id = await api.import(lines.join('\n'))
  const answer = await user.call('read_events', { conversation_id: id, limit: 100 })
  expect(JSON.stringify(answer).length).toBeLessThan(70_000)
  expect(answer.events.length).toBeGreaterThan(10)
  expect(JSON.stringify(answer.events[0])).toContain('more characters')
  const found = await user.call('search', { conversation_id: id, text: 'XXX', limit: 50 })
  expect(found.hits).toHaveLength(40)
  expect(found.hits[0]).toMatchObject({ position: 40, event_id: 'e39', source: 'user' })
  const log = await user.read(`slipway://conversations/${id}/log`)
  expect(log.length).toBeLessThan(70_000)
  expect(JSON.parse(log.trim().split('\n').at(-1) ?? '')).toMatchObject({ position: 40 })
})

test('what is no message of the protocol is refused by its rules, never by 500', async () => {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const post = async (body: string, more: Readonly<Record<string, string>> = {}) =>
    (await api.fetch('/mcp', { method: 'POST', body, headers: { ...headers, ...more } })).status
  expect(await post('')).toBe(400)
  expect(await post('{')).toBe(400)
  expect(await post('[]')).toBe(400)
  expect(await post('{"jsonrpc":"2.0","id":1,"method":"none"}')).toBeLessThan(500)
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  expect(await post(ping, { 'mcp-session-id': 'unknown' })).toBe(200)
  expect(await post(`[${ping},${ping.replace('1', '2')}]`)).toBeLessThan(500)
  expect(await post(ping, { 'mcp-protocol-version': '1999-01-01' })).toBe(400)
  expect(await post(`"${'x'.repeat(1_100_000)}"`)).toBe(413)
  expect((await api.fetch('/mcp')).status).toBe(405)
  expect((await fetch(`${server.url}/mcp`, { method: 'POST', body: ping, headers })).status).toBe(401)
  await using user = await McpUser.connect()
  const many = Array.from({ length: 2_000 }, () => 'a')
  const refused = await user
    .call('search', { tags: many })
    .catch((error: unknown) => ({ refused: String(error) }))
  expect(refused.refused).toEqual(expect.any(String))
  expect((await user.call('read_events', { conversation_id: 'x' })).refused).toEqual(expect.any(String))
})

test('a server whose setting switches it off has no such route', async () => {
  await using off = await OwnAgentServer.open({ isInProcess: true, env: { SLIPWAY_MCP_SERVER: 'false' } })
  expect((await off.api.fetch('/mcp', { method: 'POST' })).status).toBe(404)
})
