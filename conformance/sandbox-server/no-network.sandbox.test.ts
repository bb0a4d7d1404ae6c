import { mkdtemp, readlink, realpath, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest'
import { WebSocket } from 'ws'
import { bash as command, scripted } from '../support/agent-driver.ts'
import { bash, inside } from '../support/sandbox-server/crash-rounds.ts'
import type { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  eventually,
  makeUser,
  openPlace,
  type PageOf,
  type Place,
  type User,
} from '../support/sandbox-server/user.ts'

/** Sandboxes without a network, from outside: all that goes in and out goes through two Unix sockets. */

const limit = { timeout: 120_000 }
const chat = Array.from({ length: 9 }, (_, n) => ({ text: `Answer ${n}.` }))

/** A server of the host that no sandbox may get anybody to talk to: it counts who comes. */
interface Decoy {
  readonly path: string
  count: number
}

let directory: string
let decoy: Decoy
const servers: Server[] = []
let place: Place
let server: SandboxServer
let user: User
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-apart-')))
  decoy = { path: join(directory, 'decoy.sock'), count: 0 }
  await listening((count) => {
    decoy.count = count
  }, decoy.path)
  const evil = [process.execPath, '-e', flipping(decoy.path), '--']
  const specs = [
    { id: 'apart', network: 'none' },
    { id: 'evil', network: 'none', command: evil },
  ]
  place = await openPlace({ env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs) } })
  server = place.server
  user = await makeUser(server)
}, 60_000)
afterAll(async () => {
  await place?.[Symbol.asyncDispose]()
  for (const one of servers) one.close()
  await rm(directory, { recursive: true, force: true })
}, 120_000)

/** Says how many have connected, after each. Answers where it listens, on a path or on a port of loopback. */
async function listening(say: (count: number) => void, path?: string): Promise<number> {
  let count = 0
  const one = createServer((socket) => {
    say(++count)
    socket.destroy()
  })
  servers.push(one)
  await new Promise<void>((resolve) =>
    path === undefined ? one.listen(0, '127.0.0.1', resolve) : one.listen(path, resolve),
  )
  const address = one.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

/** An agent server, as far as anybody asks, in whose place there is a link to a socket of the host every other moment. */
function flipping(target: string): string {
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

/** Without bubblewrap there are no such sandboxes. */
async function needsWalls(context: TestContext): Promise<void> {
  const { backends } = await user.get<{ backends: { isolation: { kind: string } }[] }>('/server_info')
  context.skip(backends[0]?.isolation.kind !== 'namespaces', 'bubblewrap does not work here')
}

test(
  'a conversation without a network is had through the relay, and its events come home',
  limit,
  async (context) => {
    await needsWalls(context)
    let callers = 0
    const port = await listening((count) => {
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
    await user.setModel(scripted([command(look), { text: 'I have looked.' }, ...chat]))
    const { id, sandbox_id } = await user.ready({
      sandbox_spec_id: 'apart',
      initial_message: { content: 'Look around.' },
    })
    await user.untilSaid(id, 'I have looked.')
    const path = `/api/v1/conversation/${id}/events/search?kind__eq=ObservationEvent`
    const seen = JSON.stringify((await user.get<PageOf<unknown>>(path)).items)
    expect(seen).toContain('127.0.0.1 shut\\n127.0.0.1 shut\\n192.0.2.1 shut\\nlinks: lo')
    expect(callers).toBe(0)

    const box = await user.sandboxUntil(sandbox_id, 'RUNNING')
    const url = `${server.url}/sandboxes/${sandbox_id}/agent`
    expect(box.exposed_urls).toEqual([{ name: 'AGENT_SERVER', url, port: server.port }])
    const there = await (await inside(box, `/api/conversations/${id}/export`)).text()
    await eventually('all of it is home', async () => ((await log(id)) === there ? true : undefined))
    const frames = await followed(`${url}/sockets/events/${id}?after=0`, String(box.session_api_key))
    await user.send(id, 'Do you hear me?')
    await eventually('the answer is told on the socket', async () =>
      frames.some((frame) => frame.includes('Answer 0.')) ? true : undefined,
    )

    await user.must('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
    await server.stop('SIGKILL')
    await server.start()
    expect((await user.sandbox(sandbox_id))?.status).toBe('PAUSED')
    await user.must('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await user.sandboxUntil(sandbox_id, 'RUNNING')
    expect(await user.send(id, 'And now?')).toMatchObject({ status: 200 })
    await user.untilSaid(id, 'Answer 1.')
    await user.must('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
    await server.untilGone(sandbox_id)
  },
)

test(
  'whatever a sandbox puts in the place of its socket, nobody is led to a socket of the host',
  limit,
  async (context) => {
    await needsWalls(context)
    await user.setModel(scripted(chat))
    const { id, sandbox_id } = await user.ready({ sandbox_spec_id: 'apart' })
    const box = await user.sandboxUntil(sandbox_id, 'RUNNING')
    await bash(box, `ln -s ${decoy.path} /data/next && mv -T /data/next /data/agent.sock`)
    const name = join(server.data, 'sandboxes', sandbox_id, 'files', 'data', 'agent.sock')
    expect(await readlink(name)).toBe(decoy.path)
    expect(await user.send(id, 'Do you hear me?')).toMatchObject({ status: 200 })
    await user.untilSaid(id, 'Answer 0.')
    await server.stop('SIGKILL')
    await server.start()
    expect(await user.send(id, 'And now?')).toMatchObject({ status: 200 })
    await user.untilSaid(id, 'Answer 1.')
    // Its end is a new start, with a socket of its own again.
    await bash(box, `(sleep 0.2; kill -9 $PPID) >/dev/null 2>&1 &`).catch(() => undefined)
    await user.sandboxUntil(sandbox_id, 'ERROR')
    expect(await readlink(name)).toBe(decoy.path)
    await user.must('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await user.sandboxUntil(sandbox_id, 'RUNNING')
    expect(await user.send(id, 'And then?')).toMatchObject({ status: 200 })
    await user.untilSaid(id, 'Answer 2.')
    expect(decoy.count).toBe(0)
    await user.must('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
  },
)

test(
  'a sandbox that changes its socket for a link and back all the time gains nothing',
  limit,
  async (context) => {
    await needsWalls(context)
    for (let round = 0; round < 2; round++) {
      const { id } = await user.must<{ id: string }>('POST', '/api/v1/sandboxes?sandbox_spec_id=evil')
      const box = await user.sandboxUntil(id, 'RUNNING')
      for (let n = 0; n < 50; n++) {
        const response = await inside(box, '/api/conversations/count')
        expect([response.status, await response.text()]).toEqual([200, '0'])
      }
      await user.must('DELETE', `/api/v1/sandboxes/${id}`)
      await server.untilGone(id)
    }
    expect(decoy.count).toBe(0)
  },
)

/** The log of a conversation as the server has it. */
async function log(id: string): Promise<string> {
  const headers = { authorization: `Bearer ${user.key}` }
  return await (await server.fetch(`/api/v1/conversation/${id}/events/export`, { headers })).text()
}

/** Every frame of a socket from now on. */
async function followed(url: string, key: string): Promise<readonly string[]> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers: { 'x-session-api-key': key } })
  const frames: string[] = []
  socket.on('message', (data) => void frames.push(String(data)))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  socket.on('error', () => {})
  return frames
}
