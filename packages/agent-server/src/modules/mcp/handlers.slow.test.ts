import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mcpRoutes } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { sealText } from '../../core/secrets/sealed-text.ts'
import { openTestServer } from '../../testing/test-server.ts'
import { mcpHandlers } from './handlers.ts'
import { McpOAuthJobs } from './mcp-oauth-jobs.ts'
import { testMcpServer } from './mcp-probe.ts'

const path = '/api/mcp/test'
const canary = 'canary-4711-0815'

/** A server in plain lines: with `mute` it says nothing; its tool says what its environment is. */
const program = `
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
const [, , mode, at] = process.argv
if (at !== undefined) writeFileSync(at, String(process.pid))
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (mode === 'mute') return
  if (method === 'initialize') send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } })
  if (method === 'tools/list') send(id, { tools: [{ name: 'env', inputSchema: { type: 'object' } }] })
  if (method === 'tools/call') send(id, { content: [{ type: 'text', text: params.arguments.length + ' of ' + process.env.SERVICE_TOKEN?.length + ' ' + process.env.SERVICE_TOKEN }] })
})
`

async function openServer() {
  const environment = { PATH: '/nothing' }
  const jobs = new McpOAuthJobs((request, signal) => testMcpServer(request, environment, signal))
  const registry = { get: async () => Promise.reject(new Error('no conversation')) }
  const server = await openTestServer(mcpRoutes, ({ cipher }) =>
    mcpHandlers({ cipher, environment, jobs, registry }),
  )
  const file = join(server.directory, 'program.mjs')
  await writeFile(file, program)
  return {
    ...server,
    stdio: (more: object = {}, mode = '') => ({
      type: 'stdio',
      command: process.execPath,
      args: [file, mode],
      ...more,
    }),
    test: (server_: unknown, more: object = {}) =>
      server.call('POST', path, { server: server_, timeout: 20, ...more }),
  }
}

const tool_call = { name: 'env', arguments: { length: 7 } }

test('a server is tested by its type or as settings describe it, with the result of a tool call', async () => {
  await using server = await openServer()
  const { stdio, test: tried } = server
  const env = { SERVICE_TOKEN: canary }
  expect(await tried(stdio())).toEqual({ status: 200, json: { ok: true, tools: ['env'] } })
  const { type: _, ...native } = stdio({ env, enabled: true, icon: null, timeout: 5, url: null })
  expect(await tried(native, { name: 'mine', tool_call })).toEqual({
    status: 200,
    json: {
      ok: true,
      tools: ['env'],
      tool_result: { is_error: false, text: '7 of 16 <secret-hidden>' },
    },
  })
  expect(await server.collectOutput()).not.toContain(canary)
})

test('sealed secrets are accepted', async () => {
  await using server = await openServer()
  const env = { SERVICE_TOKEN: sealText(server.cipher, canary) }
  expect(await server.test(server.stdio({ env }), { tool_call })).toMatchObject({
    json: { ok: true, tool_result: { text: '7 of 16 <secret-hidden>' } },
  })
  const other = { SERVICE_TOKEN: 'slipway-sealed-AAAA' }
  expect(await server.test(server.stdio({ env: other }))).toMatchObject({
    status: 422,
    json: { detail: [{ loc: ['body', 'server', 'env', 'SERVICE_TOKEN'] }] },
  })
  expect(await server.collectOutput()).not.toContain(canary)
})

test('a failure is an answer with its kind', async () => {
  await using server = await openServer()
  const failed = (error_kind: string) => ({
    status: 200,
    json: { ok: false, error: expect.stringMatching(/\w/), error_kind },
  })
  const { stdio, test: tried } = server
  expect(await tried(stdio({}, 'mute'), { timeout: 0.5 })).toEqual(failed('timeout'))
  expect(await tried(stdio({ command: '/nothing/here' }))).toEqual(failed('connection'))
  expect(await tried({ type: 'sse', url: 'http://127.0.0.1:1/sse' })).toEqual(failed('connection'))
  expect(await tried({ url: 'http://127.0.0.1:1/mcp' })).toEqual(failed('connection'))
  expect(await tried({ type: 'http', url: 'nowhere' })).toEqual(failed('unknown'))
  const oauth = { type: 'http', url: 'http://127.0.0.1:1', auth: { strategy: 'oauth2' } }
  expect(await tried(oauth)).toEqual(failed('unknown'))
})

test('a process does not outlive the request of its client', async () => {
  await using server = await openServer()
  const at = join(server.directory, 'pid')
  const { command, args } = server.stdio({}, 'mute')
  const body = { server: { type: 'stdio', command, args: [...args, at] }, timeout: 120 }
  const stop = new AbortController()
  const asked = fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: stop.signal,
  })
  const patience = { timeout: 20_000, interval: 50 }
  const pid = await vi.waitFor(async () => Number((await readFile(at, 'utf8')) || expect.fail()), patience)
  stop.abort()
  await expect(asked).rejects.toThrow()
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow(), patience)
})

test('an invalid server is refused with its place and not echoed', async () => {
  await using server = await openServer()
  const bad: readonly (readonly [unknown, (string | number)[]])[] = [
    [undefined, ['server']],
    [null, ['server']],
    [{}, ['server', 'type']],
    [{ command: 'a', url: 'b' }, ['server', 'type']],
    [{ type: 'pigeon', url: 'x' }, ['server', 'type']],
    [{ type: 'stdio' }, ['server', 'command']],
    [{ type: 'stdio', command: '' }, ['server', 'command']],
    [{ type: 'stdio', command: 'a', args: 'b' }, ['server', 'args']],
    [{ type: 'stdio', command: 'a', env: { TOKEN: [canary] } }, ['server', 'env', 'TOKEN']],
    [{ type: 'stdio', command: 'a', more: canary }, ['server', 'more']],
    [{ type: 'http', url: 'x', command: 'a' }, ['server', 'command']],
    [{ url: 'x', headers: { a: 7 } }, ['server', 'headers', 'a']],
    [{ url: 'x', auth: 7 }, ['server', 'auth']],
  ]
  for (const [one, loc] of bad)
    expect([one, await server.test(one)]).toMatchObject([
      one,
      { status: 422, json: { detail: [{ loc: ['body', ...loc] }] } },
    ])
  const good = { type: 'http', url: 'nowhere' }
  for (const more of [
    { timeout: 0 },
    { timeout: 121 },
    { timeout: 'x' },
    { name: '' },
    { name: 'x'.repeat(129) },
    { tool_call: { arguments: {} } },
    { tool_call: { name: 'x', arguments: [] } },
  ])
    expect([more, (await server.test(good, more)).status]).toEqual([more, 422])
  const odd = { type: 'stdio', command: 'a\0b', args: [] }
  expect(await server.test(odd)).toMatchObject({ status: 200, json: { ok: false } })
  expect(await server.collectOutput()).not.toContain('canary')
})

test('a sign-in without OAuth is refused, and an unknown one is not found', async () => {
  await using server = await openServer()
  const { call } = server
  const start = await call('POST', '/api/mcp/oauth/start', { server: { url: 'https://x.example/mcp' } })
  expect(start).toEqual({
    status: 400,
    json: { detail: "MCP OAuth start requires auth.strategy='oauth2'" },
  })
  expect((await call('GET', '/api/mcp/oauth/status/1')).status).toBe(404)
  const callback_url = 'http://127.0.0.1/?code=x'
  expect((await call('POST', '/api/mcp/oauth/callback/1', { callback_url })).status).toBe(404)
  expect((await call('POST', '/api/mcp/oauth/callback/1', {})).status).toBe(422)
})

test('any JSON, and any header or variable, gets a status below 500', {
  timeout: 60_000,
}, async () => {
  await using server = await openServer()
  const texts = fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), { maxKeys: 3 })
  const text = fc.string({ unit: 'binary', minLength: 1 })
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), text, texts, async (json, text, texts) => {
      expect((await server.call('POST', path, json)).status).toBe(422)
      for (const one of [
        { type: 'http', url: JSON.stringify(json), auth: json, headers: json },
        { type: 'sse', url: `http://127.0.0.1:1/${text}`, auth: text, headers: texts },
        { type: 'stdio', command: '/nothing/here', args: [text], env: texts, cwd: text },
        { type: 'stdio', command: text, args: [], env: texts },
      ])
        expect((await server.test(one, { timeout: 5, name: text.slice(0, 20) })).status).toBeLessThan(500)
    }),
    { numRuns: 40 },
  )
})
