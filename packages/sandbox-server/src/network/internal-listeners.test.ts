import { lstat, mkdtemp, readlink, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unixFetch, unixSocketUrl } from '@slipway/http'
import { Problem, type Route, sandboxServerRoutes } from '@slipway/protocol'
import { findFreePort, shortSocketPath } from '@slipway/shared/process'
import { expect, onTestFinished, test } from 'vitest'
import type { Backend } from '../backends/backend.ts'
import { allowedHostNames, hostSocketPath, InternalListeners, sandboxRoutes } from './internal-listeners.ts'

const key = 'sk-of-a-sandbox'
const done = { json: { success: true } }

/** Other systems have no loopback address but one. */
const onLinux = test.skipIf(process.platform !== 'linux')

/**
 * Where the network of a backend is at the moment; a text that is no address: the engine says so and fails.
 */
interface Network {
  address: string | undefined
}

async function openListeners(
  network: Network,
  more: { readonly host?: string; readonly name?: string; readonly folder?: string } = {},
) {
  const { host = '127.0.0.1', name = 'docker', folder = 'door' } = more
  const directory = await mkdtemp(join(tmpdir(), 'slipway-doors-'))
  // It is likely to be free on other loopback addresses too.
  const port = await findFreePort()
  const said: string[] = []
  const gatewayAddress = async () => {
    if (network.address?.startsWith('no ')) throw new Error(network.address)
    return network.address
  }
  const unused = () => {
    throw new Error('a door asks for an address and for nothing else')
  }
  const backend: Backend = {
    name,
    hostUrl: () => undefined,
    ...(name === 'docker' ? { gatewayAddress } : {}),
    isolation: unused,
    start: unused,
    list: unused,
    pause: unused,
    resume: unused,
    stop: unused,
    readLog: unused,
    remove: unused,
  }
  const doors = new InternalListeners({
    handlers: {
      receiveConversation: () => done,
      receiveEvents: () => done,
      listSandboxSecrets: () => ({ json: { secrets: [] } }),
      getSandboxSecret: () => done,
      reserveBudget: () => ({ json: { status: 'unlimited', max_output_tokens: null, message: null } }),
      settleBudget: () => done,
    },
    identify: (_, header) => {
      if (header('x-session-api-key') !== key) throw new Problem('unauthorized', 'Unauthorized')
    },
    backends: new Map([[name, backend]]),
    host,
    port,
    socketDirectory: join(directory, folder),
    log: (level, text) => void (level === 'debug' || said.push(`${level}: ${text}`)),
    pollMs: [10, 10],
  })
  let isOpen = true
  const close = async () => {
    if (isOpen) await doors[Symbol.asyncDispose]()
    isOpen = false
  }
  onTestFinished(async () => {
    await close()
    await rm(directory, { recursive: true, force: true })
  })
  await doors.waitOpened()
  return { doors, port, said, close, socketPath: hostSocketPath(join(directory, folder)) }
}

/** Status of a request that a sandbox may make; undefined without a listener. */
async function request(url: string, init: RequestInit = { headers: { 'x-session-api-key': key } }) {
  try {
    const response = await unixFetch(`${url}/api/v1/sandboxes/x/settings/secrets`, init)
    await response.body?.cancel()
    return response.status
  } catch {
    return undefined
  }
}

async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  for (const deadline = Date.now() + 20_000; !(await check()); await sleep(10)) {
    if (Date.now() > deadline) throw new Error('it did not come true')
  }
}

onLinux('a socket in a deep folder is reached by a short path, which goes with the listener', async () => {
  const { close, socketPath } = await openListeners(
    { address: undefined },
    { name: 'process', folder: 'd'.repeat(150) },
  )
  const short = (await shortSocketPath(dirname(socketPath), 'host.sock')) ?? ''
  expect(await request(unixSocketUrl(short))).toBe(200)
  await close()
  await expect(readlink(dirname(short))).rejects.toThrow('ENOENT')
})

onLinux('a network that comes late is listened on, and one that moves is followed', async () => {
  const network: Network = { address: undefined }
  const { port, said, close } = await openListeners(network)
  const [first, second] = [`http://127.0.0.2:${port}`, `http://127.0.0.3:${port}`]
  expect(await request(first)).toBeUndefined()
  network.address = '127.0.0.2'
  await until(async () => (await request(first)) === 200)
  network.address = '127.0.0.3'
  await until(async () => (await request(second)) === 200)
  await until(async () => (await request(first)) === undefined)
  // One that is gone for a while may come back where it was.
  network.address = undefined
  await sleep(100)
  expect(await request(second)).toBe(200)
  expect(said).toEqual(Array(2).fill('info: sandboxes reach this server at the address of their network'))
  await close()
  network.address = '127.0.0.2'
  await sleep(100)
  expect([await request(first), await request(second)]).toEqual([undefined, undefined])
})

onLinux('a failing engine is asked again, each failure is logged once, and listeners stay open', async () => {
  const network: Network = { address: 'no engine' }
  const { port, said } = await openListeners(network)
  const url = `http://127.0.0.2:${port}`
  await sleep(100)
  network.address = '127.0.0.2'
  await until(async () => (await request(url)) === 200)
  network.address = 'no engine'
  const warnings = () => said.filter((text) => text.startsWith('warn'))
  await until(() => warnings().length === 2)
  await sleep(100)
  expect(warnings()).toHaveLength(2)
  expect(await request(url)).toBe(200)
})

onLinux('an address that another program has is tried again', async () => {
  const network: Network = { address: undefined }
  const { port, said } = await openListeners(network)
  const other = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.2', resolve))
  network.address = '127.0.0.2'
  await until(() => said.length > 0)
  expect(said).toEqual(['warn: sandboxes may not reach this server'])
  await new Promise((resolve) => other.close(resolve))
  await until(async () => (await request(`http://127.0.0.2:${port}`)) === 200)
})

onLinux('a server that is heard there anyway opens no door', async () => {
  for (const host of ['0.0.0.0', '::', '127.0.0.2']) {
    const { port, said } = await openListeners({ address: '127.0.0.2' }, { host })
    await sleep(50)
    expect([host, await request(`http://127.0.0.2:${port}`), said]).toEqual([host, undefined, []])
  }
})

test('the socket is for everybody who is let into its folder, and asks for a key', async () => {
  const { socketPath, close } = await openListeners({ address: undefined }, { name: 'process' })
  const url = `http+unix://${encodeURIComponent(socketPath)}`
  expect((await stat(socketPath)).mode & 0o777).toBe(0o666)
  expect((await lstat(join(socketPath, '..'))).mode & 0o777).toBe(0o700)
  expect(await request(url)).toBe(200)
  expect(await request(url, {})).toBe(401)
  await close()
  expect(await request(url)).toBeUndefined()
})

test('a door leads to what sandboxes call and to nothing else', async () => {
  const { socketPath } = await openListeners({ address: undefined }, { name: 'process' })
  const url = `http+unix://${encodeURIComponent(socketPath)}`
  const headers = { 'x-session-api-key': key }
  for (const path of [
    '/api/v1/sandboxes/search',
    '/api/v1/settings',
    '/api/v1/secrets/search',
    '/api/keys',
    '/server_info',
    '/sandboxes/x/agent/ready',
  ])
    expect([path, (await unixFetch(`${url}${path}`, { headers })).status]).toEqual([path, 404])
})

test('sandboxes may name this server as they know it, when only some names are allowed', () => {
  const docker = { hostUrl: (port: number) => `http://host.docker.internal:${port}` }
  const apart = { hostUrl: () => undefined }
  expect(allowedHostNames([], [docker])).toEqual([])
  expect(allowedHostNames(['a.test'], [docker, apart])).toEqual(['a.test', 'host.docker.internal'])
  expect(allowedHostNames(['a.test'], [apart])).toEqual(['a.test'])
})

test('sandboxes without a way to the server have all routes of sandboxes, and no other', () => {
  const ofSandboxes = Object.entries<Route>(sandboxServerRoutes).filter(
    ([, { access }]) => access === 'sandbox',
  )
  expect(Object.keys(sandboxRoutes).sort()).toEqual(ofSandboxes.map(([name]) => name).sort())
})
