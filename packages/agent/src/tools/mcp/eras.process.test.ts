import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import type { AskUser } from '../core/server-question.ts'
import { McpFixtures } from './testing/mcp-fixtures.ts'
import { answerModern } from './testing/modern-server.ts'

/** A program of the newer era; as the answer to `subscriptions/listen` it tells of a change. */
const modernProgram = `${answerModern}
import { createInterface } from 'node:readline'
const write = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
createInterface({ input: process.stdin }).on('line', (line) => {
  const request = JSON.parse(line)
  const answer = answerModern(request)
  if (answer !== undefined) console.log(JSON.stringify(answer))
})`

/** A program of the older era, or one that fails. Its argument says how. */
const olderProgram = `
import { createInterface } from 'node:readline'
const [, , mode] = process.argv
const write = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
if (mode === 'usage') { console.log('Usage: notes DIRECTORY'); process.exit(0) }
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (mode === 'future') return write({ id, error: { code: -32022, message: 'Unsupported protocol version', data: { supported: ['2027-01-01'] } } })
  if (mode === 'sorry') { console.error('the index is being built'); return write({ id, error: { code: -32000, message: 'not ready yet' } }) }
  if (mode === 'silent') return console.error('waiting for a licence')
  if (method === 'initialize') write({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'older', version: '1' } } })
  // Some programs end at whatever comes before they are initialized.
  else if (method === 'server/discover') process.exit(1)
  else if (method === 'tools/list') write({ id, result: { tools: [{ name: 'greet', inputSchema: { type: 'object' } }] } })
  else if (method === 'tools/call') write({ id, result: { content: [{ type: 'text', text: 'Hello ' + params.arguments.who } ] } })
})`

const programs = { 'modern.mjs': modernProgram, 'older.mjs': olderProgram }

test('a program of either era lists its tools and answers a call', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    modern: trial.program('modern.mjs'),
    older: trial.program('older.mjs'),
  })
  expect(mcp.failures).toEqual([])
  expect(mcp.tools.map(({ name }) => name)).toEqual(['modern_greet', 'modern_ask', 'older_greet'])
  for (const name of ['modern_greet', 'older_greet'])
    expect((await call(name, { who: 'you' })).texts[1]).toBe('Hello you')
})

test('a program of the newer era asks the user in the middle of a call', async () => {
  await using trial = await McpFixtures.open(programs)
  const { workspace, secrets, root: directory } = trial
  const asked: unknown[] = []
  const askUser: AskUser = async (question) => {
    asked.push(question)
    return { action: 'accept', content: { name: 'Ada' } }
  }
  const context = { workspace, secrets, directory, askUser }
  const { call } = await trial.openServers({ modern: trial.program('modern.mjs') }, { context })
  expect((await call('ask')).texts[1]).toBe('accept: Ada (state-1)')
  expect(asked).toEqual([
    { server: 'modern', message: 'Your name?', fields: { name: { type: 'string', isRequired: true } } },
  ])
})

test('what a program says when it fails is in the reason', async () => {
  await using trial = await McpFixtures.open(programs)
  const modes = ['future', 'sorry', 'silent', 'usage']
  const servers = Object.fromEntries(modes.map((mode) => [mode, trial.program('older.mjs', mode)]))
  const { mcp } = await trial.openServers(servers, { startMs: 3000 })
  expect(Object.fromEntries(mcp.away)).toEqual({
    future: 'Unsupported protocol version (it speaks 2027-01-01)',
    sorry: expect.stringMatching(/^not ready yet; its last output: the index is being built/),
    silent: 'it was not ready within 3 seconds: it did not answer; its last output: waiting for a licence',
    usage: 'it exited with 0; its last output: Usage: notes DIRECTORY',
  })
})

/** An HTTP server whose `answer` says what each request gets: a status and a body. */
class HttpServer implements AsyncDisposable {
  readonly methods: string[] = []
  readonly headers: IncomingMessage['headers'][] = []
  readonly #server: Server

  constructor(answer: (request: { method: string; id?: unknown }) => readonly [number, object | string]) {
    this.#server = createServer(async (request, response) => {
      let body = ''
      for await (const part of request.setEncoding('utf8')) body += part
      const message = body === '' ? { method: `HTTP ${request.method}` } : JSON.parse(body)
      this.methods.push(message.method)
      this.headers.push(request.headers)
      const [status, said] = answer(message)
      const isText = typeof said === 'string'
      response.writeHead(status, { 'content-type': isText ? 'text/plain' : 'application/json' })
      response.end(isText ? said : JSON.stringify(said))
    })
  }

  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

function answerOlder({ method, id }: { method: string; id?: unknown }): readonly [number, object | string] {
  const result = (members: object) => [200, { jsonrpc: '2.0', id, result: members }] as const
  if (id === undefined) return method.startsWith('HTTP') ? [405, 'no stream'] : [202, '']
  if (method === 'initialize')
    return result({
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'older', version: '1' },
    })
  if (method === 'tools/list') return result({ tools: [{ name: 'greet', inputSchema: { type: 'object' } }] })
  if (method === 'tools/call') return result({ content: [{ type: 'text', text: 'Hello you' }] })
  return [500, 'Internal Server Error']
}

test.for([
  ['modern', ['server/discover', 'tools/list', 'prompts/list', 'subscriptions/listen', 'tools/call']],
  [
    'older',
    ['server/discover', 'initialize', 'notifications/initialized', 'HTTP GET', 'tools/list', 'tools/call'],
  ],
] as const)('a server over HTTP of the %s era lists its tools and answers a call', async ([era, methods]) => {
  await using trial = await McpFixtures.open(programs)
  await using far = new HttpServer((request) => {
    if (era === 'older') return answerOlder(request)
    const answer = answerModern(request)
    return answer === undefined ? [202, ''] : ['error' in answer ? 400 : 200, answer]
  })
  const { mcp, call } = await trial.openServers({ far: { url: await far.open() } })
  expect(mcp.failures).toEqual([])
  expect((await call('greet', { who: 'you' })).texts[1]).toBe('Hello you')
  expect(new Set(far.methods)).toEqual(new Set(methods))
  if (era === 'modern')
    expect(far.headers.at(-1)).toMatchObject({ 'mcp-method': 'tools/call', 'mcp-name': 'greet' })
})

test('what a server over HTTP says when it refuses is in the reason', async () => {
  await using trial = await McpFixtures.open(programs)
  const refusals: Record<string, readonly [number, object | string]> = {
    closed: [405, 'The server is closed on Sundays'],
    key: [401, { error: 'invalid_token' }],
    down: [503, { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'database is down' } }],
    future: [
      400,
      {
        jsonrpc: '2.0',
        id: null,
        error: { code: -32022, message: 'Unsupported protocol version', data: { supported: ['2027-01-01'] } },
      },
    ],
  }
  const far = Object.entries(refusals).map(
    ([name, refusal]) => [name, new HttpServer(() => refusal)] as const,
  )
  const servers: Record<string, { url: string }> = {}
  for (const [name, server] of far) servers[name] = { url: await server.open() }
  const { mcp } = await trial.openServers(servers)
  const closings = far.map(([, server]) => server[Symbol.asyncDispose]())
  expect(Object.fromEntries(mcp.away)).toEqual({
    closed: expect.stringContaining('HTTP 405: The server is closed on Sundays'),
    key: expect.stringMatching(/HTTP 401: .*invalid_token/),
    down: 'HTTP 503: database is down',
    future: expect.stringContaining('Unsupported protocol version (it speaks 2027-01-01)'),
  })
  await Promise.all(closings)
})
