import { createHash } from 'node:crypto'
import { reach } from '@slipway/http'
import { invalid, type Log, must, Problem, type SandboxInfo } from '@slipway/protocol'
import type { Cipher, Ledger, PageQuery, RowPage, SandboxRow, Scope } from '@slipway/storage'
import { Lanes } from '../async/keyed-mutex.ts'
import { Gate } from '../async/semaphore.ts'
import { hashOf } from '../auth/authenticator.ts'
import type { Backend } from '../backends/backend.ts'
import type { Expose } from '../network/exposed-urls.ts'
import { type CapOptions, Caps } from './concurrency-limit.ts'
import { Watch } from './lifetimes/activity-monitor.ts'
import { idleSecondsOf } from './lifetimes/idle-time.ts'
import { Uses } from './lifetimes/last-use.ts'
import { type Lifetimes, lifetimesOf } from './lifetimes/lifetimes.ts'
import { toBeStarted } from './reconcile/plan.ts'
import { Reconciler } from './reconcile/reconciler.ts'
import { Infos, type Reached } from './sandbox-info.ts'
import type { PlacedSpec, Specs } from './specs.ts'
import { coldStart, type Home } from './state/sandbox-config.ts'
import { isPooled, type OnStep, Rows, type StepNumbers } from './state/sandbox-repository.ts'
import { Seals } from './state/sandbox-secrets.ts'
import { newId, newRow, Pool } from './warm-pool.ts'

export type { Reached } from './sandbox-info.ts'

export interface StartOptions {
  /** Id of a spec; the default one unless given. */
  readonly spec?: string | undefined
  /** A repeat with the same text of the same owner answers the same sandbox; such a one is never taken from the warm pool. */
  readonly idempotencyKey?: string | undefined
  /** 1 to 63 lower-case letters, digits and hyphens; such a one is never taken from the warm pool. */
  readonly id?: string | undefined
}

export interface SandboxesOptions extends Partial<Lifetimes> {
  readonly ledger: Pick<Ledger, 'sandboxes'>
  readonly cipher: Pick<Cipher, 'seal' | 'open'>
  /** By their names; not empty. */
  readonly backends: readonly Backend[]
  readonly specs: Specs
  readonly log: Log
  /** Address of this server as callers reach it, perhaps with a path; asked when it is needed. */
  readonly publicUrl: () => string
  /** Port on which this server listens for its sandboxes. */
  readonly hostPort: () => number
  readonly expose?: Expose
  /** Origins of web pages that may call the agent servers. */
  readonly allowedOrigins?: readonly string[]
  readonly cap?: CapOptions
  /** How long an agent server may take until it answers; 120 s unless given. */
  readonly startMs?: number
  /** Between two comparisons of all; 15 s unless given. */
  readonly reconcileMs?: number
  /** How long `pause` waits; 30 s unless given. */
  readonly answerMs?: number
  readonly pollMs?: readonly [number, number]
  readonly retryMs?: readonly [number, number]
  /** How long one must have been unused to be paused for another, in seconds; 10 unless given. */
  readonly evictIdleSeconds?: number
  readonly fetch?: typeof globalThis.fetch
  /** Milliseconds. */
  readonly now?: () => number
  readonly onStep?: OnStep
  /** Called after one has become RUNNING, and for each that is when `begin` is called. */
  readonly onRunning?: (id: string) => void
}

const defaults = { idleSeconds: 1_200, maxSessionSeconds: 43_200, deleteAfterSeconds: 864_000 }
/** How long the pool waits at most until one that was claimed has its settings. */
const refillMs = 5_000
const idPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * The sandboxes of all owners. A wish is durable before anything is done for it; then a worker for each sandbox makes it true, also
 * after the end of the process at any point. Of two verbs at the same time the later wins, and both succeed.
 */
export class Sandboxes implements AsyncDisposable {
  /** What was done to them, in numbers. */
  readonly steps: StepNumbers
  readonly #options: SandboxesOptions
  readonly #lifetimes: Lifetimes
  readonly #backends: ReadonlyMap<string, Backend>
  readonly #seals: Seals
  readonly #rows: Rows
  readonly #infos: Infos
  readonly #reconciler: Reconciler
  readonly #pool: Pool
  readonly #caps: Caps
  readonly #uses: Uses
  readonly #watch: Watch
  readonly #owners = new Lanes()
  readonly #stopping = new AbortController()
  readonly #fetch: typeof globalThis.fetch
  readonly #now: () => number
  #sweeping: Promise<void> = Promise.resolve()
  #looking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: SandboxesOptions) {
    const { ledger, cipher, backends, specs, log, startMs = 120_000, now = Date.now, fetch = reach } = options
    this.#options = options
    this.#fetch = fetch
    this.#now = now
    this.#lifetimes = { ...defaults, ...given(options) }
    this.#backends = new Map(backends.map((backend) => [backend.name, backend]))
    this.#seals = new Seals(cipher)
    this.#rows = new Rows(ledger.sandboxes, options.onStep, options.onRunning)
    this.steps = this.#rows.numbers
    this.#infos = new Infos({
      specs,
      backends: this.#backends,
      seals: this.#seals,
      fetch,
      lifetimesOf: (row) => lifetimesOf(specs.find(row.spec), this.#lifetimes),
      publicUrl: options.publicUrl,
      expose: options.expose ?? 'auto',
    })
    this.#reconciler = new Reconciler({
      all: () => ledger.sandboxes.all(),
      rows: this.#rows,
      backends: this.#backends,
      seals: this.#seals,
      homeOf: (row) => this.#home(specs.find(row.spec), row.backend),
      fetch,
      log,
      now,
      graceMs: startMs,
      pollMs: options.pollMs ?? [20, 500],
      retryMs: options.retryMs ?? [1_000, 60_000],
      gates: { start: new Gate(8), change: new Gate(8), look: new Gate(16) },
    })
    this.#pool = new Pool({
      table: ledger.sandboxes,
      rows: this.#rows,
      specs,
      seals: this.#seals,
      homeOf: (spec) => this.#home(spec, spec.backend),
      log,
      now,
      ring: (id) => void this.#reconciler.ring(id),
    })
    this.#uses = new Uses({ rows: ledger.sandboxes, log, now })
    this.#caps = new Caps(options.cap ?? { maxSandboxes: 0, policy: 'refuse' }, {
      running: (owner) => ledger.sandboxes.running(owner),
      isIdle: (row) => this.#isIdle(row, options.evictIdleSeconds ?? 10),
      pause: (row) => this.pause(row),
    })
    this.#watch = new Watch({
      rows: this.#rows,
      log,
      now,
      reached: (row) => this.reached(row),
      lifetimesOf: (row) => lifetimesOf(specs.find(row.spec), this.#lifetimes),
      lastUse: (row) => this.#uses.last(row),
      ring: (id) => void this.#reconciler.ring(id),
      ask: { fetch, signal: this.#stopping.signal },
    })
  }

  /**
   * Writes the wish for a sandbox and answers its row, STARTING. A Problem `invalid` for a spec or id that cannot be, `too_many`
   * when as many of the owner run as may, `conflict` when the id is another one's.
   */
  async start(scope: Scope, options: StartOptions = {}): Promise<SandboxRow> {
    const owner = must(scope.owner, 'the owner of a sandbox')
    const spec = this.#options.specs.choose(options.spec)
    const id = chosenId(scope, options)
    return await this.#owners.run(owner, async () => {
      const known = id === undefined ? undefined : await this.#rows.get(id)
      if (known !== undefined) return asked(known, scope, spec)
      await this.#caps.room(owner)
      const org = scope.org ?? null
      const warm = id === undefined && spec.warm > 0 ? await this.#pool.claim(spec, owner, org) : undefined
      if (spec.warm > 0) this.#later(this.#refill(warm?.id))
      return warm ?? (await this.#startCold(id ?? newId(), scope, spec))
    })
  }

  /** A Problem `not_found` for one that is not there, is going, or is another's. */
  async get(scope: Scope, id: string): Promise<SandboxRow> {
    const row = await this.#rows.get(id)
    if (row === undefined || !isOf(row, scope)) throw notFound()
    return row
  }

  /** Whoever owns them, in the order asked for; those that are going are not there. */
  async find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    const rows = await this.#options.ledger.sandboxes.get(ids)
    return rows.map((row) => (row === undefined || isPooled(row) || row.wanted === 'gone' ? undefined : row))
  }

  /** The newest first. */
  async search(scope: Scope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    must(scope.owner, 'the owner of sandboxes')
    return await this.#options.ledger.sandboxes.search(scope, query)
  }

  /**
   * Resolves when everything in it stands still; one that is on its way is paused too. A Problem `conflict` in ERROR and MISSING,
   * `unavailable` when the backend cannot do it now: it is done later then.
   */
  async pause(row: SandboxRow): Promise<void> {
    await this.#wish(row, (now) => {
      if (now.wanted === 'paused') return undefined
      if (now.status === 'ERROR' || now.status === 'MISSING') throw notPausable(now)
      return { wanted: 'paused' }
    })
    await this.#await(row.id, (now) => {
      if (now === undefined || now.wanted !== 'paused' || now.status === 'PAUSED') return true
      if (now.status === 'ERROR' || now.status === 'MISSING') throw notPausable(now)
      return false
    })
  }

  /**
   * Resolves when it is on its way (see `until`), and at once when it is STARTING or RUNNING. A Problem `conflict` when nothing is
   * left of it, `too_many` when as many of the owner run as may.
   */
  async resume(row: SandboxRow): Promise<void> {
    await this.#owners.run(row.owner ?? '', async () => {
      const current = await this.#current(row.id)
      if (isGoing(current)) return
      if (current.status === 'MISSING') throw notResumable(current)
      await this.#caps.room(row.owner, row.id)
      await this.#wish(row, (now) => {
        if (isGoing(now)) return undefined
        if (now.status === 'MISSING') throw notResumable(now)
        const used_at = this.#now() * 1000
        const epoch = now.epoch === null ? null : toBeStarted
        return { wanted: 'running', status: 'STARTING', epoch, detail: null, used_at }
      })
    })
    await this.#await(row.id, (now) => {
      if (now?.status === 'MISSING') throw notResumable(now)
      return now?.status !== 'STARTING' || (now.epoch !== null && now.epoch !== toBeStarted)
    }).catch((error: unknown) => {
      // It is on its way, and is tried again.
      if (!(error instanceof Problem) || error.code !== 'unavailable') throw error
    })
  }

  /** Resolves when nobody sees it any more; what is left of it goes behind. Nothing when it is gone already. */
  async remove(row: SandboxRow): Promise<void> {
    await this.#wish(row, (now) => (now.wanted === 'gone' ? undefined : { wanted: 'gone' })).catch(
      (error: unknown) => {
        if (!(error instanceof Problem) || error.code !== 'not_found') throw error
      },
    )
  }

  /** The sandbox whose session key it is, whatever its status; not one that is going. */
  async byKey(key: string): Promise<SandboxRow | undefined> {
    const row = await this.#options.ledger.sandboxes.byKeyHash(hashOf(key))
    return row === undefined || row.wanted === 'gone' || isPooled(row) ? undefined : row
  }

  /**
   * Resolves when it is as it is wanted (RUNNING or PAUSED), or is ERROR or MISSING. A Problem `not_found` when it is deleted;
   * rejects with the signal's reason.
   */
  async until(id: string, signal: AbortSignal): Promise<SandboxRow> {
    const either = AbortSignal.any([signal, this.#stopping.signal])
    return await this.#rows.changes.until(
      id,
      async () => {
        const row = await this.#current(id)
        const isThere =
          row.status === (row.wanted === 'running' ? 'RUNNING' : 'PAUSED') ||
          row.status === 'ERROR' ||
          row.status === 'MISSING'
        return isThere ? row : undefined
      },
      either,
    )
  }

  /** Undefined unless it is RUNNING, and is to stay so. */
  reached(row: SandboxRow): Reached | undefined {
    return this.#infos.reached(row)
  }

  /** Where it is reached from this machine, by name of the wire; empty unless it runs. */
  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    return this.#infos.addresses(row)
  }

  /** As its owner sees it (wire 2.5). The key and the addresses are there only while it runs. */
  info(row: SandboxRow): Promise<SandboxInfo> {
    return this.#infos.info(row)
  }

  /** Somebody used it: its idle time begins anew. */
  touch(id: string): void {
    this.#uses.touch(id)
  }

  /** About how many something is to be done at the moment. */
  get busy(): number {
    return this.#reconciler.busy
  }

  /**
   * Compares everything with what is there, and goes on doing so. Resolves when each difference has been looked at once, or after
   * ten seconds: what takes longer goes on behind.
   */
  async begin(): Promise<void> {
    const rung = await this.#sweep()
    const looked = Promise.all(rung.map((worker) => worker.settled()))
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise((resolve) => {
      timer = setTimeout(resolve, 10_000)
    })
    await Promise.race([looked, limit])
    clearTimeout(timer)
    await this.#tellRunning()
    this.#next()
  }

  /** Stops looking; the sandboxes stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new Problem('unavailable', 'The server is stopping'))
    clearTimeout(this.#timer)
    await this.#reconciler[Symbol.asyncDispose]()
    await this.#sweeping
    await this.#looking
    await this.#uses[Symbol.asyncDispose]()
  }

  async #startCold(id: string, scope: Scope, spec: PlacedSpec): Promise<SandboxRow> {
    const kept = coldStart(spec, id, this.#home(spec, spec.backend))
    const row: SandboxRow = {
      ...newRow(spec, id, this.#now() * 1000),
      owner: scope.owner,
      org: scope.org ?? null,
      key_hash: hashOf(kept.key),
      sealed: this.#seals.seal(kept),
    }
    if ((await this.#rows.add(row)) === 'known')
      return asked(must(await this.#rows.get(id), 'the sandbox of that id'), scope, spec)
    this.#reconciler.ring(id)
    return row
  }

  /** Writes a wish on the row as it is at that moment; undefined: it is so already. */
  async #wish(
    { id }: SandboxRow,
    decide: (now: SandboxRow) => Parameters<Rows['change']>[1] | undefined,
  ): Promise<void> {
    for (;;) {
      const now = await this.#current(id)
      const members = decide(now)
      if (members === undefined || (await this.#rows.change(now, members)) !== undefined) break
    }
    this.#reconciler.ring(id)
  }

  /** Only then: a start takes all there is of a small machine, and somebody waits for the one that was claimed. */
  async #refill(claimed: string | undefined): Promise<void> {
    const soon = AbortSignal.any([AbortSignal.timeout(refillMs), this.#stopping.signal])
    if (claimed !== undefined) await this.until(claimed, soon).catch(() => undefined)
    if (!this.#stopping.signal.aborted) await this.#pool.fill()
  }

  async #current(id: string): Promise<SandboxRow> {
    const [row] = await this.find([id])
    if (row === undefined) throw notFound()
    return row
  }

  /** Waits for a row that fits; a Problem `unavailable` when its backend fails or it takes too long. */
  async #await(id: string, fits: (row: SandboxRow | undefined) => boolean): Promise<void> {
    const limit = AbortSignal.timeout(this.#options.answerMs ?? 30_000)
    const signal = AbortSignal.any([limit, this.#stopping.signal])
    const look = async () => {
      const [row] = await this.find([id])
      if (fits(row)) return true
      const failure = this.#reconciler.failure(id)
      if (failure !== undefined) throw unavailable(failure)
      return undefined
    }
    try {
      await this.#rows.changes.until(id, look, signal)
    } catch (error) {
      if (limit.aborted && error === limit.reason) throw unavailable('it takes long')
      throw error
    }
  }

  async #tellRunning(): Promise<void> {
    const { onRunning, ledger } = this.#options
    if (onRunning === undefined) return
    for await (const { id, status } of ledger.sandboxes.all()) if (status === 'RUNNING') onRunning(id)
  }

  async #sweep(): ReturnType<Reconciler['sweep']> {
    const visits: SandboxRow[] = []
    const rung = await this.#reconciler.sweep((row) => void visits.push(row))
    if (this.#stopping.signal.aborted) return rung
    this.#look(visits)
    await this.#pool.fill()
    return rung
  }

  /** Asks the agent servers; a sweep does not wait for those that are slow to answer. */
  #look(rows: readonly SandboxRow[]): void {
    this.#looking ??= this.#watch
      .visit(rows)
      .catch((error: unknown) => this.#tell(error))
      .finally(() => {
        this.#looking = undefined
      })
  }

  #next(): void {
    if (this.#stopping.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#sweeping = this.#sweep()
        .then(() => this.#next())
        .catch((error: unknown) => {
          this.#tell(error)
          this.#next()
        })
    }, this.#options.reconcileMs ?? 15_000)
  }

  #later(work: Promise<void>): void {
    work.catch((error: unknown) => this.#tell(error))
  }

  #tell(error: unknown): void {
    if (this.#stopping.signal.aborted) return
    this.#options.log('error', 'the sandboxes could not be looked after', { error: String(error) })
  }

  async #isIdle(row: SandboxRow, seconds: number): Promise<boolean> {
    const reached = this.reached(row)
    if (reached === undefined || this.#now() * 1000 - this.#uses.last(row) < seconds * 1_000_000) return false
    const ask = { fetch: this.#fetch, signal: this.#stopping.signal }
    const idle = await idleSecondsOf(reached.url, reached.key.open(), ask)
    return idle !== undefined && idle >= seconds
  }

  #home(spec: PlacedSpec | undefined, backend: string): Home {
    const url = this.#backends.get(backend)?.hostUrl(this.#options.hostPort(), spec?.network ?? 'shared')
    return {
      webhooks: url === undefined ? undefined : `${url}/api/v1/webhooks`,
      origins: this.#options.allowedOrigins ?? [],
      idleSeconds: lifetimesOf(spec, this.#lifetimes).idleSeconds,
    }
  }
}

function given({
  idleSeconds,
  maxSessionSeconds,
  deleteAfterSeconds,
}: Partial<Lifetimes>): Partial<Lifetimes> {
  return {
    ...(idleSeconds === undefined ? {} : { idleSeconds }),
    ...(maxSessionSeconds === undefined ? {} : { maxSessionSeconds }),
    ...(deleteAfterSeconds === undefined ? {} : { deleteAfterSeconds }),
  }
}

function chosenId(scope: Scope, { id, idempotencyKey }: StartOptions): string | undefined {
  if (id !== undefined) {
    if (!idPattern.test(id)) throw invalid(['sandbox_id'], 'An id is 1 to 63 of a-z, 0-9 and hyphens')
    return id
  }
  if (idempotencyKey === undefined) return undefined
  const owned = JSON.stringify([scope.owner, scope.org ?? null, idempotencyKey])
  return `sb-${createHash('sha256').update(owned).digest('hex').slice(0, 32)}`
}

/** The sandbox that is there already, when it is the one that is asked for. */
function asked(row: SandboxRow, scope: Scope, spec: PlacedSpec): SandboxRow {
  if (row.wanted === 'gone') throw new Problem('conflict', 'The sandbox of this id is just being deleted')
  if (!isOf(row, scope) || row.spec !== spec.id)
    throw new Problem('conflict', 'There is another sandbox with this id')
  return row
}

function isOf(row: SandboxRow, { owner, org }: Scope): boolean {
  const isOwn = !isPooled(row) && row.owner === owner && (org === undefined || row.org === org)
  return isOwn && row.wanted !== 'gone'
}

function isGoing({ wanted, status }: SandboxRow): boolean {
  return wanted === 'running' && (status === 'STARTING' || status === 'RUNNING')
}

function notFound(): Problem {
  return new Problem('not_found', 'There is no such sandbox')
}

function notPausable({ status }: SandboxRow): Problem {
  return new Problem('conflict', `A sandbox in ${status} cannot be paused`)
}

function notResumable({ status }: SandboxRow): Problem {
  const words = 'Nothing is left of the sandbox that could be resumed'
  return new Problem('conflict', words, undefined, {
    code: 'runtime_not_resumable',
    current_status: status,
  })
}

function unavailable(why: string): Problem {
  return new Problem('unavailable', `Not yet: ${why}. It is done as soon as it can be.`)
}
