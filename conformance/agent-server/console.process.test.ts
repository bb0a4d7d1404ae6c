import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startAgentServer } from '../support/agent-server.ts'
import { runCli, spawnCli } from '../support/cli.ts'

/** Signing in to the console of a running agent server. */

const directories: string[] = []
afterAll(async () => {
  for (const path of directories) await rm(path, { recursive: true, force: true })
})

async function createDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'slipway-console-'))
  directories.push(path)
  return path
}

async function start(data: string, env: Readonly<Record<string, string>> = {}) {
  const server = await startAgentServer(data, { SLIPWAY_NO_KEY: '', ...env })
  return { ...server, [Symbol.asyncDispose]: async () => void (await server.stop()) }
}

/** What a page of the server's origin sends once it has signed in. */
async function signIn(url: string, body: object) {
  const page = { origin: url, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
  const response = await fetch(`${url}/console/session`, {
    method: 'POST',
    headers: page,
    body: JSON.stringify(body),
  })
  const { proof = '' } = (await response.json()) as { proof?: string }
  const [cookie = ''] = (response.headers.get('set-cookie') ?? '').split(';')
  return { status: response.status, proof, cookie, headers: { ...page, cookie, 'x-console-proof': proof } }
}

const statusOf = async (url: string, init: RequestInit) => {
  const response = await fetch(url, init)
  await response.body?.cancel()
  return response.status
}

function openSocket(address: string, headers: Record<string, string>): Promise<number> {
  return new Promise((done) => {
    const ws = new WebSocket(address, { headers })
    ws.on('unexpected-response', (_, { statusCode = 0 }) => done(statusCode)).on('error', () => {})
    ws.on('open', () => ws.close(1000)).on('close', done)
  })
}

test('behind a proxy the server names the address of its console there', async () => {
  const data = await createDirectory()
  const child = spawnCli(['serve', '--port', '0', '--data', data], {
    SLIPWAY_WEB_URL: 'https://example.org/agent/',
    SLIPWAY_LOG_LEVEL: 'error',
  })
  let printed = ''
  for await (const chunk of child.stdout) {
    printed += chunk
    if (printed.includes('Ctrl-C stops it.')) break
  }
  child.kill()
  expect(printed).toContain('  console   https://example.org/agent/\n')
  expect(printed).not.toContain('#token=')
  await once(child, 'close')
})

test('a link signs in once; the session reaches calls, streams and sockets, and outlives a restart', async () => {
  const data = await createDirectory()
  const id = crypto.randomUUID()
  let headers: Record<string, string> = {}
  let proof = ''
  {
    await using server = await start(data)
    const { url } = server
    const key = (await readFile(join(data, 'session.key'), 'utf8')).trim()
    const { stdout, code } = await runCli(['--url', url, 'open', '--data', data, '--no-browser'])
    expect(code).toBe(0)
    const [address = '', token = ''] = stdout.trim().split('#token=')
    expect(address).toBe(`${url}/`)
    const session = await signIn(url, { token })
    ;({ headers, proof } = session)
    expect(session.status).toBe(200)
    expect((await signIn(url, { token })).status).toBe(401)
    expect(JSON.stringify(session) + stdout).not.toContain(key)
    const lines = `${JSON.stringify({ conversation_id: id })}\n`
    const ndjson = { 'content-type': 'application/x-ndjson' }
    const imported = await statusOf(`${url}/api/conversations/import`, {
      method: 'POST',
      headers: { ...headers, ...ndjson },
      body: lines,
    })
    expect(imported).toBeLessThan(300)
    expect(await statusOf(`${url}/api/conversations/${id}/events/stream?until=idle`, { headers })).toBe(200)
    const socket = `${url.replace('http', 'ws')}/sockets/events/${id}?console_proof=${proof}`
    expect(await openSocket(socket, { cookie: headers.cookie ?? '', origin: url })).toBe(1000)
    expect(await openSocket(socket, { cookie: headers.cookie ?? '', origin: 'http://127.0.0.1:9' })).toBe(403)
    expect((await stat(join(data, 'console.sessions'))).mode & 0o077).toBe(0)
    const stored = await readFile(join(data, 'console.sessions'), 'utf8')
    for (const secret of [key, proof, headers.cookie?.split('=')[1] ?? ''])
      expect(stored).not.toContain(secret)
  }
  {
    await using server = await start(data)
    const { url } = server
    // Another port is another origin for the guard; the two halves are what they were.
    const moved = { ...headers, origin: url }
    expect(await statusOf(`${url}/api/conversations/${id}`, { headers: moved })).toBe(200)
    expect(await statusOf(`${url}/console/session`, { method: 'DELETE', headers: moved })).toBe(200)
    expect(await statusOf(`${url}/api/conversations/${id}`, { headers: moved })).toBe(401)
  }
  await using server = await start(data)
  const moved = { ...headers, origin: server.url }
  expect(await statusOf(`${server.url}/api/conversations/${id}`, { headers: moved })).toBe(401)
}, 120_000)

test('a session ends with the key that it was made with', async () => {
  const data = await createDirectory()
  let headers: Record<string, string> = {}
  {
    await using server = await start(data, { SLIPWAY_SESSION_API_KEY: 'the-first-key-of-this-server' })
    ;({ headers } = await signIn(server.url, { key: 'the-first-key-of-this-server' }))
    expect(await statusOf(`${server.url}/api/conversations/count`, { headers })).toBe(200)
  }
  await using server = await start(data, { SLIPWAY_SESSION_API_KEY: 'the-other-key-of-this-server' })
  const moved = { ...headers, origin: server.url }
  expect(await statusOf(`${server.url}/api/conversations/count`, { headers: moved })).toBe(401)
}, 120_000)

test('a server without a key says that none is needed', async () => {
  await using server = await start(await createDirectory(), { SLIPWAY_NO_KEY: '1' })
  const session = await (await fetch(`${server.url}/console/session`)).json()
  expect(session).toMatchObject({ server: 'agent', auth_required: false, signed_in: false })
  const { stdout } = await runCli(['--json', '--url', server.url, 'open', '--no-browser'])
  expect(JSON.parse(stdout)).toEqual({ url: `${server.url}/`, expires_at: null })
}, 120_000)
