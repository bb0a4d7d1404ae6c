import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, beforeAll, describe, expect, onTestFinished, type TestContext, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { fetchInSandbox, runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { findProcesses } from '../support/sandbox-server/process-resources.ts'
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import { openSandboxServer, type SandboxServerFixture, waitFor } from '../support/sandbox-server/user.ts'

/** What a program in a sandbox reaches of the machine and of other sandboxes. */

const limit = { timeout: 180_000 }
const ordinaryUser = 65_534
const users: readonly (readonly [string, number | undefined])[] = [
  ['the user of the tests', undefined],
  ['an ordinary user', ordinaryUser],
]

describe.for(users)('the server runs as %s', ([, uid]) => {
  let fixture: SandboxServerFixture | undefined
  let server: SandboxServer
  let reason = ''
  let openPort: number
  let first: SandboxInfo
  /**
   * Of the machine, without container networks: those that come after the start of the sandbox are not
   * blocked.
   */
  let addresses: readonly string[]
  beforeAll(async () => {
    reason = cannotRunAs(uid)
    if (reason !== '') return
    const own = Object.entries(networkInterfaces()).flatMap(([name, each = []]) =>
      /^(?:docker|br-|podman|cni|veth|slipway)/.test(name) ? [] : each,
    )
    addresses = own.filter(({ family }) => family === 'IPv4').map(({ address }) => address)
    openPort = await freePort()
    const specs = [{ id: 'walled' }, { id: 'open', host_ports: [openPort] }]
    fixture = await openSandboxServer({
      env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs), SLIPWAY_SANDBOX_NETWORK: 'private' },
      ...(uid === undefined ? {} : { uid }),
    }).catch((error: unknown) => {
      // The server says that networks of their own cannot be had here.
      reason = String(error)
      if (!reason.includes('Install passt') && !reason.includes('Install bubblewrap')) throw error
      return undefined
    })
    if (fixture === undefined) return
    server = fixture.server
    first = await server.startRunningSandbox()
  }, 180_000)
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]()
  }, 180_000)
  const requireNetworks = (context: TestContext) => context.skip(reason !== '', reason)

  test(
    'no service of the machine is reached: loopback, its addresses, link-local',
    limit,
    async (context) => {
      requireNetworks(context)
      const service = await listenAndCount('0.0.0.0')
      const inspector = await startInspector()
      for (const address of new Set(['127.0.0.1', ...addresses]))
        expect(await dial(first, address, service.port)).toBe('shut')
      expect(await dial(first, '127.0.0.1', inspector)).toBe('shut')
      expect(await dial(first, '127.0.0.1', server.port)).toBe('shut')
      expect(service.count()).toBe(0)
      const metadata =
        'ip route get 169.254.169.254 || echo blocked; ip -6 route get fe80::1%lo || echo blocked'
      expect((await runInSandbox(first, `${metadata}; true`)).match(/blocked/g)).toHaveLength(2)
      // There is a way out, which it cannot change.
      expect(await runInSandbox(first, 'ip route show default')).toContain('default')
      expect(await runInSandbox(first, 'ip route flush all && echo changed; true')).not.toContain('changed')
    },
  )

  test('a named port of the machine is reached, and no other', limit, async (context) => {
    requireNetworks(context)
    const named = await listenAndCount('127.0.0.1', openPort)
    const other = await listenAndCount('127.0.0.1')
    const box = await server.startRunningSandbox('?sandbox_spec_id=open')
    expect(await dial(box, '127.0.0.1', other.port)).toBe('shut')
    expect(await dial(box, '127.0.0.1', named.port)).toBe('open')
    await waitFor('the connection arrives', async () => (named.count() > 0 ? true : undefined))
    expect(other.count()).toBe(0)
    await remove(server, box.id)
  })

  test('holding every port neither stops another sandbox nor yields its key', limit, async (context) => {
    requireNetworks(context)
    const thief = `
      const { createServer } = require('node:net')
      const fs = require('node:fs')
      let pending = 12000
      for (let port = 20000; port < 32000; port++) {
        const server = createServer((socket) => socket.on('data', (part) => fs.appendFileSync('/tmp/loot', part)))
        const done = () => --pending === 0 && fs.writeFileSync('/tmp/ready', '')
        server.on('error', done).listen(port, '0.0.0.0', done)
      }`
    const encoded = Buffer.from(thief).toString('base64')
    await runInSandbox(
      first,
      `echo ${encoded} | base64 -d > /tmp/thief.js; (exec -a thief ${process.execPath} /tmp/thief.js >/tmp/thief.log 2>&1 &)`,
    )
    await waitFor('the ports are held', async () =>
      (await runInSandbox(first, 'ls /tmp/ready; true')).includes('ready') ? true : undefined,
    )
    const second = await server.startRunningSandbox()
    for (const address of ['127.0.0.1', '$(hostname -I)'])
      expect(await dial(second, address, 20_001)).toBe('shut')
    expect(await runInSandbox(first, 'cat /tmp/loot; true')).toBe('')
    await remove(server, second.id)
  })

  test('each start of the processes has its own key; a pause keeps it', limit, async (context) => {
    requireNetworks(context)
    const box = await server.startRunningSandbox()
    await server.requestJson('POST', `/api/v1/sandboxes/${box.id}/pause`)
    await server.requestJson('POST', `/api/v1/sandboxes/${box.id}/resume`)
    const resumed = await server.waitForStatus(box.id, 'RUNNING')
    expect(resumed.session_api_key).toBe(box.session_api_key)
    await runInSandbox(resumed, '(sleep 0.2; kill -9 $PPID) >/dev/null 2>&1 &').catch(() => undefined)
    await server.waitForStatus(box.id, 'ERROR')
    await server.requestJson('POST', `/api/v1/sandboxes/${box.id}/resume`)
    const again = await server.waitForStatus(box.id, 'RUNNING')
    expect(again.session_api_key).not.toBe(box.session_api_key)
    const count = (key: string | null) =>
      fetchInSandbox(again, '/api/conversations/count', { headers: { 'x-session-api-key': String(key) } })
    expect((await count(box.session_api_key)).status).toBe(401)
    expect((await count(again.session_api_key)).status).toBe(200)
    await remove(server, box.id)
  })

  test('nothing of its network outlives a sandbox, however it ends', limit, async (context) => {
    requireNetworks(context)
    for (const end of ['delete', 'kill'] as const) {
      const box = await server.startRunningSandbox()
      const all = await findProcesses(`${server.data}/sandboxes/${box.id}`)
      const network = all.find(({ command }) => /^\S*pasta/.test(command))
      const supervisor = all.find(({ command }) => command.startsWith('/bin/sh -c'))
      expect([network, supervisor]).not.toContain(undefined)
      // The server dies first: nothing may depend on it.
      await server.stop('SIGKILL')
      if (end === 'kill') process.kill(supervisor?.pid ?? 0, 'SIGKILL')
      else await server.start()
      if (end === 'delete') await remove(server, box.id)
      await waitFor('the network has ended', async () => (isAlive(network?.pid ?? 0) ? undefined : true))
      if (end === 'kill') {
        await server.start()
        await server.waitForStatus(box.id, 'ERROR')
        await remove(server, box.id)
      }
    }
  })
})

/** Why the tests cannot run as this user; empty when they can. */
function cannotRunAs(uid: number | undefined): string {
  if (uid === undefined) return process.getuid?.() === undefined ? 'not on this system' : ''
  if (process.getuid?.() !== 0) return 'only root can run tests as another user'
  const access = (path: string, mode: string) => {
    const code = `require('node:fs').accessSync(${JSON.stringify(path)}, ${mode})`
    const options = { uid, gid: uid, stdio: 'ignore' } as const
    return spawnSync(process.execPath, ['-e', code], options).status === 0
  }
  if (!access(commandMain, '4')) return 'an ordinary user cannot read the repository'
  return access('/dev/net/tun', '6') ? '' : 'an ordinary user cannot open /dev/net/tun'
}

/** Counts connections until the test ends. Port 0 is any free one. */
async function listenAndCount(host: string, port = 0) {
  let count = 0
  const server: Server = createServer((socket) => {
    count++
    socket.destroy()
  }).listen(port, host)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const address = server.address()
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, count: () => count }
}

/** The port of a Node inspector on loopback, which runs any code. */
async function startInspector(): Promise<number> {
  const child = spawn(process.execPath, ['--inspect=127.0.0.1:0', '-e', 'setInterval(() => {}, 1000)'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const [line] = await once(child.stderr, 'data')
  return Number(/127\.0\.0\.1:(\d+)/.exec(String(line))?.[1])
}

/** Whether a program in the sandbox can connect. */
async function dial(box: SandboxInfo, host: string, port: number): Promise<string> {
  const connect = `timeout 5 bash -c "exec 3<>/dev/tcp/${host}/${port}" 2>/dev/null`
  return (await runInSandbox(box, `${connect} && echo open || echo shut`)).trim()
}

async function remove(server: SandboxServer, id: string): Promise<void> {
  await server.requestJson('DELETE', `/api/v1/sandboxes/${id}`)
  await server.waitUntilGone(id)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
