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
}

/** Sandboxes that write to one disk of 100 GiB at a constant speed, from the start of the clock on. */
class WritingSandboxes {
  readonly clock = new FakeClock()
  readonly guard: DiskGuard
  /** Each pause: which sandbox, and what it kept. */
  readonly pauses: { readonly id: string; readonly bytes: number }[] = []
  readonly #rows: { id: string; spec: string; speed: number; wanted: string; status: string }[]
  readonly #bytes = new Map<string, number>()
  #writtenMs = 0

  constructor(writers: readonly Writer[], limits: Readonly<Record<string, number | undefined>>, max = 0) {
    this.#rows = writers.map((one) => ({ spec: 'a', ...one, wanted: 'running', status: 'RUNNING' }))
    const specs = Object.entries(limits).map(([id, disk_bytes]) => ({ id, resources: { disk_bytes } }))
    const backend = { diskUsage: async (id: string) => this.#write().get(id) }
    const rows = this.#rows
    const deps = {
      clock: this.clock,
      signal: new AbortController().signal,
      log: () => {},
      diskReserve: { directory: '/', bytes: gib },
      maxDiskBytes: max,
      specs: { list: () => specs, find: (id: string) => specs.find((spec) => spec.id === id) },
      backends: { get: () => backend },
      reconciler: { notify: () => {} },
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
    const statfs = async () => {
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
    const bytes = this.#write().get(id) ?? 0
    this.pauses.push({ id, bytes })
    for (const row of this.#rows)
      if (row.id === id) Object.assign(row, { wanted: 'paused', status: 'PAUSED' })
    return {}
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

test.each([40, 300, 1024])(
  'a fast writer under a limit of %i MiB is paused before it keeps twice that',
  async (limit) => {
    const at = new WritingSandboxes(
      [
        { id: 'fast', speed: limit * 1200 },
        { id: 'slow', speed: 1 },
      ],
      {
        a: limit * mib,
      },
    )
    await at.clock.advance(20_000)
    expect(at.pauses.map(({ id }) => id)).toEqual(['fast'])
    expect(at.pauses[0]?.bytes).toBeGreaterThan(limit * mib)
    expect(at.pauses[0]?.bytes).toBeLessThan(2 * limit * mib)
  },
)

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
