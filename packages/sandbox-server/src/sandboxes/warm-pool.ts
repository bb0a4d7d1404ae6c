import { randomBytes } from 'node:crypto'
import type { Instant, Log } from '@slipway/protocol'
import type { SandboxRow, SandboxRows } from '@slipway/storage'
import { Lanes } from '../async/keyed-mutex.ts'
import type { PlacedSpec, Specs } from './specs.ts'
import { type Home, specHash, warmStart } from './state/sandbox-config.ts'
import type { Rows } from './state/sandbox-repository.ts'
import type { Seals } from './state/sandbox-secrets.ts'

export interface PoolOptions {
  readonly table: Pick<SandboxRows, 'running'>
  readonly rows: Rows
  readonly specs: Specs
  readonly seals: Seals
  readonly homeOf: (spec: PlacedSpec) => Home
  readonly log: Log
  /** Milliseconds. */
  readonly now: () => number
  /** Something about a sandbox of the pool has changed. */
  readonly ring: (id: string) => void
  /** First and longest pause before those that failed are made again. */
  readonly retryMs?: readonly [number, number]
}

/**
 * Sandboxes that run before anybody asks for one. They are nobody's: they have neither a session key nor an address for their
 * events, and they are shown to nobody, until one is claimed.
 */
export class Pool {
  readonly #options: PoolOptions
  readonly #lanes = new Lanes()
  /** By spec: since when and how often in a row its sandboxes have failed. */
  readonly #failed = new Map<string, { readonly count: number; readonly until: number }>()

  constructor(options: PoolOptions) {
    this.#options = options
  }

  /**
   * Gives one of a spec to an owner, each to one only; undefined when there is none that is ready. The settings follow by way of the
   * reconciler. Those that were made from what the spec was before are thrown away.
   */
  async claim(spec: PlacedSpec, owner: string, org: string | null): Promise<SandboxRow | undefined> {
    const { rows, ring, now } = this.#options
    for (;;) {
      const row = await rows.claim(spec.id, owner, org, now() * 1000)
      if (row === undefined) return undefined
      const isFresh = this.#isFresh(row, spec)
      if (!isFresh) await rows.change(row, { wanted: 'gone' })
      ring(row.id)
      if (isFresh) return row
    }
  }

  /** Makes what is missing and removes what is too much, failed, or made from what a spec was before. */
  fill(): Promise<void> {
    return this.#lanes.run('', () => this.#fill())
  }

  async #fill(): Promise<void> {
    const { table, specs } = this.#options
    const bySpec = Map.groupBy(await table.running(null), ({ spec }) => spec)
    for (const spec of specs.all()) {
      const rows = bySpec.get(spec.id) ?? []
      bySpec.delete(spec.id)
      await this.#fillOne(spec, rows)
    }
    for (const row of [...bySpec.values()].flat()) await this.#drop(row)
  }

  async #fillOne(spec: PlacedSpec, rows: readonly SandboxRow[]): Promise<void> {
    const good = rows.filter((row) => this.#isFresh(row, spec) && !isBroken(row))
    for (const row of rows.filter((row) => !good.includes(row))) await this.#drop(row)
    for (const row of good.slice(spec.warm)) await this.#drop(row)
    this.#judge(spec, rows)
    if ((this.#failed.get(spec.id)?.until ?? 0) > this.#options.now()) return
    for (let count = good.length; count < spec.warm; count++) await this.#make(spec)
  }

  /** One that fails each time must not be made each time. */
  #judge(spec: PlacedSpec, rows: readonly SandboxRow[]): void {
    const { now, log, retryMs: [first, longest] = [5_000, 600_000] } = this.#options
    if (rows.some(({ status }) => status === 'RUNNING')) this.#failed.delete(spec.id)
    const broken = rows.find(isBroken)
    if (broken === undefined) return
    const count = (this.#failed.get(spec.id)?.count ?? 0) + 1
    const delay_ms = Math.min(longest, first * 2 ** Math.min(count - 1, 20))
    this.#failed.set(spec.id, { count, until: now() + delay_ms })
    log('warn', 'a sandbox of the warm pool failed', { spec: spec.id, detail: broken.detail, delay_ms })
  }

  async #make(spec: PlacedSpec): Promise<void> {
    const { rows, seals, homeOf, now, ring } = this.#options
    const id = newId()
    const kept = warmStart(spec, id, homeOf(spec))
    const at: Instant = now() * 1000
    await rows.add({
      ...newRow(spec, id, at),
      owner: null,
      org: null,
      key_hash: null,
      sealed: seals.seal(kept),
    })
    ring(id)
  }

  async #drop(row: SandboxRow): Promise<void> {
    // One that has been claimed or has moved on in the meantime is looked at again next time.
    const changed = await this.#options.rows.change(row, { wanted: 'gone' })
    if (changed !== undefined) this.#options.ring(row.id)
  }

  #isFresh(row: SandboxRow, spec: PlacedSpec): boolean {
    const kept = this.#options.seals.open(row)
    return kept?.specHash === specHash(spec) && row.backend === spec.backend
  }
}

/** Lower case letters, digits and a hyphen: fits every backend. */
export function newId(): string {
  return `sb-${randomBytes(12).toString('hex')}`
}

/** What a row begins with, whoever it is for. */
export function newRow(
  spec: PlacedSpec,
  id: string,
  at: Instant,
): Omit<SandboxRow, 'owner' | 'org' | 'key_hash' | 'sealed'> {
  const members = { id, spec: spec.id, backend: spec.backend, wanted: 'running', status: 'STARTING' } as const
  const times = { created_at: at, changed_at: at, used_at: at }
  return { ...members, detail: null, epoch: null, addresses: '{}', ...times }
}

function isBroken({ status }: SandboxRow): boolean {
  return status === 'ERROR' || status === 'MISSING'
}
