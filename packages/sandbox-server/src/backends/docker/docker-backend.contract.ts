import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { ContainerInfo, ContainerInspectInfo, NetworkInspectInfo, VolumeInspectInfo } from 'dockerode'
import { expect, onTestFinished, test } from 'vitest'
import {
  type BackendUnderTest,
  observe,
  probeScript,
  runInside,
  waitAlive,
  waitForValue,
} from '../backend.contract.ts'
import type { SandboxConfig } from '../backend.ts'
import { DockerBackend } from './docker-backend.ts'
import { Engine } from './engine.ts'
import { ledgerLabel, sandboxLabels } from './labels.ts'

/** A container engine that tests may fill: its socket, and an image of the agent server in it. */
export interface TestEngine {
  readonly socketPath: string
  readonly image: string
}

/** The engine whose socket a variable names; undefined when it is not set. */
export function testEngine(variable: string): TestEngine | undefined {
  const socketPath = process.env[variable]
  if (!socketPath) return undefined
  return { socketPath, image: process.env.SLIPWAY_TEST_IMAGE || 'slipway-agent-server' }
}

/** A backend with its own ledger, and the engine below it. */
export interface DockerUnderTest extends BackendUnderTest {
  readonly backend: DockerBackend
  readonly engine: Engine
  readonly ledgerId: string
  /** Of the one container of a sandbox. */
  containerId(id: string): Promise<string>
}

export async function openDocker({ socketPath, image }: TestEngine): Promise<DockerUnderTest> {
  const engine = new Engine(socketPath)
  const ledgerId = randomBytes(16).toString('hex')
  const open = (ledger: string) =>
    new DockerBackend({ socketPath, ledgerId: ledger, log: () => {}, defaultImage: image })
  const containers = async (filter: object) =>
    engine.callOrThrow<readonly ContainerInfo[]>('GET', '/containers/json', {
      query: { all: true, filters: JSON.stringify(filter) },
    })
  const strangers: string[] = []
  const containerId = async (id: string) => {
    const [found, ...more] = await containers({
      label: [`${ledgerLabel}=${ledgerId}`, `dev.slipway.sandbox=${id}`],
    })
    if (found === undefined || more.length > 0)
      throw new Error(`${id}: ${more.length} containers more than one`)
    return found.Id
  }
  return {
    backend: open(ledgerId),
    engine,
    ledgerId,
    containerId,
    reopen: async () => open(ledgerId),
    openForOtherLedger: async () => {
      const other = randomBytes(16).toString('hex')
      strangers.push(other)
      return open(other)
    },
    createConfig: (overrides = {}) => ({ ...plainConfig(), ...overrides }),
    node: (script) => ['node', '-e', script, '--'],
    kill: async (id) => {
      await engine.callOrThrow('POST', `/containers/${await containerId(id)}/kill`, {
        query: { signal: 'KILL' },
      })
    },
    listRemains: async (id) => {
      const name = `slipway-${ledgerId.slice(0, 8)}-${id}`
      const isOf = ({ Names }: ContainerInfo) => Names.some((each) => each.includes(name))
      const volumes = await engine.callOrThrow<{ Volumes: readonly VolumeInspectInfo[] | null }>(
        'GET',
        '/volumes',
      )
      return [
        ...(await containers({})).filter(isOf).map(({ Names }) => `container ${Names}`),
        ...(volumes.Volumes ?? []).filter(({ Name }) => Name === name).map(({ Name }) => `volume ${Name}`),
      ]
    },
    close: async () => {
      for (const ledger of [ledgerId, ...strangers]) await removeAll(engine, ledger, open(ledger))
    },
  }
}

function plainConfig(): SandboxConfig {
  return {
    id: `s-${randomBytes(6).toString('hex')}`,
    image: null,
    command: [],
    env: { SLIPWAY_SESSION_API_KEY: randomBytes(16).toString('hex') },
    workingDir: '',
    resources: {},
    network: 'shared',
  }
}

async function removeAll(engine: Engine, ledgerId: string, backend: DockerBackend): Promise<void> {
  for (const { id } of await backend.list()) await backend.remove(id)
  const query = { filters: JSON.stringify({ label: [`${ledgerLabel}=${ledgerId}`] }) }
  const networks = await engine.callOrThrow<readonly NetworkInspectInfo[]>('GET', '/networks', { query })
  for (const { Id, Labels } of networks) {
    if (Labels?.[ledgerLabel] === ledgerId) await engine.callOrThrow('DELETE', `/networks/${Id}`)
  }
}

/** What Docker and Podman must both keep, besides what every backend must. */
export function dockerBackendContract(name: string, engine: TestEngine): void {
  const promise = (title: string, body: (at: DockerUnderTest) => Promise<void>) =>
    test(`${name}: ${title}`, { timeout: 240_000 }, async () => {
      const at = await openDocker(engine)
      onTestFinished(() => at.close())
      await body(at)
    })
  const probe = (at: DockerUnderTest, overrides: Partial<SandboxConfig> = {}) =>
    at.createConfig({ command: at.node(probeScript), ...overrides })
  const started = async (at: DockerUnderTest, overrides: Partial<SandboxConfig> = {}) => {
    const order = probe(at, overrides)
    await at.backend.start(order)
    await waitAlive(at.backend, order.id)
    return order
  }
  const inspect = async (at: DockerUnderTest, id: string) =>
    at.engine.callOrThrow<ContainerInspectInfo>('GET', `/containers/${await at.containerId(id)}/json`)

  promise('from inside it is an unprivileged user and stays that', async (at) => {
    const { id } = await started(at)
    const { result } = await runInside(
      at.backend,
      id,
      "return require('node:fs').readFileSync('/proc/self/status', 'utf8')",
    )
    const status = String(result)
    expect(status).toMatch(/^Uid:\t10001\t10001\t10001\t10001$/m)
    expect(status).toMatch(/^Gid:\t10001\t10001\t10001\t10001$/m)
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
      expect(status).toMatch(new RegExp(`^${set}:\t0+$`, 'm'))
    }
    expect(status).toMatch(/^NoNewPrivs:\t1$/m)
    expect(status).toMatch(/^Seccomp:\t2$/m)
  })

  promise(
    'from inside only its own places can be written to, and nothing of the host is there',
    async (at) => {
      const { id } = await started(at)
      const write = async (path: string) =>
        (await runInside(at.backend, id, `require('node:fs').writeFileSync('${path}', 'x')`)).error
      for (const path of [
        '/workspace/a',
        '/workspace/project/a',
        '/workspace/.home/a',
        '/tmp/a',
        '/dev/shm/a',
      ]) {
        expect([path, await write(path)]).toEqual([path, undefined])
      }
      for (const path of [
        '/a',
        '/etc/passwd',
        '/usr/bin/a',
        '/opt/slipway/a',
        '/root/a',
        '/run/a',
        '/proc/sys/kernel/panic',
      ]) {
        expect([path, await write(path)]).toEqual([path, expect.stringMatching(/EROFS|EACCES/)])
      }
      const isThere = `return ['/var/run/docker.sock', '/run/podman/podman.sock', '${engine.socketPath}'].filter(require('node:fs').existsSync)`
      expect((await runInside(at.backend, id, isThere)).result).toEqual([])
      const { HostConfig, Mounts } = await inspect(at, id)
      expect(HostConfig.Privileged).toBe(false)
      expect(Mounts.filter(({ Type }) => Type === 'bind')).toEqual([])
      expect(Mounts.filter(({ Type }) => Type === 'volume')).toHaveLength(1)
    },
  )

  promise('zombies are reaped', async (at) => {
    const { id } = await started(at)
    const { result } = await runInside(
      at.backend,
      id,
      "return require('node:fs').readFileSync('/proc/1/cmdline', 'utf8')",
    )
    expect(String(result).split('\0')[0]).toContain('init')
  })

  promise('what is reported as enforced is enforced: processes and open files', async (at) => {
    const { enforced, kind } = await at.backend.isolation()
    expect(kind).toBe('container')
    expect(enforced).toEqual(expect.arrayContaining(['maxProcesses', 'maxOpenFiles', 'memoryBytes', 'cpus']))
    expect(enforced).not.toContain('diskBytes')
    const resources = { maxProcesses: 40, maxOpenFiles: 200, memoryBytes: 256 * mebibyte, cpus: 0.5 }
    const { id } = await started(at, { resources })
    const { HostConfig } = await inspect(at, id)
    expect(HostConfig).toMatchObject({ PidsLimit: 40, Memory: 256 * mebibyte, MemorySwap: 256 * mebibyte })
    expect(HostConfig.NanoCpus).toBe(5e8)
    const forked = await runInside(at.backend, id, forkUntilRefused)
    expect(forked.result).toMatchObject({ code: 'EAGAIN' })
    expect(forked.result).toHaveProperty('count')
    const opened = await runInside(at.backend, id, openUntilRefused)
    expect(opened.error).toBe('EMFILE')
  })

  promise(
    'what uses more memory than it is allowed is killed and says so, and the host lives',
    async (at) => {
      const script = 'const buffers = []; setInterval(() => buffers.push(Buffer.alloc(8 * 2 ** 20, 1)), 1)'
      const order = at.createConfig({
        command: at.node(script),
        resources: { memoryBytes: 64 * mebibyte, maxProcesses: 64 },
      })
      await at.backend.start(order)
      const ended = await waitForValue(async () => {
        const now = await observe(at.backend, order.id)
        return now.state === 'stopped' ? now : undefined
      }, 'it is killed')
      expect(ended.detail).toContain('more memory than it is allowed')
    },
  )

  promise('sandboxes find this machine by the name of hostUrl', async (at) => {
    const { id } = await started(at)
    const address = await at.backend.gatewayAddress()
    expect(address).toMatch(/^\d+\.\d+\.\d+\.\d+$/)
    const server = createServer((_, response) => response.end('hello from the host'))
    await new Promise<void>((resolve) => server.listen(0, address, resolve))
    onTestFinished(() => void server.close())
    const bound = server.address()
    const port = typeof bound === 'object' && bound !== null ? bound.port : 0
    expect(at.backend.hostUrl(port, 'none')).toBeUndefined()
    const url = at.backend.hostUrl(port, 'shared')
    const fetched = await runInside(at.backend, id, `return (await fetch('${url}')).text()`)
    expect(fetched).toEqual({ result: 'hello from the host' })
  })

  promise('sandboxes do not reach each other, or isolation reports that they do', async (at) => {
    const [one, other] = [await started(at), await started(at)]
    const { Networks } = (await inspect(at, other.id)).NetworkSettings
    const [address] = Object.values(Networks).map(({ IPAddress }) => IPAddress)
    const call = `return (await fetch('http://${address}:8000/alive', { signal: AbortSignal.timeout(10_000) })).status`
    const isReached = (await runInside(at.backend, one.id, call)).result === 200
    const { notes } = await at.backend.isolation()
    expect(notes.some((note) => note.includes('reach the ports of each other'))).toBe(isReached)
    if (name === 'docker') expect(isReached).toBe(false)
  })

  promise('a working directory elsewhere persists too, and processes start there', async (at) => {
    const order = await started(at, { workingDir: '/srv/the repo' })
    const wrote = `require('node:fs').writeFileSync('mine', 'x'); return process.cwd()`
    expect(await runInside(at.backend, order.id, wrote)).toEqual({ result: '/srv/the repo' })
    expect((await observe(at.backend, order.id)).workingDir).toBe('/srv/the repo')
    await at.kill(order.id)
    await at.backend.resume(order)
    await waitAlive(at.backend, order.id)
    const read = `return require('node:fs').readFileSync('/srv/the repo/mine', 'utf8')`
    expect(await runInside(at.backend, order.id, read)).toEqual({ result: 'x' })
  })

  promise('another order takes the place of one that has ended, on its files', async (at) => {
    const order = await started(at)
    await runInside(at.backend, order.id, "require('node:fs').writeFileSync('/workspace/mine', 'x')")
    await at.kill(order.id)
    await at.backend.start({ ...order, env: { ANOTHER: 'yes' } })
    await waitAlive(at.backend, order.id)
    const look = "return [process.env.ANOTHER, require('node:fs').readFileSync('/workspace/mine', 'utf8')]"
    expect(await runInside(at.backend, order.id, look)).toEqual({ result: ['yes', 'x'] })
  })

  promise('an image that is missing is broken and says what to do; then it starts', async (at) => {
    const order = at.createConfig({ image: '127.0.0.1:1/nobody/nothing:1' })
    await at.backend.start(order)
    const now = await observe(at.backend, order.id)
    expect(now).toMatchObject({ state: 'broken', addresses: {} })
    expect(now.detail).toContain(
      'The image 127.0.0.1:1/nobody/nothing:1 is missing: build it with `npm run image` or pull it.',
    )
    await at.backend.start({ ...order, image: engine.image })
    expect((await waitAlive(at.backend, order.id)).epoch).not.toBe(now.epoch)
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise(
    'an image without a good name, and our own one that was not built, are reported and not pulled',
    async (at) => {
      const order = at.createConfig({ image: 'Not A Name' })
      await at.backend.start(order)
      expect(await observe(at.backend, order.id)).toMatchObject({
        state: 'broken',
        detail: expect.stringContaining('Not A Name'),
      })
      const unbuilt = new DockerBackend({
        ...engine,
        ledgerId: at.ledgerId,
        log: () => {},
        defaultImage: 'slipway-not-built',
      })
      const other = at.createConfig()
      await unbuilt.start(other)
      expect((await observe(unbuilt, other.id)).detail).toBe(
        'The image slipway-not-built is missing: build it with `npm run image`.',
      )
    },
  )

  promise('one that was cut off before its container was made continues', async (at) => {
    const order = probe(at)
    const Name = `slipway-${at.ledgerId.slice(0, 8)}-${order.id}`
    const body = { Name, Labels: sandboxLabels(at.ledgerId, order) }
    await at.engine.callOrThrow('POST', '/volumes/create', { body })
    expect(await at.backend.list()).toMatchObject([{ id: order.id, state: 'stopped' }])
    await at.backend.start(order)
    await waitAlive(at.backend, order.id)
  })

  promise('one that was cut off before its container was started continues', async (at) => {
    const order = await started(at)
    const container = await inspect(at, order.id)
    await at.backend.remove(order.id)
    const body = { Image: engine.image, Labels: container.Config.Labels }
    await at.engine.callOrThrow('POST', '/containers/create', {
      query: { name: container.Name.slice(1) },
      body,
    })
    expect(await at.backend.list()).toMatchObject([{ id: order.id, state: 'stopped' }])
    await at.backend.resume(order)
    await waitAlive(at.backend, order.id)
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise('whenever the process that starts one is killed, another one continues', async (at) => {
    const order = probe(at)
    const options = { socketPath: engine.socketPath, ledgerId: at.ledgerId, defaultImage: engine.image }
    for (let delayMs = 0; delayMs <= 500; delayMs += 50) {
      const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', starter], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { PATH: process.env.PATH, ORDER: JSON.stringify(order), OPTIONS: JSON.stringify(options) },
      })
      // Its clock runs from the moment at which it begins.
      await once(child.stdout, 'data')
      const ended = once(child, 'exit')
      await setTimeout(delayMs)
      child.kill('SIGKILL')
      await ended
      const left = await at.backend.list(order.id)
      expect(left.length).toBeLessThanOrEqual(1)
      await at.backend.start(order)
      await waitAlive(at.backend, order.id)
      await at.backend.remove(order.id)
      expect(await at.listRemains(order.id)).toEqual([])
    }
  })

  promise('a foreign container or volume of the same name is not touched', async (at) => {
    for (const kind of ['container', 'volume'] as const) {
      const order = probe(at)
      const name = `slipway-${at.ledgerId.slice(0, 8)}-${order.id}`
      const made =
        kind === 'volume' ? { body: { Name: name } } : { query: { name }, body: { Image: engine.image } }
      await at.engine.callOrThrow('POST', `/${kind}s/create`, made)
      onTestFinished(async () => {
        const path = `/${kind}s/${name}`
        await at.engine.call('DELETE', path, { query: { force: true } })
      })
      await at.backend.start(order)
      expect((await observe(at.backend, order.id)).state).toBe('broken')
      await at.backend.remove(order.id)
      expect(await at.backend.list()).toEqual([])
      expect(await at.listRemains(order.id)).toHaveLength(1)
    }
  })

  promise('a removal that was done half is finished', async (at) => {
    const order = await started(at)
    await at.engine.callOrThrow('DELETE', `/containers/${await at.containerId(order.id)}`, {
      query: { force: true },
    })
    expect(await at.backend.list()).toMatchObject([{ id: order.id, state: 'stopped' }])
    await at.backend.remove(order.id)
    expect(await at.backend.list()).toEqual([])
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise('two that remove the same one at the same time both succeed', async (at) => {
    const order = await started(at)
    await at.backend.pause(order.id)
    const other = await at.reopen()
    await Promise.all([at.backend.remove(order.id), other.remove(order.id)])
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise('the detail of a failure contains no secret of the config', async (at) => {
    const env = { SLIPWAY_SESSION_API_KEY: 'sesame-of-the-sandbox' }
    const orders = [
      at.createConfig({ env, image: '127.0.0.1:1/nobody/nothing:1' }),
      at.createConfig({ env, workingDir: '../x' }),
      at.createConfig({ env, resources: { memoryBytes: 1 } }),
      at.createConfig({ env, command: ['/no/such/program'] }),
    ]
    await Promise.all(orders.map((order) => at.backend.start(order)))
    const all = await at.backend.list()
    expect(all).toHaveLength(orders.length)
    expect(JSON.stringify(all)).not.toContain('sesame')
  })
}

const mebibyte = 2 ** 20

const starter = `
import { DockerBackend } from ${JSON.stringify(new URL('./docker-backend.ts', import.meta.url).href)}
const backend = new DockerBackend({ ...JSON.parse(process.env.OPTIONS), log: () => {} })
console.log('begins')
await backend.start(JSON.parse(process.env.ORDER))
setInterval(() => {}, 1000)`

const forkUntilRefused = `
const { spawn } = require('node:child_process')
const children = []
try {
  for (let count = 0; count < 100; count += 1) {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    const code = await new Promise((resolve) => {
      child.once('error', (error) => resolve(error.code))
      child.once('spawn', () => resolve(undefined))
    })
    if (code !== undefined) return { code, count }
    children.push(child)
  }
} finally {
  for (const child of children) child.kill('SIGKILL')
}`

const openUntilRefused = `
const { openSync, closeSync } = require('node:fs')
const opened = []
try {
  for (let count = 0; count < 1000; count += 1) opened.push(openSync('/dev/null'))
} finally {
  for (const file of opened) closeSync(file)
}`
