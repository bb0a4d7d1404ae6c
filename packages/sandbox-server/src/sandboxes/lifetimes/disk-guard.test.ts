import { setImmediate as nextTurn } from 'node:timers/promises'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, onTestFinished, test } from 'vitest'
import { DiskGuard } from './disk-guard.ts'

const mib = 2 ** 20
const gib = 2 ** 30
type Deps = ConstructorParameters<typeof DiskGuard>[0]

interface Writer {
  readonly id: string
  readonly spec?: string
  /** Bytes in a millisecond, while it is running. */
  readonly speed: number
  /** That it keeps at first. */
  readonly bytes?: number
}

/** Sandboxes that write to one disk of 100 GiB at a constant speed, from the start of the clock on. */
class WritingSandboxes {
  readonly clock = new FakeClock()
  readonly guard: DiskGuard
  /** Each pause: which sandbox, and what it kept. */
  readonly pauses: { readonly id: string; readonly bytes: number }[] = []
  readonly freezes: string[] = []
  /** Sandboxes that the reconciler was told of. */
  readonly notified: string[] = []
  /** Of the disk of the server, where it is another one. */
  serverFree = 50 * gib
  /** Of the next pause. */
  failure: Error | undefined
  /** How long a sandbox is frozen to be measured. */
  measuringMs = 0
  /** How long one is measured that is not frozen. */
  readonly usageMs: Record<string, number> = {}
  readonly #rows: { id: string; spec: string; speed: number; wanted: string; status: string }[]
  readonly #bytes = new Map<string, number>()
  #writtenMs = 0

  /** `other`: their disk is not that of the server, see `serverFree`. */
  constructor(
    writers: readonly Writer[],
    limits: Readonly<Record<string, number | undefined>>,
    max = 0,
    other = false,
  ) {
    this.#rows = writers.map((one) => ({
      ...{ spec: 'a', backend: 'b', ...one },
      ...{ wanted: 'running', status: 'RUNNING' },
    }))
    for (const { id, bytes = 0 } of writers) this.#bytes.set(id, bytes)
    const specs = Object.entries(limits).map(([id, disk_bytes]) => ({ id, resources: { disk_bytes } }))
    const rows = this.#rows
    const backend = {
      diskUsage: async (id: string) => {
        if (this.usageMs[id]) await this.clock.sleep(this.usageMs[id])
        return this.#write().get(id)
      },
      pauseAbove: async (id: string, limit: number) => {
        const bytes = this.#write().get(id) ?? 0
        if (rows.find((row) => row.id === id)?.status !== 'RUNNING') return undefined
        this.freezes.push(id)
        if (this.measuringMs > 0) await this.clock.sleep(this.measuringMs)
        if (bytes > limit) this.#stop(id)
        return bytes
      },
    }
    const deps = {
      clock: this.clock,
      signal: new AbortController().signal,
      log: () => {},
      diskReserve: {
        ...{ directory: '/', bytes: gib },
        ...(other && { otherDisks: new Map([['b', '/other']]) }),
      },
      maxDiskBytes: max,
      specs: { list: () => specs, find: (id: string) => specs.find((spec) => spec.id === id) },
      backends: { get: () => backend },
      reconciler: { notify: (id: string) => this.notified.push(id) },
      rows: {
        async *iterateAll() {
          for (const row of rows) yield { ...row, owner: 'ann' }
        },
      },
      repository: {
        update: async ({ id }: { id: string }) => this.#pause(id),
        until: async () => 'stopped',
      },
    }
    const statfs = async (directory: string) => {
      if (other && directory === '/') return { bsize: 1, blocks: 100 * gib, bavail: this.serverFree }
      const written = [...this.#write().values()].reduce((sum, bytes) => sum + bytes, 0)
      return { bsize: 1, blocks: 100 * gib, bavail: 100 * gib - written }
    }
    this.guard = new DiskGuard(deps as unknown as Deps, statfs)
    onTestFinished(() => this.guard[Symbol.asyncDispose]())
    this.guard.start()
  }

  resume(id: string): void {
    this.#write()
    for (const row of this.#rows)
      if (row.id === id) Object.assign(row, { wanted: 'running', status: 'RUNNING' })
  }

  #pause(id: string): object {
    if (this.failure !== undefined) throw this.failure
    const bytes = this.#write().get(id) ?? 0
    this.pauses.push({ id, bytes })
    this.#stop(id)
    return {}
  }

  #stop(id: string): void {
    for (const row of this.#rows)
      if (row.id === id) Object.assign(row, { wanted: 'paused', status: 'PAUSED' })
  }

  #write(): ReadonlyMap<string, number> {
    const nowMs = this.clock.monotonic()
    for (const { id, speed, status } of this.#rows) {
      const written = status === 'RUNNING' ? speed * (nowMs - this.#writtenMs) : 0
      this.#bytes.set(id, (this.#bytes.get(id) ?? 0) + written)
    }
    this.#writtenMs = nowMs
    return this.#bytes
  }
}

const speeds = [0.01, 0.1, 0.5, 1, 2].map((mibInMs) => mibInMs * mib)
const cases = [300, 1024, 10_240].flatMap((limit) => speeds.map((speed) => ({ limit, speed })))

test.each(cases)(
  'a writer of $speed bytes/ms exceeds $limit MiB by at most a tenth',
  async ({ limit, speed }) => {
    const at = new WritingSandboxes(
      [
        { id: 'fast', speed },
        { id: 'slow', speed: 1 },
      ],
      { a: limit * mib },
    )
    await at.clock.advance(Math.ceil((limit * mib * 1.2) / speed) + 1_000)
    expect(at.pauses.map(({ id }) => id)).toEqual(['fast'])
    expect(at.pauses[0]?.bytes).toBeGreaterThan(limit * mib)
    expect(at.pauses[0]?.bytes).toBeLessThan(1.1 * limit * mib)
  },
)

test('two writers are both paused in time, and one that has stopped writing near its limit stays', async () => {
  const limit = 300 * mib
  const at = new WritingSandboxes(
    [
      { id: 'one', speed: mib },
      { id: 'other', speed: mib / 3 },
      { id: 'near', speed: 0, bytes: limit * 0.98 },
    ],
    { a: limit },
  )
  await at.clock.advance(5_000)
  expect(at.pauses.map(({ id }) => id)).toEqual(['one', 'other'])
  for (const { bytes } of at.pauses) expect(bytes).toBeLessThan(1.1 * limit)
})

test('the limit holds on a disk of the container engine, and sandboxes there do not pay for a full server', async () => {
  const limit = 300 * mib
  const at = new WritingSandboxes([{ id: 'one', speed: mib }], { a: limit }, 0, true)
  at.measuringMs = 50
  await at.clock.advance(2_000)
  expect(at.pauses.map(({ id }) => id)).toEqual(['one'])
  expect(at.pauses[0]?.bytes).toBeLessThan(1.1 * limit)

  const others = new WritingSandboxes([{ id: 'large', speed: 0, bytes: 50 * gib }], {}, 0, true)
  others.serverFree = 0
  await others.clock.advance(10_000)
  expect(others.pauses).toEqual([])
})

test('one that is frozen above its limit is paused also when a later measuring was faster', async () => {
  const waiting = ['x', 'y'].map((id) => ({ id, speed: 0 }))
  const at = new WritingSandboxes([...waiting, { id: 'fast', speed: mib, bytes: 290 * mib }], {
    a: 300 * mib,
  })
  // Until then the measuring of the writer waits for them; it begins while the writer is frozen.
  for (const { id } of waiting) at.usageMs[id] = 300
  at.measuringMs = 100
  await at.clock.advance(2_000)
  expect(at.freezes).toContain('fast')
  expect(at.pauses.map(({ id }) => id)).toEqual(['fast'])
})

test('one that is frozen and cannot be paused is left to the reconciler, which continues it', async () => {
  const at = new WritingSandboxes([{ id: 'fast', speed: mib }], { a: 300 * mib })
  at.failure = new Error('the disk is full')
  await at.clock.advance(2_000)
  expect(at.notified).toContain('fast')
})

test('the work of others rarely freezes a sandbox near its limit', async () => {
  const limit = 300 * mib
  const at = new WritingSandboxes(
    [
      { id: 'near', speed: 0, bytes: limit * 0.98 },
      { id: 'large', spec: 'b', speed: mib },
    ],
    { a: limit, b: 90 * gib },
  )
  at.measuringMs = 20
  await at.clock.advance(60_000)
  expect(at.pauses).toEqual([])
  // 20 ms of 220.
  expect(at.freezes.length).toBeLessThan(60_000 / 200)
})

test('the smallest limit of the specs decides, and that for specs without one counts', async () => {
  for (const [limits, max] of [
    [{ b: 50 * gib, a: 300 * mib }, 0],
    [{ b: 50 * gib, a: undefined }, 300 * mib],
  ] as const) {
    const at = new WritingSandboxes([{ id: 'fast', speed: mib }], limits, max)
    await at.clock.advance(20_000)
    expect(at.pauses).toHaveLength(1)
    expect(at.pauses[0]?.bytes).toBeLessThan(600 * mib)
  }
})

test('where no limit is small the disk is looked at every five seconds', async () => {
  for (const limit of [undefined, 50 * gib]) {
    const at = new WritingSandboxes([{ id: 'slow', speed: 1 }], { a: limit })
    await nextTurn()
    await nextTurn()
    expect(at.clock.waits).toEqual([5_000])
  }
})

test('a resumed sandbox is paused again when it keeps clearly more than at the first pause', async () => {
  const at = new WritingSandboxes([{ id: 'a', speed: 100_000 }], { a: 40 * mib })
  await at.clock.advance(5_000)
  expect(at.pauses).toHaveLength(1)
  at.resume('a')
  await at.clock.advance(5_000)
  expect(at.pauses).toHaveLength(2)
  const [first, second] = at.pauses.map(({ bytes }) => bytes)
  expect(Number(second) - Number(first)).toBeGreaterThan(4 * mib)
})

test('below the reserve the sandbox that keeps most is paused, without any limit', async () => {
  const at = new WritingSandboxes(
    [
      { id: 'small', speed: 100 },
      { id: 'large', speed: mib / 8 },
    ],
    {
      a: undefined,
    },
  )
  await at.clock.advance(1_000_000)
  expect(at.pauses.map(({ id }) => id)).toEqual(['large'])
  expect(at.pauses[0]?.bytes).toBeGreaterThan(98 * gib)
})
