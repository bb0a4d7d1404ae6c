import { randomBytes } from 'node:crypto'
import type { Instant, LogFunction } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import type { SandboxRow, SandboxRows } from '@slipway/storage'
import type { ResolvedSpec, SandboxSpecs } from './specs.ts'
import { pooledSandboxConfig, type SandboxEnvironment, specHash } from './state/sandbox-config.ts'
import type { SandboxRepository } from './state/sandbox-repository.ts'
import type { SandboxSecretsCipher } from './state/sandbox-secrets.ts'

export interface WarmPoolOptions {
  readonly sandboxRows: Pick<SandboxRows, 'listRunning'>
  readonly repository: SandboxRepository
  readonly specs: SandboxSpecs
  readonly secretsCipher: SandboxSecretsCipher
  readonly getEnvironment: (spec: ResolvedSpec) => SandboxEnvironment
  readonly log: LogFunction
  /** Milliseconds. */
  readonly now: () => number
  /** Something about a sandbox of the pool has changed. */
  readonly notify: (id: string) => void
  /** First and longest pause before those that failed are made again. */
  readonly retryMs?: readonly [number, number]
}

/**
 * Sandboxes that run before anybody asks for one. They are nobody's: they have neither a session key nor an address for their
 * events, and they are shown to nobody, until one is claimed.
 */
export class WarmPool {
  readonly #options: WarmPoolOptions
  readonly #mutex = new Mutex()
  /** By spec: since when and how often in a row its sandboxes have failed. */
  readonly #failures = new Map<string, { readonly count: number; readonly until: number }>()

  constructor(options: WarmPoolOptions) {
    this.#options = options
  }

  /**
   * Gives one of a spec to an owner, each to one only; undefined when there is none that is ready. The settings follow by way of the
   * reconciler. Those that were made from what the spec was before are thrown away.
   */
  async claim(spec: ResolvedSpec, owner: string, org: string | null): Promise<SandboxRow | undefined> {
    const { repository, notify, now } = this.#options
    for (;;) {
      const row = await repository.claim(spec.id, owner, org, now() * 1000)
      if (row === undefined) return undefined
      const isFresh = this.#isFresh(row, spec)
      if (!isFresh) await repository.update(row, { wanted: 'gone' })
      notify(row.id)
      if (isFresh) return row
    }
  }

  /** Makes what is missing and removes what is too much, failed, or made from what a spec was before. */
  fill(): Promise<void> {
    return this.#mutex.runExclusive(() => this.#fill())
  }

  async #fill(): Promise<void> {
    const { sandboxRows, specs } = this.#options
    const bySpec = Map.groupBy(await sandboxRows.listRunning(null), ({ spec }) => spec)
    for (const spec of specs.list()) {
      const rows = bySpec.get(spec.id) ?? []
      bySpec.delete(spec.id)
      await this.#fillSpec(spec, rows)
    }
    for (const row of [...bySpec.values()].flat()) await this.#discard(row)
  }

  async #fillSpec(spec: ResolvedSpec, rows: readonly SandboxRow[]): Promise<void> {
    const usable = rows.filter((row) => this.#isFresh(row, spec) && !isFailed(row))
    for (const row of rows.filter((row) => !usable.includes(row))) await this.#discard(row)
    for (const row of usable.slice(spec.warm)) await this.#discard(row)
    this.#recordFailures(spec, rows)
    if ((this.#failures.get(spec.id)?.until ?? 0) > this.#options.now()) return
    for (let count = usable.length; count < spec.warm; count++) await this.#create(spec)
  }

  /** One that fails each time must not be made each time. */
  #recordFailures(spec: ResolvedSpec, rows: readonly SandboxRow[]): void {
    const { now, log, retryMs: [first, longest] = [5_000, 600_000] } = this.#options
    if (rows.some(({ status }) => status === 'RUNNING')) this.#failures.delete(spec.id)
    const failed = rows.find(isFailed)
    if (failed === undefined) return
    const count = (this.#failures.get(spec.id)?.count ?? 0) + 1
    const delay_ms = Math.min(longest, first * 2 ** Math.min(count - 1, 20))
    this.#failures.set(spec.id, { count, until: now() + delay_ms })
    log('warn', 'a sandbox of the warm pool failed', { spec: spec.id, detail: failed.detail, delay_ms })
  }

  async #create(spec: ResolvedSpec): Promise<void> {
    const { repository, secretsCipher, getEnvironment, now, notify } = this.#options
    const id = newSandboxId()
    const sandboxSecrets = pooledSandboxConfig(spec, id, getEnvironment(spec))
    const at: Instant = now() * 1000
    await repository.add({
      ...newSandboxRow(spec, id, at),
      owner: null,
      org: null,
      key_hash: null,
      sealed: secretsCipher.seal(sandboxSecrets),
    })
    notify(id)
  }

  async #discard(row: SandboxRow): Promise<void> {
    // One that has been claimed or has moved on in the meantime is looked at again next time.
    const changed = await this.#options.repository.update(row, { wanted: 'gone' })
    if (changed !== undefined) this.#options.notify(row.id)
  }

  #isFresh(row: SandboxRow, spec: ResolvedSpec): boolean {
    const sandboxSecrets = this.#options.secretsCipher.open(row)
    return sandboxSecrets?.specHash === specHash(spec) && row.backend === spec.backend
  }
}

/** Lower case letters, digits and a hyphen: fits every backend. */
export function newSandboxId(): string {
  return `sb-${randomBytes(12).toString('hex')}`
}

/** What a row begins with, whoever it is for. */
export function newSandboxRow(
  spec: ResolvedSpec,
  id: string,
  at: Instant,
): Omit<SandboxRow, 'owner' | 'org' | 'key_hash' | 'sealed'> {
  const members = { id, spec: spec.id, backend: spec.backend, wanted: 'running', status: 'STARTING' } as const
  const times = { created_at: at, changed_at: at, used_at: at }
  return { ...members, detail: null, epoch: null, addresses: '{}', ...times }
}

function isFailed({ status }: SandboxRow): boolean {
  return status === 'ERROR' || status === 'MISSING'
}
