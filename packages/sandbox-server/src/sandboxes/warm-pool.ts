import { randomBytes } from 'node:crypto'
import type { Instant } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { hashKey } from '../auth/authenticator.ts'
import { fetchInstance, isSameInstance, probeKey } from '../network/agent-server-probe.ts'
import { decodeEndpoint } from '../network/endpoint.ts'
import { backoffDelay } from './reconcile/backoff-delay.ts'
import type { Reconciler } from './reconcile/reconciler.ts'
import type { SandboxContext } from './state/context.ts'
import { configHash, newSandboxConfig } from './state/sandbox-config.ts'
import { openSecrets, sealSecrets } from './state/sandbox-secrets.ts'
import type { ResolvedSpec } from './state/specs.ts'

type WarmPoolDeps = SandboxContext & { readonly reconciler: Reconciler }

/** First and longest pause before failed sandboxes are created again. */
const retryMs = [5_000, 600_000] as const

/** One that does not answer by then is started again for the one who claims it. */
const answerMs = 1_000

/**
 * Running sandboxes without owner, invisible until they are claimed; their session keys open nothing until
 * then.
 */
export class WarmPool {
  readonly #deps: WarmPoolDeps
  /** Being claimed here. */
  readonly #taken = new Set<string>()
  /** By spec: number of consecutive failures, and when to create again. */
  readonly #failures = new Map<string, { readonly count: number; readonly until: number }>()

  constructor(deps: WarmPoolDeps) {
    this.#deps = deps
  }

  /** Gives a ready sandbox of the current spec to an owner; undefined when there is none. */
  async claim(spec: ResolvedSpec, owner: string, org: string | null): Promise<SandboxRow | undefined> {
    for (const row of await this.#deps.rows.listPooled(spec.id)) {
      if (this.#taken.has(row.id)) continue
      this.#taken.add(row.id)
      try {
        const claimed = await this.#claim(row, spec, owner, org)
        if (claimed !== undefined) return claimed
      } finally {
        this.#taken.delete(row.id)
      }
    }
    return undefined
  }

  /** One round trip, and one write beside it, is all that a claim of one that answers takes. */
  async #claim(row: SandboxRow, spec: ResolvedSpec, owner: string, org: string | null) {
    const { cipher, clock, repository, reconciler } = this.#deps
    const secrets = openSecrets(cipher, row)
    if (secrets === undefined || secrets.key === null || !this.#isFresh(row, spec, secrets)) {
      await this.#discard(row)
      return undefined
    }
    const { key } = secrets
    const sealed = sealSecrets(cipher, secrets)
    const members = { owner, org, used_at: clock.now() * 1000, key_hash: hashKey(key), sealed }
    const [claimed, isReady] = await Promise.all([repository.claim(row, members), this.#ask(row, key)])
    if (claimed === undefined || isReady) return claimed
    // Without an epoch: it is created again for its owner.
    const starting = await repository.update(claimed, { status: 'STARTING', epoch: null })
    if (starting !== undefined) reconciler.notify(row.id)
    return starting ?? claimed
  }

  /** Whether the agent server answers that has accepted its key, or another one accepts it. */
  async #ask(row: SandboxRow, key: string): Promise<boolean> {
    const { fetch, clock, signal, instances } = this.#deps
    const { AGENT_SERVER: url } = decodeEndpoint(row).addresses
    if (url === undefined) return false
    const context = { fetch, clock, signal: AbortSignal.any([signal, clock.timeout(answerMs)]) }
    try {
      const known = instances.find(row)
      const instance = await fetchInstance({ url, key: new Secret(key) }, context)
      if (instance !== undefined && known !== undefined && isSameInstance(instance, known)) return true
      instances.note(row, instance)
      return (await probeKey(url, key, context)).kind === 'ready'
    } catch {
      signal.throwIfAborted()
      return false
    }
  }

  /** Creates what is missing; removes surplus, failed and outdated sandboxes. */
  fill(): Promise<void> {
    return this.#deps.leases.runExclusive('warm pool', () => this.#fill())
  }

  async #fill(): Promise<void> {
    const { rows: allRows, specs } = this.#deps
    const bySpec = Map.groupBy(await allRows.listRunning(null), ({ spec }) => spec)
    for (const spec of specs.list()) {
      const rows = bySpec.get(spec.id) ?? []
      bySpec.delete(spec.id)
      await this.#fillSpec(spec, rows)
    }
    for (const row of [...bySpec.values()].flat()) await this.#discard(row)
  }

  async #fillSpec(spec: ResolvedSpec, rows: readonly SandboxRow[]): Promise<void> {
    const usable = rows.filter((row) => this.#isFresh(row, spec) && !isFailed(row))
    const retained = new Set(usable.slice(0, spec.warm))
    for (const row of rows.filter((row) => !retained.has(row))) await this.#discard(row)
    this.#recordFailures(spec, rows)
    if ((this.#failures.get(spec.id)?.until ?? 0) > this.#deps.clock.now()) return
    for (let count = usable.length; count < spec.warm; count++) await this.#create(spec)
  }

  #recordFailures(spec: ResolvedSpec, rows: readonly SandboxRow[]): void {
    const { clock, log } = this.#deps
    if (rows.some(({ status }) => status === 'RUNNING')) this.#failures.delete(spec.id)
    const failed = rows.find(isFailed)
    if (failed === undefined) return
    const count = (this.#failures.get(spec.id)?.count ?? 0) + 1
    const delay_ms = backoffDelay(retryMs, 2, count - 1)
    this.#failures.set(spec.id, { count, until: clock.now() + delay_ms })
    log('warn', 'a sandbox of the warm pool failed', { spec: spec.id, detail: failed.detail, delay_ms })
  }

  async #create(spec: ResolvedSpec): Promise<void> {
    const { repository, cipher, getEnvironment, clock } = this.#deps
    const id = newSandboxId()
    await repository.add({
      ...newSandboxRow(spec, id, clock.now() * 1000),
      owner: null,
      org: null,
      key_hash: null,
      sealed: sealSecrets(cipher, newSandboxConfig(spec, id, getEnvironment(toPlace(spec)))),
    })
    this.#deps.reconciler.notify(id)
  }

  /** A row that has changed in the meantime, as by a claim, stays until the next fill. */
  async #discard(row: SandboxRow): Promise<void> {
    const changed = await this.#deps.repository.update(row, { wanted: 'gone' })
    if (changed !== undefined) this.#deps.reconciler.notify(row.id)
  }

  #isFresh(row: SandboxRow, spec: ResolvedSpec, secrets = openSecrets(this.#deps.cipher, row)): boolean {
    const hash = configHash(spec, this.#deps.getEnvironment(toPlace(spec)))
    return secrets?.specHash === hash && row.backend === spec.backend
  }
}

/** Lower-case letters, digits and a hyphen: valid for every backend. */
export function newSandboxId(): string {
  return `sb-${randomBytes(12).toString('hex')}`
}

/** The members of a new row that do not depend on its owner. */
export function newSandboxRow(
  spec: ResolvedSpec,
  id: string,
  at: Instant,
): Omit<SandboxRow, 'owner' | 'org' | 'key_hash' | 'sealed'> {
  const members = { id, spec: spec.id, backend: spec.backend, wanted: 'running', status: 'STARTING' } as const
  const times = { created_at: at, changed_at: at, used_at: at }
  return {
    ...members,
    detail: null,
    epoch: null,
    addresses: '{}',
    ...times,
    caught_up_at: null,
    deletes_at: null,
  }
}

function toPlace({ id, backend }: ResolvedSpec): Pick<SandboxRow, 'spec' | 'backend'> {
  return { spec: id, backend }
}

function isFailed({ status }: SandboxRow): boolean {
  return status === 'ERROR' || status === 'MISSING'
}
