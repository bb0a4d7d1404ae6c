import type { AppOptions } from '@slipway/http'
import type { Instant, LogFunction, Route } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { type Clock, repeat } from '@slipway/shared/time'
import { type AuditRows, AuditTrail } from '@slipway/storage/control-plane'

type OpenTrail = NonNullable<AppOptions['openTrail']>
type RequestTrail = ReturnType<OpenTrail>

/** Days that lines are kept. */
export const auditDays = 365
/** Lines of requests without a valid key that are kept: anyone can cause them. */
const maxWithoutCaller = 10_000
/** Further ones are only in the log while this number waits to be written. */
const maxWaiting = 1_000
const pruneMs = 3_600_000
const dayMicros = 86_400_000_000

/** The lines of the audit in the database of the control plane; see `AuditTrail`. */
export class AuditLog implements AsyncDisposable {
  readonly #rows: AuditRows
  readonly #clock: Clock
  readonly #log: LogFunction
  readonly #waiting = new Set<Promise<void>>()
  readonly #pruning: Disposable
  #newest: Instant = 0

  constructor(deps: { readonly rows: AuditRows; readonly clock: Clock; readonly log: LogFunction }) {
    this.#rows = deps.rows
    this.#clock = deps.clock
    this.#log = deps.log
    const timer = repeat(this.#clock, pruneMs, () => this.#prune())
    this.#pruning = { [Symbol.dispose]: () => timer.cancel() }
    this.#prune()
  }

  /** For the options of `createApp`. */
  readonly openTrail = (name: string, route: Route, request_id: string): RequestTrail => {
    const { method, path, audit, tag } = route
    const declared = typeof audit === 'object' ? audit : undefined
    const target_type = declared?.target ?? tag
    // Lines of one millisecond are in their order.
    this.#newest = Math.max(this.#clock.now() * 1000, this.#newest + 1)
    const trail = new AuditTrail({ action: name, method, route: path, target_type, request_id }, this.#newest)
    return {
      run: (work) => trail.run(work),
      setInput: ({ params, body }) => {
        if (declared?.id !== undefined) trail.target = readTarget(declared.id, params, body)
      },
      end: (entry) => {
        const { conversation, sandbox, status } = entry
        trail.setIds({ conversation: conversation ?? null, sandbox: sandbox ?? null })
        trail.isEnded = true
        this.#put(trail, status)
      },
    }
  }

  get rows(): AuditRows {
    return this.#rows
  }

  /** Resolves when the lines of the requests that have been answered are stored. */
  async settle(): Promise<void> {
    await Promise.all(this.#waiting)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pruning[Symbol.dispose]()
    await this.settle()
  }

  #put(trail: AuditTrail, status: number): void {
    if (trail.toRow().caller === null && this.#waiting.size >= maxWaiting) return
    const put = async () => await this.#rows.put(trail.toRow([], status))
    this.#track(trail.settle().then(put), 'a line of the audit was not stored')
  }

  #prune(): void {
    const before = this.#clock.now() * 1000 - auditDays * dayMicros
    this.#track(this.#rows.prune(before, maxWithoutCaller), 'old lines of the audit were not removed')
  }

  #track(work: Promise<void>, failure: string): void {
    const done = work
      .catch((error: unknown) => this.#log('error', failure, { error: String(error) }))
      .finally(() => this.#waiting.delete(done))
    this.#waiting.add(done)
  }
}

function readTarget(name: string, params: unknown, body: unknown): string | undefined {
  const value = ownMember(Object(params), name) ?? ownMember(Object(body), name)
  return typeof value === 'string' ? value : undefined
}
