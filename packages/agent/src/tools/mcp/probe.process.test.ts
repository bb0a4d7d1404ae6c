import { once } from 'node:events'
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type McpServer, mcpServer } from '@slipway/protocol'
import { expect, test, vi } from 'vitest'
import { type McpProbeOptions, probeMcpServer } from './probe.ts'

const waitOptions = { timeout: 20_000, interval: 50 }
const canary = 'canary-4711-0815'

/** A server in plain lines. It notes its process and what it started; its argument says how it behaves. */
const serverProgram = `
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
const [, , mode] = process.argv
const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
writeFileSync('pids', process.pid + ' ' + child.pid)
const all = JSON.stringify([process.env.SERVICE_TOKEN, process.env.PLAIN_WORD, process.argv])
if (mode === 'dead') { console.error('cannot: ' + all); process.exit(1) }
if (mode === 'deaf') { process.on('SIGTERM', () => {}); setInterval(() => {}, 1000) }
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
const tool = (name) => ({ name, inputSchema: { type: 'object' } })
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (mode === 'mute') return
  if (method === 'initialize') {
    if (mode === 'refuse') return console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: 'no: ' + all } }))
    send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } })
  }
  if (method === 'tools/list') send(id, { tools: [tool('env.get'), tool('never'), tool('exit'), tool('leak ' + process.env.SERVICE_TOKEN)] })
  if (method !== 'tools/call' || params.name === 'never') return
  if (params.name === 'exit') process.exit(5)
  const isError = params.name !== 'env.get'
  send(id, { isError, content: [{ type: 'text', text: 'one ' + all }, { type: 'image', data: 'aaaa', mimeType: 'image/png' }, { type: 'text', text: JSON.stringify(params.arguments) + 'x'.repeat(params.arguments.length ?? 0) }] })
})
`

/** A directory with the program, and what is tried in it. */
async function openProbe() {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-mcp-trial-')))
  await writeFile(join(directory, 'program.mjs'), serverProgram)
  const signal = new AbortController().signal
  return {
    directory,
    probe: async (server: Partial<McpServer>, more: Partial<McpProbeOptions> = {}) =>
      await probeMcpServer({
        name: 'mine',
        server: mcpServer.parse(server),
        timeoutMs: 20_000,
        environment: { PATH: process.env.PATH ?? '' },
        signal,
        ...more,
      }),
    program: (mode = '', more: object = {}) => ({
      command: process.execPath,
      args: ['program.mjs', mode],
      cwd: directory,
      ...more,
    }),
    /** Processes that were started last and are there. */
    livePids: async () => {
      const text = await readFile(join(directory, 'pids'), 'utf8')
      return text.split(' ').map(Number).filter(isAlive)
    },
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true, maxRetries: 5 }),
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** A server that answers each request with `answer`. */
async function startHttpServer(
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
) {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => answer(request, response, body))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** A server that speaks streamable HTTP, and has a tool that says which headers came. */
function respondMcp(request: IncomingMessage, response: ServerResponse, body: string): void {
  if (request.method !== 'POST') return void response.writeHead(405).end()
  const { id, method, params } = JSON.parse(body)
  if (id === undefined) return void response.writeHead(202).end()
  const results: Record<string, unknown> = {
    initialize: {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'w', version: '1' },
    },
    'tools/list': { tools: [{ name: 'headers', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: JSON.stringify(request.headers) }] },
  }
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] }))
}

test('a probe lists the tools of a program by their own names, makes the call, and leaves nothing running', async () => {
  await using trial = await openProbe()
  const { probe, program, livePids } = trial
  const listed = await probe(program())
  expect(listed).toMatchObject({ tools: ['env.get', 'never', 'exit', 'leak undefined'] })
  expect(listed).not.toHaveProperty('result')
  await vi.waitFor(async () => expect(await livePids()).toEqual([]), waitOptions)
  const call = { name: 'env.get', arguments: { a: 1 } }
  expect(await probe(program(), { call })).toMatchObject({
    result: { isError: false, text: expect.stringMatching(/^one [\s\S]*\n{"a":1}$/) },
  })
  await vi.waitFor(async () => expect(await livePids()).toEqual([]), waitOptions)
})

test('what comes of a call does not make the server a bad one', async () => {
  await using trial = await openProbe()
  const { probe, program, livePids } = trial
  const result = async (name: string, timeoutMs = 20_000) => {
    const answered = await probe(program(), { call: { name, arguments: {} }, timeoutMs })
    return 'failure' in answered ? answered.failure : answered.result
  }
  expect(await result('unknown')).toMatchObject({ isError: true, text: expect.stringContaining('one') })
  expect(await result('exit')).toMatchObject({
    isError: true,
    text: expect.stringContaining('exited with 5'),
  })
  expect(await result('never', 6000)).toEqual({ isError: true, text: 'The tool gave no answer in time.' })
  await vi.waitFor(async () => expect(await livePids()).toEqual([]), waitOptions)
  const long = await probe(program(), { call: { name: 'env.get', arguments: { length: 3_000_000 } } })
  if ('failure' in long) throw new Error(long.failure)
  expect(long.result?.text.length).toBe(50_000)
})

test('failures are of a kind', async () => {
  await using trial = await openProbe()
  await using refusing = await startHttpServer((_, response) => response.writeHead(401).end('Unauthorized'))
  await using silent = await startHttpServer(() => {})
  await using page = await startHttpServer((_, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
  )
  const { probe, program } = trial
  const kinds: readonly (readonly [string, Partial<McpServer>, number?])[] = [
    ['timeout', program('mute'), 700],
    ['timeout', { url: silent.url }, 700],
    ['connection', program('dead')],
    ['connection', program('refuse')],
    ['connection', { command: join(trial.directory, 'nothing-here') }],
    ['connection', { ...program(), cwd: '/nothing/here' }],
    ['connection', { url: 'http://127.0.0.1:1/mcp' }],
    ['connection', { url: refusing.url, transport: 'http' }],
    ['connection', { url: refusing.url, transport: 'sse' }],
    ['connection', { url: page.url }],
    ['unknown', { url: 'file:///etc/passwd' }],
    ['unknown', { url: 'https://x.example', transport: 'pigeon' }],
    ['unknown', { url: 'https://x.example', auth: { strategy: 'oauth2' } }],
  ]
  for (const [kind, server, timeoutMs = 20_000] of kinds) {
    const answered = await probe(server, { timeoutMs })
    expect([server, answered]).toEqual([server, { failure: expect.stringMatching(/\w/), kind }])
  }
  const refused = await probe({ url: refusing.url })
  expect(refused).toMatchObject({ failure: expect.stringMatching(/^HTTP 401: .*Unauthorized/) })
})

test('a program that does not want to end is ended, and what it started with it', async () => {
  await using trial = await openProbe()
  await trial.probe(trial.program('deaf'))
  await vi.waitFor(async () => expect(await trial.livePids()).toEqual([]), waitOptions)
})

test('when the caller goes away the program ends at once', async () => {
  await using trial = await openProbe()
  const stop = new AbortController()
  const trying = trial.probe(trial.program('mute'), { signal: stop.signal, timeoutMs: 120_000 })
  await vi.waitFor(async () => expect(await trial.livePids()).toHaveLength(2), waitOptions)
  stop.abort()
  await expect(trying).rejects.toThrow()
  await vi.waitFor(async () => expect(await trial.livePids()).toEqual([]), waitOptions)
})

test('a web server gets its headers and its key, over either transport', async () => {
  await using trial = await openProbe()
  await using server = await startHttpServer(respondMcp)
  const call = { name: 'headers', arguments: {} }
  const ways: Partial<McpServer>[] = [
    { headers: { 'x-own': 'plain' }, transport: 'http' },
    { headers: { 'x-own': 'plain' }, auth: { strategy: 'none' } },
  ]
  for (const way of ways) {
    const answered = await trial.probe({ url: server.url, ...way }, { call })
    expect(answered).toMatchObject({
      tools: ['headers'],
      result: { text: expect.stringContaining('"x-own":"plain"') },
    })
  }
})

test('a stream of events is closed when the trial is over, whatever came of it', async () => {
  await using trial = await openProbe()
  const streams: ServerResponse[] = []
  let isMute = false
  await using server = await startHttpServer((request, response, body) => {
    if (request.method === 'GET') {
      streams.push(response)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('event: endpoint\ndata: /mcp?session=1\n\n')
      return
    }
    response.writeHead(202).end()
    const { id, method, params } = JSON.parse(body)
    if (isMute || id === undefined) return
    const { protocolVersion } = params ?? {}
    const result =
      method === 'initialize'
        ? { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }
        : { tools: [{ name: 'one', inputSchema: { type: 'object' } }] }
    streams.at(-1)?.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`)
  })
  const sse = { url: server.url, transport: 'sse' }
  expect(await trial.probe(sse)).toEqual({ tools: ['one'] })
  isMute = true
  expect(await trial.probe(sse, { timeoutMs: 500 })).toMatchObject({ kind: 'timeout' })
  expect(streams).toHaveLength(2)
  await vi.waitFor(() => expect(streams.map(({ closed }) => closed)).toEqual([true, true]), waitOptions)
})

test('no text has a secret of the settings, wherever the server says it', async () => {
  await using trial = await openProbe()
  await using echo = await startHttpServer((request, response, body) => {
    response.writeHead(403).end(`no: ${JSON.stringify(request.headers)} ${request.url} ${body}`)
  })
  await using server = await startHttpServer(respondMcp)
  const { probe, program } = trial
  const env = { SERVICE_TOKEN: canary, PLAIN_WORD: 'canary of words only' }
  const secret = (mode: string) => ({
    ...program(mode, { env }),
    args: ['program.mjs', mode, '--api-key', 'other-4711-0815', '--token=other-4242-2323'],
  })
  const call = { name: 'env.get', arguments: {} }
  const basic = Buffer.from(`user:${canary}`).toString('base64')
  const answered = [
    await probe(secret('dead')),
    await probe(secret('refuse')),
    await probe(secret(''), { call }),
    await probe({ url: `${echo.url}?api_key=${canary}`, headers: { 'x-service': canary } }),
    await probe({ url: echo.url, auth: canary, transport: 'sse' }),
    await probe({ url: echo.url.replace('//', `//user:${canary}@`) }),
  ]
  for (const auth of [
    { strategy: 'bearer', value: canary },
    { strategy: 'oauth2', state: { tokens: { access_token: canary } } },
    { strategy: 'api_key', value: canary, header_name: 'X-Service' },
    { strategy: 'basic', username: 'user', password: canary },
    { strategy: 'header', headers: { 'X-Any': canary } },
  ]) {
    const answer = await probe({ url: server.url, auth }, { call })
    expect(answer).toMatchObject({ result: { text: expect.stringMatching(/<secret-hidden>|<redacted>/) } })
    answered.push(answer)
  }
  for (const text of answered.map((one) => JSON.stringify(one))) {
    expect(text).not.toMatch(/canary|other-/)
    expect(text).not.toContain(basic)
  }
})
