import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { McpServer as SdkServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { type McpServer, must, toolDefinition } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { modelToolName } from './server-tool.ts'
import { McpFixtures } from './testing/mcp-fixtures.ts'

const waitOptions = { timeout: 20_000, interval: 50 }
const sdk = (path: string) => JSON.stringify(import.meta.resolve(`@modelcontextprotocol/sdk/${path}`))

/** A server made with the SDK, as a program. */
const sampleProgram = `
import { McpServer } from ${sdk('server/mcp.js')}
import { StdioServerTransport } from ${sdk('server/stdio.js')}
import { writeFileSync } from 'node:fs'
import * as z from ${JSON.stringify(import.meta.resolve('zod'))}
const server = new McpServer({ name: 'sample', version: '1' })
const say = (text) => ({ content: [{ type: 'text', text }] })
server.registerTool('echo', { description: 'Says it again', inputSchema: { text: z.string() }, annotations: { readOnlyHint: true } }, ({ text }) => say(text))
server.registerTool('env.get', { inputSchema: { name: z.string() } }, ({ name }) => say(String(process.env[name])))
server.registerTool('fail', {}, () => ({ ...say('it went wrong'), isError: true }))
server.registerTool('exit', {}, () => { console.error('fatal: token hunter2hunter2'); process.exit(3) })
server.registerTool('never', {}, (extra) => new Promise((done) => {
  extra.signal.addEventListener('abort', () => { writeFileSync('cancelled', ''); done(say('late')) })
}))
server.registerTool('grow', {}, () => { server.registerTool('grown' + Date.now(), {}, () => say('new')); return say('ok') })
server.registerTool('rich', {}, () => ({ content: [
  { type: 'text', text: 'one' },
  { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' },
  { type: 'image', data: 'aGVsbG8=', mimeType: 'image/tiff' },
  { type: 'audio', data: 'aGVsbG8=', mimeType: 'audio/wav' },
  { type: 'resource', resource: { uri: 'file:///x', text: 'inside' } },
  { type: 'resource', resource: { uri: 'file:///y', blob: 'aGVsbG8=', mimeType: 'image/gif' } },
  { type: 'resource_link', uri: 'https://example.test/', name: 'link' },
  { type: 'image', data: 'a'.repeat(4_000_000), mimeType: 'image/png' },
] }))
server.registerTool('long', { inputSchema: { length: z.number() } }, ({ length }) => say('x'.repeat(length) + 'end'))
server.registerTool('structured', { outputSchema: { n: z.number() } }, () => ({ content: [], structuredContent: { n: 5 } }))
server.registerTool('place', {}, async () => say(JSON.stringify([process.cwd(), process.env.SLIPWAY_WORKSPACE, server.server.getClientCapabilities().roots && (await server.server.listRoots()).roots])))
writeFileSync('pid' + process.pid, '')
await server.connect(new StdioServerTransport())
`

/** A server in plain lines that does what servers should not. Its argument says what. */
const misbehavingProgram = `
import { createInterface } from 'node:readline'
const [, , mode] = process.argv
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
const tool = (name, more = {}) => ({ name, inputSchema: { type: 'object' }, ...more })
const call = () => { process.stdout.write('{"jsonrpc":"2.0","id":1,'); setInterval(() => {}, 1000) }
if (mode === 'mute') setInterval(() => {}, 1000)
if (mode === 'dead') { console.error('no such database'); process.exit(1) }
if (mode === 'deaf') process.on('SIGTERM', () => {}), setInterval(() => {}, 1000)
if (mode === 'garbage') console.log('Starting up!\\n{"broken": \\n[1,2]\\nnull\\n' + 'z'.repeat(100000))
const start = mode === 'slow' ? 1500 : 0
setTimeout(() => createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (mode === 'mute') return
  if (method === 'initialize') send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'rude', version: '1' } })
  if (mode === 'garbage') console.log('log: ' + method)
  if (method === 'tools/list') {
    if (mode === 'pages') return send(id, { tools: [tool('t' + (params?.cursor ?? ''))], nextCursor: (params?.cursor ?? '') + 'x' })
    if (mode === 'bad-tools') return send(id, { tools: [tool('good'), { name: 5 }, tool('list', { inputSchema: [] }), tool('fat', { description: 'f'.repeat(100000) }), null] })
    send(id, { tools: [tool('work')] })
    if (mode === 'flood') setInterval(() => console.log('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'), 1)
  }
  if (method === 'tools/call') {
    if (mode === 'endless') { const part = 'x'.repeat(1 << 20); const more = () => process.stdout.write(part, more); return more() }
    if (mode === 'odd') return send(id, { surprise: true })
    if (mode === 'half') return call()
    if (mode === 'refuse') return console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32001, message: 'not today' } }))
    send(id, { content: [{ type: 'text', text: 'done' }] })
  }
}), start)
`

const programs = { 'sample.mjs': sampleProgram, 'rude.mjs': misbehavingProgram }

function sampleServer(trial: McpFixtures, more: Partial<McpServer>): Partial<McpServer> {
  return { ...trial.program('sample.mjs'), ...more }
}

test('tools of one server keep their names, and are described by it', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    sample: trial.program('sample.mjs'),
    off: { command: 'x', disabled: true },
  })
  expect(mcp.failures).toEqual([])
  const [echo, env] = mcp.tools
  expect(mcp.tools.map(({ name }) => name).slice(0, 3)).toEqual(['echo', 'env_get', 'fail'])
  expect(echo).toMatchObject({
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    definition: {
      kind: 'MCPToolDefinition',
      description: 'Says it again',
      annotations: { readOnlyHint: true, destructiveHint: true, openWorldHint: true },
      mcp_tool: { name: 'echo', inputSchema: { type: 'object' } },
    },
  })
  for (const tool of mcp.tools) expect(toolDefinition.safeParse(tool.definition).success).toBe(true)
  const action = { kind: 'MCPToolAction' as const, data: {} }
  expect(must(echo, 'echo').resources(action)).toEqual([])
  expect(must(env, 'env').resources(action)).toEqual(['mcp:env_get'])
  expect(await call('echo', { text: 'hello' })).toMatchObject({
    texts: ["[Tool 'echo' executed.]", 'hello'],
    is_error: false,
    tool_name: 'echo',
  })
  const failed = await call('fail')
  expect([failed.is_error, failed.texts]).toEqual([true, ["[Tool 'fail' executed.]", 'it went wrong']])
  const wrong = await call('echo', { text: 5 })
  expect([wrong.is_error, wrong.text]).toEqual([true, expect.stringContaining('text')])
})

test('tools of several servers carry the name of theirs; a server that fails holds up no other', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    a: sampleServer(trial, { read_only: true }),
    'b b': sampleServer(trial, { read_only: false }),
    dead: trial.program('rude.mjs', 'dead'),
    none: { command: join(trial.root, 'nothing-here') },
    bad: { url: 'file:///etc/passwd' },
    far: { url: 'http://127.0.0.1:1/mcp' },
  })
  expect(mcp.tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['a_echo', 'b_b_echo']))
  // What the user says of a server goes before its own marks, of which it has one.
  const readers = mcp.tools.filter(({ definition }) => definition.annotations?.readOnlyHint === true)
  expect(readers.map(({ name }) => name)).toEqual(
    mcp.tools.map(({ name }) => name).filter((name) => name.startsWith('a_')),
  )
  expect(readers[1]?.resources({ kind: 'MCPToolAction', data: {} })).toEqual([])
  expect(await call('b_b_echo', { text: 'x' })).toMatchObject({ tool_name: 'b_b_echo', is_error: false })
  const failures = Object.fromEntries(mcp.failures.map(({ server, detail }) => [server, detail]))
  expect(failures).toEqual({
    dead: expect.stringMatching(/exited with 1; its last output: no such database/),
    none: expect.stringContaining('could not be started'),
    bad: expect.stringContaining('no http or https address'),
    far: expect.any(String),
  })
})

test('a server starts in its own empty folder, which is removed with it, and gets the path of the workspace', async () => {
  await using trial = await McpFixtures.open(programs)
  const { root } = trial
  const allRoots = [{ uri: pathToFileURL(root).href, name: basename(root) }]
  const program = join(root, 'sample')
  await writeFile(program, `#!/bin/sh\nexec ${process.execPath} ${root}/sample.mjs "$@"\n`, { mode: 0o755 })
  const place = async (more: Partial<McpServer>, roots: unknown = allRoots) => {
    const server = sampleServer(trial, { command: program, args: [], ...more })
    const { mcp, call } = await trial.openServers({ sample: server })
    const [folder, ...told] = JSON.parse((await call('place')).texts[1] ?? '')
    const { mode } = await stat(folder)
    await mcp.close()
    expect(told).toEqual([root, roots])
    return [folder, mode & 0o777]
  }
  const [folder, mode] = await place({ cwd: undefined })
  expect([folder, mode]).toEqual([expect.stringMatching(/\/slipway\/programs\/unmarked\/run-\w+$/), 0o700])
  await vi.waitFor(async () => await expect(stat(folder)).rejects.toThrow('ENOENT'), waitOptions)
  expect((await place({ cwd: 'workspace' }))[0]).toBe(root)
  expect((await place({ cwd: 'own' }))[0]).toBe(join(root, 'own'))
  await place({ args: ['notes'] })
  // Directories that a user gave are not replaced.
  for (const args of [['/home/me/notes'], ['--root=/home/me/notes']]) await place({ args }, null)
})

test('a path of the working directory without a cwd is refused, with what to do', async () => {
  await using trial = await McpFixtures.open(programs)
  const servers = {
    argument: { command: process.execPath, args: ['./sample.mjs'] },
    parent: { command: process.execPath, args: ['x', '..'] },
    command: { command: './sample' },
  }
  const { mcp } = await trial.openServers(servers)
  expect(mcp.failures.map(({ server, detail }) => [server, detail])).toEqual(
    ['./sample.mjs', '..', './sample'].map((path, at) => [
      Object.keys(servers)[at],
      `${path} is a path of the working directory, and a server starts in an empty folder. ` +
        'Give it an absolute path, or the cwd "workspace" to start it in the workspace.',
    ]),
  )
  const { mcp: started } = await trial.openServers({
    sample: { command: process.execPath, args: ['./sample.mjs'], cwd: 'workspace' },
  })
  expect(started.failures).toEqual([])
})

test('a server without a cwd that ends before its first answer is told about its folder', async () => {
  await using trial = await McpFixtures.open(programs)
  const { command, ...rude } = trial.program('rude.mjs', 'dead')
  const { mcp } = await trial.openServers({
    argument: { command: process.execPath, args: ['sample.mjs'] },
    command: { command: 'bin/agent' },
    placed: { command, ...rude },
  })
  const failures = Object.fromEntries(mcp.failures.map(({ server, detail }) => [server, detail]))
  const hint = expect.stringMatching(/ It started in an empty folder: .* the cwd "workspace"/)
  expect(failures).toEqual({ argument: hint, command: hint, placed: expect.not.stringContaining('folder') })
})

test('secrets go to the server by name and do not come back', async () => {
  await using trial = await McpFixtures.open(programs)
  const env = { GIVEN: 'a $TOKEN', PLAIN: 'production' }
  const { call } = await trial.openServers({ sample: sampleServer(trial, { env }) })
  expect((await call('env.get'.replace('.', '_'), { name: 'GIVEN' })).texts[1]).toBe('a <secret-hidden>')
  expect((await call('env_get', { name: 'BASE' })).texts[1]).toBe('b')
  expect((await call('env_get', { name: 'PLAIN' })).texts[1]).toBe('production')
  expect((await call('env_get', { name: 'HOME' })).texts[1]).toBe('undefined')
  const echoed = await call('echo', { text: `$TOKEN $\{TOKEN} $OTHER` })
  expect(echoed.texts[1]).toBe('<secret-hidden> <secret-hidden> $OTHER')
})

test('images come as data URLs, other content in words, and what is too large not at all', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: trial.program('sample.mjs') })
  expect((await call('rich')).texts).toEqual([
    "[Tool 'rich' executed.]",
    'one',
    'data:image/png;base64,aGVsbG8=',
    '[An image of type image/tiff]',
    '[Content of type audio, audio/wav]',
    '[Resource file:///x]\ninside',
    'data:image/gif;base64,aGVsbG8=',
    '[Resource link: https://example.test/]',
    '[An image was left out: The image is not PNG, JPEG, GIF or WebP]',
  ])
  expect((await call('structured')).texts).toEqual(["[Tool 'structured' executed.]", '{"n":5}'])
})

test('a long result is cut, and is whole in a file', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: trial.program('sample.mjs') })
  const { texts, text } = await call('long', { length: 5_000_000 })
  expect(texts).toHaveLength(2)
  expect(text.length).toBeLessThan(51_000)
  expect(text.endsWith('end')).toBe(true)
  const file = must(/(\/\S+\.txt)/.exec(text)?.[1], 'a file')
  expect((await readFile(file, 'utf8')).length).toBe(5_000_003)
})

test('a server that dies in a call is reported with its last output and restarted by the next call', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: trial.program('sample.mjs') })
  const died = await call('exit')
  expect(died.is_error).toBe(true)
  expect(died.text).toMatch(/exited with 3; its last output: fatal: token <secret-hidden>/)
  const calls = await Promise.all(['1', '2', '3'].map((text) => call('echo', { text })))
  expect(calls.map(({ texts }) => texts[1])).toEqual(['1', '2', '3'])
  expect(await trial.livePids()).toHaveLength(1)
})

test('a server that does not come back fails each call', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: trial.program('sample.mjs') })
  await rm(join(trial.root, 'sample.mjs'))
  await call('exit')
  for (let time = 0; time < 2; time++) {
    const { is_error, text } = await call('echo', { text: 'x' })
    expect([is_error, text]).toEqual([true, expect.stringContaining('cannot be reached: it exited with 1')])
  }
})

test('a call without an answer ends after its time, and by an abort at once; the server hears of it', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: trial.program('sample.mjs') }, { callMs: 1000 })
  const late = await call('never')
  expect([late.is_error, late.text]).toEqual([true, 'The tool gave no answer within 1 seconds.'])
  await vi.waitFor(() => readFile(join(trial.root, 'cancelled')), waitOptions)
  await rm(join(trial.root, 'cancelled'))
  const { call: patient } = await trial.openServers({ sample: trial.program('sample.mjs') })
  const stop = new AbortController()
  const calling = patient('never', {}, stop.signal)
  setTimeout(() => stop.abort(), 300)
  await expect(calling).rejects.toThrow()
  await vi.waitFor(() => readFile(join(trial.root, 'cancelled')), waitOptions)
  expect((await patient('echo', { text: 'still here' })).texts[1]).toBe('still here')
})

test("a server's own time limit goes before the common one", async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers({ sample: sampleServer(trial, { timeout: 0.5 }) })
  expect((await call('never')).text).toContain('within 0.5 seconds')
})

test('a change of the tools is seen, once for many', async () => {
  await using trial = await McpFixtures.open(programs)
  const onChange = vi.fn()
  const { mcp, call } = await trial.openServers({ sample: trial.program('sample.mjs') }, { onChange })
  const before = mcp.tools.length
  await call('grow')
  await vi.waitFor(() => expect(mcp.tools.length).toBe(before + 1), waitOptions)
  expect(onChange).toHaveBeenCalledTimes(1)
  const grown = must(
    mcp.tools.find(({ name }) => name.startsWith('grown')),
    'the new tool',
  )
  expect((await call(grown.name)).texts[1]).toBe('new')
})

test.for([
  ['garbage between the lines', 'garbage', 'done'],
  ['a slow start', 'slow', 'done'],
  ['an answer of another form', 'odd', '{"surprise":true}'],
  ['a refusal with the code of a time-out', 'refuse', 'not today'],
  ['changes without end', 'flood', 'done'],
] as const)('%s is borne', async ([, mode, said]) => {
  await using trial = await McpFixtures.open(programs)
  const onChange = vi.fn()
  const { mcp, call } = await trial.openServers({ rude: trial.program('rude.mjs', mode) }, { onChange })
  expect(mcp.failures).toEqual([])
  for (let time = 0; time < 3; time++) expect((await call('work')).text).toContain(said)
  expect(onChange).not.toHaveBeenCalled()
})

test('a server that is not ready in time is reported and ended', async () => {
  await using trial = await McpFixtures.open(programs)
  const begun = Date.now()
  const { mcp } = await trial.openServers(
    { mute: trial.program('rude.mjs', 'mute'), deaf: trial.program('rude.mjs', 'deaf') },
    { startMs: 1500 },
  )
  expect(Date.now() - begun).toBeLessThan(15_000)
  expect(mcp.tools.map(({ name }) => name)).toEqual(['deaf_work'])
  expect(mcp.failures).toEqual([
    { server: 'mute', isUp: false, detail: expect.stringContaining('not ready within 1.5 seconds') },
  ])
})

test('invalid and too long tools are omitted and reported; endless pages are bounded', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp } = await trial.openServers({
    bad: trial.program('rude.mjs', 'bad-tools'),
    pages: trial.program('rude.mjs', 'pages'),
  })
  expect(mcp.tools.map(({ name }) => name).slice(0, 3)).toEqual(['bad_good', 'pages_t', 'pages_tx'])
  expect(mcp.tools.length).toBeLessThan(100)
  expect(mcp.failures.filter(({ server }) => server === 'bad')).toHaveLength(4)
  expect(mcp.failures.filter(({ server }) => server === 'pages')).toHaveLength(1)
})

test('half a line and a line without end do not hang', async () => {
  await using trial = await McpFixtures.open(programs)
  const { call } = await trial.openServers(
    { half: trial.program('rude.mjs', 'half'), endless: trial.program('rude.mjs', 'endless') },
    { callMs: 1000 },
  )
  expect((await call('half_work')).text).toContain('no answer within')
  const patient = await trial.openServers({ endless: trial.program('rude.mjs', 'endless') })
  expect((await patient.call('work')).text).toContain('a line of more than')
})

test('closing ends every server that was started, deaf ones too', async () => {
  await using trial = await McpFixtures.open(programs)
  const { mcp, call } = await trial.openServers({
    sample: trial.program('sample.mjs'),
    deaf: trial.program('rude.mjs', 'deaf'),
  })
  expect(await trial.livePids()).toHaveLength(1)
  await mcp.close()
  expect(await trial.livePids()).toEqual([])
  const { is_error, text } = await call('sample_echo', { text: 'x' })
  expect([is_error, text]).toEqual([true, expect.stringContaining('cannot be reached')])
  expect(await trial.livePids()).toEqual([])
})

test('an aborted start rejects and leaves nothing', async () => {
  await using trial = await McpFixtures.open(programs)
  const stop = new AbortController()
  const opening = trial.openServers(
    { sample: trial.program('sample.mjs'), mute: trial.program('rude.mjs', 'mute') },
    { signal: stop.signal },
  )
  setTimeout(() => stop.abort(), 700)
  await expect(opening).rejects.toThrow()
  expect(await trial.livePids()).toEqual([])
})

/** A real HTTP server of the protocol, in one of its two forms. */
class RemoteMcpServer implements AsyncDisposable {
  readonly #server: Server
  readonly requests: { method: string; authorization: string | undefined }[] = []
  /** When set, the next requests are answered with this status. */
  status: number | undefined
  readonly #sessions = new Map<string, StreamableHTTPServerTransport>()
  readonly #streams = new Map<string, SSEServerTransport>()

  private constructor(form: 'streamable' | 'sse') {
    this.#server = createServer((request, response) => {
      this.requests.push({ method: request.method ?? '', authorization: request.headers.authorization })
      if (this.status !== undefined) return response.writeHead(this.status).end('nothing')
      this.#answer(form, request, response).catch(() => response.destroy())
    })
  }

  static async listen(form: 'streamable' | 'sse', port = 0): Promise<RemoteMcpServer> {
    const far = new RemoteMcpServer(form)
    far.#server.listen(port, '127.0.0.1')
    await once(far.#server, 'listening')
    return far
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  dropConnections(): void {
    this.#server.closeAllConnections()
  }

  forgetSessions(): void {
    this.#sessions.clear()
  }

  async #answer(form: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (form === 'sse') return await this.#answerSse(request, response)
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? this.#sessions.get(id) : undefined
    if (known === undefined && id !== undefined) {
      response
        .writeHead(404)
        .end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}')
      return
    }
    const transport =
      known ??
      new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => {
          this.#sessions.set(id, transport)
        },
      })
    if (known === undefined) await createSdkServer().connect(transport as Transport)
    await transport.handleRequest(request, response)
  }

  async #answerSse(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'http://x')
    if (url.pathname === '/messages') {
      await this.#streams.get(url.searchParams.get('sessionId') ?? '')?.handlePostMessage(request, response)
    } else if (request.method === 'GET') {
      const transport = new SSEServerTransport('/messages', response)
      this.#streams.set(transport.sessionId, transport)
      await createSdkServer().connect(transport)
    } else response.writeHead(405).end()
  }

  async [Symbol.asyncDispose]() {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

function createSdkServer(): SdkServer {
  const server = new SdkServer({ name: 'far', version: '1' })
  server.registerTool('ping', {}, () => ({ content: [{ type: 'text', text: 'pong' }] }))
  server.registerTool('never', {}, () => new Promise(() => {}))
  server.registerTool('huge', {}, () => ({ content: [{ type: 'text', text: 'x'.repeat(40 * 1024 * 1024) }] }))
  return server
}

test('a server over HTTP gets its headers with secrets in place', async () => {
  await using trial = await McpFixtures.open(programs)
  await using far = await RemoteMcpServer.listen('streamable')
  const url = `http://127.0.0.1:${far.port}/mcp`
  const { call } = await trial.openServers({ far: { url, auth: '$TOKEN' } })
  expect((await call('ping')).texts[1]).toBe('pong')
  expect(new Set(far.requests.map(({ authorization }) => authorization))).toEqual(
    new Set(['Bearer hunter2hunter2']),
  )
  const basic = await trial.openServers({
    far: { url, auth: { strategy: 'basic', username: 'u', password: '$TOKEN' } },
  })
  expect(basic.mcp.failures).toEqual([])
  const encoded = Buffer.from('u:hunter2hunter2').toString('base64')
  expect(far.requests.at(-1)?.authorization).toBe(`Basic ${encoded}`)
  expect(trial.secrets.redact(encoded)).not.toContain(encoded)
  const wrong = await trial.openServers({ far: { url, auth: 'oauth' } })
  expect(wrong.mcp.failures).toEqual([
    { server: 'far', isUp: false, detail: expect.stringContaining('OAuth') },
  ])
})

test.for([
  ['by its transport', '/events', 'sse'],
  ['by its address', '/sse', undefined],
  ['because it knows nothing newer', '/any', undefined],
] as const)('a server of the older transport is reached %s', async ([, path, transport]) => {
  await using trial = await McpFixtures.open(programs)
  await using far = await RemoteMcpServer.listen('sse')
  const { mcp, call } = await trial.openServers({
    far: {
      url: `http://127.0.0.1:${far.port}${path}`,
      transport,
      headers: { authorization: 'Bearer $TOKEN' },
    },
  })
  expect(mcp.failures).toEqual([])
  expect((await call('ping')).texts[1]).toBe('pong')
  expect(far.requests.every(({ authorization }) => authorization === 'Bearer hunter2hunter2')).toBe(true)
})

test('a forgotten session and a restarted server fail once and reconnect', async () => {
  await using trial = await McpFixtures.open(programs)
  let far = await RemoteMcpServer.listen('streamable')
  const { port } = far
  const { call } = await trial.openServers({ far: { url: `http://127.0.0.1:${port}/mcp` } })
  far.forgetSessions()
  expect((await call('ping')).is_error).toBe(true)
  expect((await call('ping')).texts[1]).toBe('pong')
  await far[Symbol.asyncDispose]()
  expect((await call('ping')).text).toContain('broke')
  expect((await call('ping')).text).toContain('cannot be reached')
  far = await RemoteMcpServer.listen('streamable', port)
  expect((await call('ping')).texts[1]).toBe('pong')
  far.status = 500
  expect((await call('ping')).is_error).toBe(true)
  far.status = undefined
  await vi.waitFor(async () => expect((await call('ping')).is_error).toBe(false), waitOptions)
  await far[Symbol.asyncDispose]()
})

test('over HTTP a call ends by an abort at once, and a result without measure is refused', async () => {
  await using trial = await McpFixtures.open(programs)
  await using far = await RemoteMcpServer.listen('streamable')
  const { call } = await trial.openServers(
    { far: { url: `http://127.0.0.1:${far.port}/mcp` } },
    { callMs: 20_000 },
  )
  const stop = new AbortController()
  const calling = call('never', {}, stop.signal)
  setTimeout(() => stop.abort(), 200)
  await expect(calling).rejects.toThrow()
  expect((await call('ping')).texts[1]).toBe('pong')
  const huge = await call('huge')
  expect([huge.is_error, huge.text]).toEqual([true, expect.stringContaining('more than could be used')])
  expect((await call('ping')).texts.at(-1)).toBe('pong')
})

test.for(['streamable', 'sse'] as const)(
  'a server that breaks off a call fails at once: %s',
  async (form) => {
    await using trial = await McpFixtures.open(programs)
    await using far = await RemoteMcpServer.listen(form)
    const { call } = await trial.openServers({ far: { url: `http://127.0.0.1:${far.port}/${form}` } })
    const calling = call('never')
    setTimeout(() => far.dropConnections(), 300)
    const broken = await calling
    expect([broken.is_error, broken.text]).toEqual([true, expect.stringContaining('broke off its answer')])
    expect((await call('ping')).texts.at(-1)).toBe('pong')
  },
)

test('names are valid for models and unique', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ minLength: 1 }), fc.option(fc.string()))), (tools) => {
      const names = new Set<string>()
      for (const [tool, server] of tools) {
        const name = modelToolName(tool, server ?? undefined, names)
        expect(name).toMatch(/^[\w-]{1,64}$/)
        expect(names.has(name)).toBe(false)
        names.add(name)
      }
    }),
  )
  const long = 'x'.repeat(100)
  expect(modelToolName(long, undefined, new Set([long.slice(0, 64)]))).toBe(`${long.slice(0, 62)}_2`)
})
