import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/client'
import { mcpServer } from '@slipway/protocol'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { AskUser } from '../core/server-question.ts'
import { McpConnection } from './connection.ts'
import { answerModern } from './testing/modern-server.ts'

/** A server whose pages of tools are these; the cursor of a page is its number. */
async function openServer(pages: readonly (readonly string[])[]) {
  const listed: unknown[] = []
  const answer = (method: string, params: Record<string, unknown> = {}) => {
    if (method === 'initialize') {
      const { protocolVersion } = params
      return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'paged', version: '1' } }
    }
    // The question of the newer protocol, which this server does not know.
    if (method !== 'tools/list') return undefined
    listed.push(params)
    const page = Number(params.cursor ?? 0)
    const tools = (pages[page] ?? []).map((name) => ({ name, inputSchema: { type: 'object' } }))
    return { tools, ...(page + 1 < pages.length ? { nextCursor: String(page + 1) } : {}) }
  }
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params } = JSON.parse(Buffer.concat(await Array.fromAsync(request)).toString())
    if (id === undefined) return void response.writeHead(202).end()
    response.setHeader('content-type', 'application/json')
    const result = answer(method, params)
    const error = { code: -32601, message: `Method not found: ${method}` }
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result === undefined ? { error } : { result }) }))
  })
  return { url: await listen(server), listed }
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** A connection to the server at an address; `askUser` answers its questions. */
async function open(url: string, askUser?: AskUser): Promise<McpConnection> {
  const workspace = await Workspace.open({ directory: import.meta.dirname, env: {} })
  const context = { workspace, secrets: new Secrets({}), directory: '/nonexistent', askUser }
  const server = mcpServer.parse({ url, transport: 'http' })
  const times = { startMs: 20_000, callMs: 20_000 }
  const connection = new McpConnection('far', { server, context, ...times, onChange: () => {} })
  onTestFinished(async () => {
    await connection.close()
    await workspace[Symbol.asyncDispose]()
  })
  return connection
}

test('all pages of tools are listed, each after the cursor of the one before', async () => {
  const { url, listed } = await openServer([['a', 'b'], ['c'], ['d']])
  const connection = await open(url)
  expect(await connection.start(new AbortController().signal)).toEqual([])
  expect(connection.tools.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd'])
  expect(listed).toEqual([{}, { cursor: '1' }, { cursor: '2' }])
})

test('a call asks the user at most twenty times', async () => {
  const answers: string[] = []
  let stream: ServerResponse | undefined
  let call: unknown
  const write = (message: object) =>
    stream?.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params, result } = JSON.parse(
      Buffer.concat(await Array.fromAsync(request)).toString(),
    )
    if (method === 'tools/call') {
      call = id
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      const question = { message: 'Again?', requestedSchema: { type: 'object', properties: {} } }
      for (let at = 0; at < 22; at++) write({ id: `q${at}`, method: 'elicitation/create', params: question })
      return
    }
    if (method === 'server/discover') return void response.writeHead(404).end()
    if (method !== 'initialize') {
      response.writeHead(202).end()
      if (result !== undefined && answers.push(result.action) === 22) {
        write({ id: call, result: { content: [] } })
        stream?.end()
      }
      return
    }
    const { protocolVersion } = params
    const capabilities = { capabilities: {}, serverInfo: { name: 'asking', version: '1' } }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { protocolVersion, ...capabilities } }))
  })
  const connection = await open(await listen(server), async () => ({ action: 'accept', content: {} }))
  const { signal } = new AbortController()
  expect(await connection.start(signal)).toEqual([])
  expect(await connection.call('ask', {}, signal)).toEqual({ result: { content: [] } })
  expect(answers.toSorted()).toEqual([...Array(20).fill('accept'), 'decline', 'decline'])
})

test('a stream of notifications that breaks ends no call, and is opened again', async () => {
  const streams: ServerResponse[] = []
  const again = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    const message = JSON.parse(Buffer.concat(await Array.fromAsync(request)).toString() || '{}')
    const { id, method } = message
    if (method === 'subscriptions/listen') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const params = { _meta: { [SUBSCRIPTION_ID_META_KEY]: id }, notifications: { toolsListChanged: true } }
      const acknowledgement = { jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params }
      response.write(`event: message\ndata: ${JSON.stringify(acknowledgement)}\n\n`)
      if (streams.push(response) === 2) again.resolve()
      return
    }
    if (method === 'tools/call') {
      // The call is open while the stream breaks.
      streams[0]?.destroy()
      await again.promise
    }
    const answer = answerModern(message)
    if (answer === undefined) return void response.writeHead(202).end()
    response.writeHead('error' in answer ? 400 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer))
  })
  const connection = await open(await listen(server))
  const { signal } = new AbortController()
  expect(await connection.start(signal)).toEqual([])
  await expect.poll(() => streams.length).toBe(1)
  const greeting = await connection.call('greet', { who: 'you' }, signal)
  expect(greeting).toMatchObject({ result: { content: [{ text: 'Hello you' }] } })
  expect(streams).toHaveLength(2)
})

test('a tool whose arguments cannot go into headers is left out, and its name reaches no log', async () => {
  const printed = vi.spyOn(console, 'warn').mockImplementation(() => {})
  onTestFinished(() => printed.mockRestore())
  const server = createServer(async (request, response) => {
    const message = JSON.parse(Buffer.concat(await Array.fromAsync(request)).toString() || '{}')
    // biome-ignore lint/suspicious/noExplicitAny: an answer of any form
    const answer: any = answerModern(message)
    if (answer === undefined || message.method === 'subscriptions/listen')
      return void response.writeHead(202).end()
    const inputSchema = { type: 'object', properties: { a: { type: 'string', 'x-mcp-header': 'two words' } } }
    answer.result?.tools?.push({ name: 'bad\nname', inputSchema })
    response.writeHead('error' in answer ? 400 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer))
  })
  const connection = await open(await listen(server))
  expect(await connection.start(new AbortController().signal)).toEqual([
    'a tool was left out: its arguments cannot go into headers as its description wants',
  ])
  expect(connection.tools.map(({ name }) => name)).toEqual(['greet', 'ask'])
  expect(printed.mock.calls).toEqual([])
})
