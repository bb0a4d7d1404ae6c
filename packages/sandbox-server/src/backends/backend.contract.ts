import { request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import type { Backend, ObservedSandbox, SandboxConfig } from './backend.ts'

/** A backend to be tested, with what only its kind knows. */
export interface BackendUnderTest {
  readonly backend: Backend
  /** Another object on the same place, as after the end of the process. */
  reopen(): Promise<Backend>
  /** One on the same place with the label of another ledger. */
  openForOtherLedger(): Promise<Backend>
  /**
   * An order of which nothing is missing: its own id, the backend's own command, no limits that the
   * host cannot keep.
   */
  createConfig(overrides?: Partial<SandboxConfig>): SandboxConfig
  /**
   * Program and arguments that run a text as a CommonJS script with Node, inside; what is appended reaches
   * `process.argv`.
   */
  node(script: string): readonly string[]
  /** Ends the main process of a running sandbox from outside, as a crash does. */
  kill(id: string): Promise<void>
  /**
   * What the host or the engine still has of a sandbox: processes, mounts, files, ... For people; empty after
   * `remove`.
   */
  listRemains(id: string): Promise<readonly string[]>
  /** A pause ends its processes, and so takes long: the contract pauses that often instead of 100 times. */
  readonly pauseRounds?: number
  /** Lets everything go, also after a test that failed. */
  close(): Promise<void>
}

/**
 * A small server that takes the place of the agent server: it answers `/alive`, and runs what is sent to
 * `/run` inside.
 */
export const probeScript = `
const { createServer } = require('node:http')
const { parseArgs } = require('node:util')
const text = { type: 'string' }
const { values } = parseArgs({ options: { host: text, port: text, data: text, socket: text }, strict: false })
const server = createServer(async (incoming, answer) => {
  let body = ''
  for await (const part of incoming) body += part
  if (incoming.url === '/alive') return answer.end(JSON.stringify({ status: 'ok' }))
  try {
    const result = await new Function('require', 'values', 'return (async () => {' + body + '})()')(require, values)
    answer.end(JSON.stringify({ result: result ?? null }))
  } catch (error) {
    answer.end(JSON.stringify({ error: String(error.code ?? error) }))
  }
})
if (values.socket) server.listen(values.socket)
else server.listen(Number(values.port), values.host)
`

export interface ProbeResult {
  readonly result?: unknown
  /** The code of what was thrown (`EACCES`), else its text. */
  readonly error?: string
}

/**
 * Runs the body of an async function inside of a sandbox whose command is the probe; `require` and `values`
 * are there.
 */
export async function runInside(backend: Backend, id: string, code: string): Promise<ProbeResult> {
  const address = (await observe(backend, id)).addresses.AGENT_SERVER ?? ''
  return JSON.parse(await fetchText(address, '/run', code))
}

/** One request to an address of `Seen`, over TCP or a Unix socket. */
export function fetchText(address: string, path: string, body?: string): Promise<string> {
  const socketPath = /^http\+unix:\/\/([^/]+)$/.exec(address)?.[1]
  const where =
    socketPath === undefined
      ? { host: new URL(address).hostname, port: new URL(address).port }
      : { socketPath: decodeURIComponent(socketPath) }
  return new Promise((resolve, reject) => {
    const sent = request(
      { ...where, path, method: body === undefined ? 'GET' : 'POST', agent: false },
      (got) => {
        let text = ''
        got.setEncoding('utf8')
        got.on('data', (part: string) => {
          text += part
        })
        got.on('end', () => resolve(text))
        got.on('error', reject)
      },
    )
    sent.setTimeout(60_000, () => sent.destroy(new Error('no answer in 60 s')))
    sent.on('error', reject)
    sent.end(body)
  })
}

/** What `list` says of one sandbox; fails when it is missing. */
export async function observe(backend: Backend, id: string): Promise<ObservedSandbox> {
  const [found, ...more] = await backend.list(id)
  if (found === undefined || more.length > 0)
    throw new Error(`${id}: seen ${found === undefined ? 0 : 'twice'}`)
  return found
}

/** Resolves with the first value that is not undefined; rejects after two minutes with what was seen last. */
export async function waitForValue<T>(
  look: () => Promise<T | undefined>,
  what: string,
  seen: () => unknown = () => '',
): Promise<T> {
  const deadline = Date.now() + 120_000
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (Date.now() > deadline) throw new Error(`timed out: ${what} ${JSON.stringify(seen())}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Waits until the sandbox answers; fails at once with what it printed when it stops instead. */
export function waitAlive(backend: Backend, id: string): Promise<ObservedSandbox> {
  let last: unknown
  const look = async () => {
    const now = await observe(backend, id)
    last = now
    if (now.state === 'stopped' || now.state === 'broken') throw new Error(`${now.state}: ${now.detail}`)
    const address = now.addresses.AGENT_SERVER
    if (now.state !== 'running' || address === undefined) return undefined
    const text = await fetchText(address, '/alive').catch(String)
    last = { ...now, answer: text }
    return text.includes('"ok"') ? now : undefined
  }
  return waitForValue(look, `${id} answers`, () => last)
}

const writeMarker = `
const { createHash, randomBytes } = require('node:crypto')
const bytes = randomBytes(300_000)
require('node:fs').writeFileSync('marker', bytes)
return createHash('sha256').update(bytes).digest('hex')`

const readMarker = `
const { createHash } = require('node:crypto')
return createHash('sha256').update(require('node:fs').readFileSync('marker')).digest('hex')`

/** A process of its own session, which writes down the moment again and again. */
const startStamping = `
const { spawn } = require('node:child_process')
const script = "setInterval(() => require('node:fs').appendFileSync('stamps', Date.now() + '\\\\n'), 5)"
spawn(process.execPath, ['-e', script], { detached: true, stdio: 'ignore' }).unref()`

const readStamps = `return require('node:fs').readFileSync('stamps', 'utf8').trim().split('\\n').map(Number)`

/** Half a second of processor time and 100 MB. */
const useMuch = `
const { hash } = require('node:crypto')
globalThis.much = Buffer.alloc(100_000_000, 1)
const part = globalThis.much.subarray(0, 4_000_000)
const before = process.cpuUsage()
let used
do {
  hash('sha256', part)
  used = process.cpuUsage(before)
} while (used.user + used.system < 200_000)`

/** What each Backend must keep. `open` makes its own empty place for each test. */
export function backendContract(name: string, open: () => Promise<BackendUnderTest>, minutes = 4): void {
  const promise = (title: string, body: (at: BackendUnderTest) => Promise<void>) =>
    test(`${name}: ${title}`, { timeout: minutes * 60_000 }, async () => {
      const at = await open()
      onTestFinished(() => at.close())
      await body(at)
    })
  const probe = (at: BackendUnderTest, overrides: Partial<SandboxConfig> = {}) =>
    at.createConfig({ command: at.node(probeScript), ...overrides })

  promise('its own agent server starts, answers, and is gone after remove', async (at) => {
    const order = at.createConfig()
    expect(await at.backend.list()).toEqual([])
    await at.backend.start(order)
    const now = await waitAlive(at.backend, order.id)
    expect(now).toMatchObject({ id: order.id, state: 'running' })
    expect(now.epoch).not.toBe('')
    await at.backend.remove(order.id)
    expect(await at.backend.list()).toEqual([])
    expect(await at.listRemains(order.id)).toEqual([])
    const address = now.addresses.AGENT_SERVER ?? ''
    await expect(fetchText(address, '/alive')).rejects.toThrow()
  })

  promise('every verb may be said twice, and to what is missing', async (at) => {
    const order = probe(at)
    await at.backend.pause('nobody')
    await at.backend.stop('unknown')
    await at.backend.remove('nobody')
    expect(await at.backend.readLog('unknown', 1_000)).toBe('')
    expect(await at.backend.list('nobody')).toEqual([])
    await at.backend.start(order)
    const first = await waitAlive(at.backend, order.id)
    await at.backend.start(order)
    await at.backend.resume(order)
    expect(await observe(at.backend, order.id)).toEqual(first)
    await at.backend.pause(order.id)
    await at.backend.pause(order.id)
    expect((await observe(at.backend, order.id)).state).toBe('paused')
    await at.backend.resume(order)
    await at.backend.resume(order)
    const { epoch } = await waitAlive(at.backend, order.id)
    if (at.pauseRounds === undefined) expect(epoch).toBe(first.epoch)
    await at.backend.remove(order.id)
    await at.backend.remove(order.id)
    expect(await at.backend.list()).toEqual([])
  })

  promise('what its processes use is measured, and is nothing before and after', async (at) => {
    const { backend } = at
    if (backend.measureUse === undefined) return
    const order = probe(at)
    expect(await backend.measureUse(order.id)).toBeUndefined()
    await backend.start(order)
    await waitAlive(backend, order.id)
    const before = await waitForValue(async () => await backend.measureUse?.(order.id), 'its use')
    await runInside(backend, order.id, useMuch)
    const after = await waitForValue(async () => {
      const use = await backend.measureUse?.(order.id)
      return use !== undefined && use.cpuSeconds >= before.cpuSeconds + 0.15 ? use : undefined
    }, 'the processor time is counted')
    expect(after.memoryBytes).toBeGreaterThan(before.memoryBytes + 80_000_000)
    expect(after.processes).toBeGreaterThanOrEqual(before.processes)
    await backend.remove(order.id)
    expect(await backend.measureUse(order.id)).toBeUndefined()
  })

  promise('a resume of what was never started starts it', async (at) => {
    const order = probe(at)
    await at.backend.resume(order)
    await waitAlive(at.backend, order.id)
  })

  promise(
    'time stands still for all processes while it is paused, and continues after the resume',
    async (at) => {
      const order = probe(at)
      await at.backend.start(order)
      await waitAlive(at.backend, order.id)
      await runInside(at.backend, order.id, startStamping)
      const stampedAfter = (momentMs: number) =>
        waitForValue(async () => {
          const { result } = await runInside(at.backend, order.id, readStamps)
          // Where a pause ends processes they do not continue on their own.
          if (at.pauseRounds !== undefined) return Array.isArray(result) ? result : undefined
          return Array.isArray(result) && result.some((each) => each > momentMs) ? result : undefined
        }, 'a stamp')
      await stampedAfter(0)
      for (let round = 0; round < Math.min(3, at.pauseRounds ?? 3); round++) {
        await at.backend.pause(order.id)
        const beganMs = Date.now()
        expect((await observe(at.backend, order.id)).state).toBe('paused')
        expect((await observe(await at.reopen(), order.id)).state).toBe('paused')
        await new Promise((resolve) => setTimeout(resolve, 300))
        const endedMs = Date.now()
        await at.backend.resume(order)
        await waitAlive(at.backend, order.id)
        const stamps = await stampedAfter(endedMs)
        expect(stamps.filter((each) => each > beganMs && each < endedMs)).toEqual([])
      }
    },
  )

  promise('files and memory are the same after 100 times of pause and resume', async (at) => {
    const order = probe(at)
    await at.backend.start(order)
    const { epoch } = await waitAlive(at.backend, order.id)
    const { result: hash } = await runInside(at.backend, order.id, writeMarker)
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
    await runInside(at.backend, order.id, 'globalThis.stored = "in memory"')
    for (let i = 0; i < (at.pauseRounds ?? 100); i++) {
      await at.backend.pause(order.id)
      await at.backend.resume(order)
    }
    const now = await waitAlive(at.backend, order.id)
    expect((await runInside(at.backend, order.id, readMarker)).result).toBe(hash)
    if (now.epoch === epoch) {
      expect((await runInside(at.backend, order.id, 'return globalThis.stored')).result).toBe('in memory')
    }
  })

  promise('what dies is stopped, says why, and starts again on its files', async (at) => {
    const order = probe(at)
    await at.backend.start(order)
    const first = await waitAlive(at.backend, order.id)
    const { result: hash } = await runInside(at.backend, order.id, writeMarker)
    await at.kill(order.id)
    const dead = await stopped(at.backend, order.id)
    expect(dead.detail).toBeTruthy()
    await at.backend.pause(order.id)
    expect((await observe(at.backend, order.id)).state).toBe('stopped')
    await at.backend.resume(order)
    const again = await waitAlive(at.backend, order.id)
    expect(again.epoch).not.toBe(first.epoch)
    expect((await runInside(at.backend, order.id, readMarker)).result).toBe(hash)
  })

  promise('a stop ends all processes, and a resume starts them again on the same files', async (at) => {
    const order = probe(at)
    await at.backend.start(order)
    const first = await waitAlive(at.backend, order.id)
    const { result: hash } = await runInside(at.backend, order.id, writeMarker)
    await at.backend.stop(order.id)
    await at.backend.stop(order.id)
    expect((await observe(at.backend, order.id)).state).toMatch(/^(stopped|paused)$/)
    await at.backend.resume(order)
    const again = await waitAlive(at.backend, order.id)
    expect(again.epoch).not.toBe(first.epoch)
    expect((await runInside(at.backend, order.id, readMarker)).result).toBe(hash)
  })

  promise(
    'what its processes print is its log, also when they have ended, and no more of it than asked for',
    async (at) => {
      const script =
        'for (let n = 0; n < 500; n++) console.log("\\u001b[31mline " + n + "\\u001b[0m"); process.exit(1)'
      const order = at.createConfig({ command: at.node(script) })
      await at.backend.start(order)
      await stopped(at.backend, order.id)
      const log = await waitForValue(async () => {
        const text = await at.backend.readLog(order.id, 100_000)
        return text.includes('line 499') ? text : undefined
      }, 'the whole log')
      expect(log).toMatch(/^line 0\nline 1\n/)
      const end = await at.backend.readLog(order.id, 160)
      expect(end.length).toBeLessThanOrEqual(160)
      expect(end.endsWith('line 499') || end.startsWith('line')).toBe(true)
      await at.backend.remove(order.id)
      expect(await at.backend.readLog(order.id, 100_000)).toBe('')
    },
  )

  promise('a program that ends at once is stopped with its exit code and its last words', async (at) => {
    const script = 'console.error("\\u001b[31mI cannot\\u001b[0m work\\u0007"); process.exit(7)'
    const order = at.createConfig({ command: at.node(script) })
    await at.backend.start(order)
    const dead = await stopped(at.backend, order.id)
    expect(dead.detail).toContain('7')
    expect(dead.detail).toContain('I cannot work')
    expect(dead.addresses).toEqual({})
  })

  promise('a missing program is reported, and the sandbox can be removed', async (at) => {
    const order = at.createConfig({ command: ['/no/such/program', 'x'] })
    await at.backend.start(order)
    const dead = await stopped(at.backend, order.id)
    expect(dead.detail).toContain('/no/such/program')
    await at.backend.remove(order.id)
    expect(await at.backend.list()).toEqual([])
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise('a new object sees the same as the one before', async (at) => {
    const [running, paused, ended] = [
      probe(at),
      probe(at),
      at.createConfig({ command: at.node('process.exit(3)') }),
    ] as const
    await Promise.all([running, paused, ended].map((order) => at.backend.start(order)))
    await waitAlive(at.backend, running.id)
    await waitAlive(at.backend, paused.id)
    await at.backend.pause(paused.id)
    await stopped(at.backend, ended.id)
    const before = await at.backend.list()
    const backend = await at.reopen()
    const byId = (list: readonly ObservedSandbox[]) => list.toSorted((a, b) => a.id.localeCompare(b.id))
    expect(byId(await backend.list())).toEqual(byId(before))
    expect(before).toHaveLength(3)
    await backend.resume(paused)
    await waitAlive(backend, paused.id)
    for (const { id } of [running, paused, ended]) await backend.remove(id)
    expect(await at.backend.list()).toEqual([])
    for (const { id } of [running, paused, ended]) expect(await at.listRemains(id)).toEqual([])
  })

  promise('sandboxes of another ledger are ignored', async (at) => {
    const order = probe(at)
    await at.backend.start(order)
    const before = await waitAlive(at.backend, order.id)
    const stranger = await at.openForOtherLedger()
    expect(await stranger.list()).toEqual([])
    expect(await stranger.list(order.id)).toEqual([])
    await stranger.pause(order.id)
    await stranger.remove(order.id)
    expect(await waitAlive(at.backend, order.id)).toEqual(before)
  })

  promise(
    'several start at once, also with the longest id, and do not get in each other’s way',
    async (at) => {
      const orders = [probe(at, { id: 'a'.repeat(63) }), probe(at, { id: 'b' }), probe(at, { id: '0-9' })]
      await Promise.all(orders.map((order) => at.backend.start(order)))
      const all = await Promise.all(orders.map(({ id }) => waitAlive(at.backend, id)))
      expect(new Set(all.map((each) => each.addresses.AGENT_SERVER)).size).toBe(3)
      expect(new Set(all.map((each) => each.epoch)).size).toBe(3)
      await Promise.all(
        orders.map(({ id }) => runInside(at.backend, id, `require('node:fs').writeFileSync('who', '${id}')`)),
      )
      for (const { id } of orders) {
        const { result } = await runInside(
          at.backend,
          id,
          `return require('node:fs').readFileSync('who', 'utf8')`,
        )
        expect(result).toBe(id)
      }
      await Promise.all(orders.map(({ id }) => at.backend.remove(id)))
      expect(await at.backend.list()).toEqual([])
    },
  )

  promise('the environment is that of the config, without anything of the server', async (at) => {
    const env = { SLIPWAY_SESSION_API_KEY: 'k-1', ODD: `a b"c'd$e\nf=g\\ü`, EMPTY: '' }
    const order = probe(at, { env })
    process.env.SLIPWAY_CANARY = 'of the server'
    onTestFinished(() => {
      delete process.env.SLIPWAY_CANARY
    })
    await at.backend.start(order)
    await waitAlive(at.backend, order.id)
    const { result } = await runInside(at.backend, order.id, 'return process.env')
    expect(result).toMatchObject(env)
    expect(JSON.stringify(result)).not.toContain('of the server')
    const { result: names } = await runInside(at.backend, order.id, 'return Object.keys(process.env)')
    expect(names).not.toContain('SLIPWAY_CANARY')
  })

  promise('what was made by one object and forgotten is removed by another', async (at) => {
    const order = probe(at)
    await at.backend.start(order)
    await waitAlive(at.backend, order.id)
    await runInside(at.backend, order.id, startStamping)
    await at.backend.pause(order.id)
    await (await at.reopen()).remove(order.id)
    expect(await at.backend.list()).toEqual([])
    expect(await at.listRemains(order.id)).toEqual([])
  })

  promise(
    'without a network nothing is reachable from inside, and it is reachable from outside or broken',
    async (at) => {
      const order = probe(at, { network: 'none' })
      await at.backend.start(order)
      const now = await waitForValue(async () => {
        const { state, addresses, detail } = await observe(at.backend, order.id)
        if (state === 'broken') return { state, detail }
        return addresses.AGENT_SERVER === undefined ? undefined : { state, detail }
      }, 'an address')
      if (now.state === 'broken') {
        expect(now.detail).toBeTruthy()
        return
      }
      await waitAlive(at.backend, order.id)
      const { result } = await runInside(
        at.backend,
        order.id,
        `return Object.values(require('node:os').networkInterfaces()).flat().filter((each) => !each.internal)`,
      )
      expect(result).toEqual([])
    },
  )

  async function stopped(backend: Backend, id: string): Promise<ObservedSandbox> {
    return waitForValue(async () => {
      const now = await observe(backend, id)
      return now.state === 'stopped' || now.state === 'broken' ? now : undefined
    }, `${id} has stopped`)
  }
}
