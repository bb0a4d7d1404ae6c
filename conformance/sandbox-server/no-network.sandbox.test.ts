import { mkdtemp, readlink, realpath, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest'
import { WebSocket } from 'ws'
import { bashStep as command, scriptedModel } from '../support/agent-driver.ts'
import { fetchInSandbox, runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import type { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  createUser,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/** Sandboxes without a network, from outside: all traffic passes through two Unix sockets. */

const limit = { timeout: 120_000 }
const textSteps = Array.from({ length: 9 }, (_, n) => ({ text: `Answer ${n}.` }))

/** A server of the host that no sandbox may reach through a proxy: it counts connections. */
interface Decoy {
  readonly path: string
  count: number
}

let directory: string
let decoy: Decoy
const servers: Server[] = []
let fixture: SandboxServerFixture
let server: SandboxServer
let user: User
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-apart-')))
  decoy = { path: join(directory, 'decoy.sock'), count: 0 }
  await listenAndCount((count) => {
    decoy.count = count
  }, decoy.path)
  const evil = [process.execPath, '-e', symlinkSwapServer(decoy.path), '--']
  const specs = [
    { id: 'apart', network: 'none' },
    { id: 'evil', network: 'none', command: evil },
  ]
  fixture = await openSandboxServer({ env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs) } })
  server = fixture.server
  user = await createUser(server)
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
  for (const one of servers) one.close()
  await rm(directory, { recursive: true, force: true })
}, 120_000)

/** Replies with the number of connections. Returns where it listens, on a path or on a port of loopback. */
async function listenAndCount(onConnection: (count: number) => void, path?: string): Promise<number> {
  let count = 0
  const one = createServer((socket) => {
    onConnection(++count)
    socket.destroy()
  })
  servers.push(one)
  await new Promise<void>((resolve) =>
    path === undefined ? one.listen(0, '127.0.0.1', resolve) : one.listen(path, resolve),
  )
  const address = one.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

/** A fake agent server that keeps replacing its socket with a link to a socket of the host. */
function symlinkSwapServer(target: string): string {
  return `
    const fs = require('node:fs')
    const place = '/data/agent.sock'
    require('node:http').createServer((request, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(request.url === '/ready' ? '{"status":"ready"}' : '0')
    }).listen('/data/real.sock', () => {
      const turns = [
        () => fs.symlinkSync(${JSON.stringify(target)}, '/data/next'),
        () => fs.linkSync('/data/real.sock', '/data/next'),
        () => fs.symlinkSync('real.sock', '/data/next'),
      ]
      let at = 0
      setInterval(() => {
        for (let n = 0; n < 5; n++) {
          turns[at++ % turns.length]()
          fs.renameSync('/data/next', place)
        }
      }, 1)
    })`
}

/** Such sandboxes require bubblewrap. */
async function requireBubblewrap(context: TestContext): Promise<void> {
  const { backends } = await user.get<{ backends: { isolation: { kind: string } }[] }>('/server_info')
  context.skip(backends[0]?.isolation.kind !== 'namespaces', 'bubblewrap does not work here')
}

test(
  'a conversation without a network is reached through the relay, and its events are ingested',
  limit,
  async (context) => {
    await requireBubblewrap(context)
    let callers = 0
    const port = await listenAndCount((count) => {
      callers = count
    })
    const dial = (host: string, to: number) =>
      `(timeout 5 bash -c 'exec 3<>/dev/tcp/${host}/${to}' 2>/dev/null && echo "${host} open" || echo "${host} shut")`
    const look = [
      dial('127.0.0.1', port),
      dial('127.0.0.1', server.port),
      dial('192.0.2.1', 80),
      `echo "links: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | xargs)"`,
    ].join('; ')
    await user.setModel(scriptedModel([command(look), { text: 'I have looked.' }, ...textSteps]))
    const { id, sandbox_id } = await user.createConversation({
      sandbox_spec_id: 'apart',
      initial_message: { content: 'Look around.' },
    })
    await user.waitForMessage(id, 'I have looked.')
    const path = `/api/v1/conversation/${id}/events/search?kind__eq=ObservationEvent`
    const seen = JSON.stringify((await user.get<ListPage<unknown>>(path)).items)
    expect(seen).toContain('127.0.0.1 shut\\n127.0.0.1 shut\\n192.0.2.1 shut\\nlinks: lo')
    expect(callers).toBe(0)

    const box = await user.waitForSandbox(sandbox_id, 'RUNNING')
    const url = `${server.url}/sandboxes/${sandbox_id}/agent`
    const [exposed, ...more] = box.exposed_urls ?? []
    expect(exposed?.url).toBe(`http://127.0.0.1:${exposed?.port}`)
    expect([exposed?.name, more]).toEqual(['AGENT_SERVER', []])
    const there = await (await fetchInSandbox(box, `/api/conversations/${id}/export`)).text()
    await waitFor('all events are ingested', async () => ((await exportLog(id)) === there ? true : undefined))
    const frames = await collectFrames(`${url}/sockets/events/${id}?after=0`, String(box.session_api_key))
    await user.sendMessage(id, 'Do you hear me?')
    await waitFor('the socket sends the reply', async () =>
      frames.some((frame) => frame.includes('Answer 0.')) ? true : undefined,
    )

    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
    await server.stop('SIGKILL')
    await server.start()
    expect((await user.getSandbox(sandbox_id))?.status).toBe('PAUSED')
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await user.waitForSandbox(sandbox_id, 'RUNNING')
    expect(await user.sendMessage(id, 'And now?')).toMatchObject({ status: 200 })
    await user.waitForMessage(id, 'Answer 1.')
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
    await server.waitUntilGone(sandbox_id)
  },
)

test(
  'whatever a sandbox puts in place of its socket, no request reaches a socket of the host',
  limit,
  async (context) => {
    await requireBubblewrap(context)
    await user.setModel(scriptedModel(textSteps))
    const { id, sandbox_id } = await user.createConversation({ sandbox_spec_id: 'apart' })
    const box = await user.waitForSandbox(sandbox_id, 'RUNNING')
    await runInSandbox(box, `ln -s ${decoy.path} /data/next && mv -T /data/next /data/agent.sock`)
    const name = join(server.data, 'sandboxes', sandbox_id, 'files', 'data', 'agent.sock')
    expect(await readlink(name)).toBe(decoy.path)
    expect(await user.sendMessage(id, 'Do you hear me?')).toMatchObject({ status: 200 })
    await user.waitForMessage(id, 'Answer 0.')
    await server.stop('SIGKILL')
    await server.start()
    expect(await user.sendMessage(id, 'And now?')).toMatchObject({ status: 200 })
    await user.waitForMessage(id, 'Answer 1.')
    // After a resume it has a new socket.
    await runInSandbox(box, `(sleep 0.2; kill -9 $PPID) >/dev/null 2>&1 &`).catch(() => undefined)
    await user.waitForSandbox(sandbox_id, 'ERROR')
    expect(await readlink(name)).toBe(decoy.path)
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await user.waitForSandbox(sandbox_id, 'RUNNING')
    expect(await user.sendMessage(id, 'And then?')).toMatchObject({ status: 200 })
    await user.waitForMessage(id, 'Answer 2.')
    expect(decoy.count).toBe(0)
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
  },
)

test('a sandbox that keeps swapping its socket for a link gains no access', limit, async (context) => {
  await requireBubblewrap(context)
  for (let round = 0; round < 2; round++) {
    const { id } = await user.requestOrThrow<{ id: string }>('POST', '/api/v1/sandboxes?sandbox_spec_id=evil')
    const box = await user.waitForSandbox(id, 'RUNNING')
    for (let n = 0; n < 50; n++) {
      const response = await fetchInSandbox(box, '/api/conversations/count')
      expect([response.status, await response.text()]).toEqual([200, '0'])
    }
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${id}`)
    await server.waitUntilGone(id)
  }
  expect(decoy.count).toBe(0)
})

/** The log of a conversation as the server has it. */
async function exportLog(id: string): Promise<string> {
  const headers = { authorization: `Bearer ${user.key}` }
  return await (await server.fetch(`/api/v1/conversation/${id}/events/export`, { headers })).text()
}

/** Every frame of a socket from now on. */
async function collectFrames(url: string, key: string): Promise<readonly string[]> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers: { 'x-session-api-key': key } })
  const frames: string[] = []
  socket.on('message', (data) => void frames.push(String(data)))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  socket.on('error', () => {})
  return frames
}
