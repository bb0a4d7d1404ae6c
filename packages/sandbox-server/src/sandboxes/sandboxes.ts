import { createHash } from 'node:crypto'
import { unixFetch } from '@slipway/http'
import { invalidInput, type LogFunction, must, Problem, type SandboxInfo } from '@slipway/protocol'
import { KeyedMutex, Semaphore } from '@slipway/shared/async'
import {
  type Cipher,
  type ControlPlaneStore,
  ownedBy,
  type PageQuery,
  type RowPage,
  type SandboxRow,
  type Scope,
} from '@slipway/storage'
import { hashKey } from '../auth/authenticator.ts'
import type { Backend } from '../backends/backend.ts'
import type { Expose } from '../network/exposed-urls.ts'
import { ConcurrencyLimit, type ConcurrencyLimitOptions } from './concurrency-limit.ts'
import { ActivityMonitor } from './lifetimes/activity-monitor.ts'
import { fetchIdleSeconds } from './lifetimes/idle-time.ts'
import { LastUseTracker } from './lifetimes/last-use.ts'
import { type Lifetimes, resolveLifetimes } from './lifetimes/lifetimes.ts'
import { restartEpoch } from './reconcile/plan.ts'
import { Reconciler } from './reconcile/reconciler.ts'
import { type SandboxConnection, SandboxInfoReader } from './sandbox-info.ts'
import type { ResolvedSpec, SandboxSpecs } from './specs.ts'
import { newSandboxConfig, type SandboxEnvironment } from './state/sandbox-config.ts'
import { isPooled, type OnStep, SandboxRepository, type StepMetrics } from './state/sandbox-repository.ts'
import { SandboxSecretsCipher } from './state/sandbox-secrets.ts'
import { newSandboxId, newSandboxRow, WarmPool } from './warm-pool.ts'

export type { SandboxConnection } from './sandbox-info.ts'

export interface StartSandboxOptions {
  /** Id of a spec; the default one unless given. */
  readonly spec?: string | undefined
  /** A repeat with the same text of the same owner answers the same sandbox; such a one is never taken from the warm pool. */
  readonly idempotencyKey?: string | undefined
  /** 1 to 63 lower-case letters, digits and hyphens; such a one is never taken from the warm pool. */
  readonly id?: string | undefined
}

export interface SandboxesOptions extends Partial<Lifetimes> {
  readonly controlPlane: Pick<ControlPlaneStore, 'sandboxes'>
  readonly cipher: Pick<Cipher, 'seal' | 'open'>
  /** By their names; not empty. */
  readonly backends: readonly Backend[]
  readonly specs: SandboxSpecs
  readonly log: LogFunction
  /** Address of this server as callers reach it, perhaps with a path; asked when it is needed. */
  readonly publicUrl: () => string
  /** Port on which this server listens for its sandboxes. */
  readonly hostPort: () => number
  readonly expose?: Expose
  /** Origins of web pages that may call the agent servers. */
  readonly allowedOrigins?: readonly string[]
  readonly cap?: ConcurrencyLimitOptions
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
const refillWaitMs = 5_000
const idPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * The sandboxes of all owners. A wish is durable before anything is done for it; then a worker for each sandbox makes it true, also
 * after the end of the process at any point. Of two verbs at the same time the later wins, and both succeed.
 */
export class Sandboxes implements AsyncDisposable {
  /** What was done to them, in numbers. */
  readonly steps: StepMetrics
  readonly #options: SandboxesOptions
  readonly #lifetimes: Lifetimes
  readonly #backends: ReadonlyMap<string, Backend>
  readonly #secretsCipher: SandboxSecretsCipher
  readonly #repository: SandboxRepository
  readonly #infoReader: SandboxInfoReader
  readonly #reconciler: Reconciler
  readonly #pool: WarmPool
  readonly #concurrencyLimit: ConcurrencyLimit
  readonly #lastUse: LastUseTracker
  readonly #activityMonitor: ActivityMonitor
  readonly #ownerMutex = new KeyedMutex()
  readonly #stopping = new AbortController()
  readonly #fetch: typeof globalThis.fetch
  readonly #now: () => number
  #reconciling: Promise<void> = Promise.resolve()
  #checkingActivity: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: SandboxesOptions) {
    const {
      controlPlane,
      cipher,
      backends,
      specs,
      log,
      startMs = 120_000,
      now = Date.now,
      fetch = unixFetch,
    } = options
    this.#options = options
    this.#fetch = fetch
    this.#now = now
    this.#lifetimes = { ...defaults, ...definedLifetimes(options) }
    this.#backends = new Map(backends.map((backend) => [backend.name, backend]))
    this.#secretsCipher = new SandboxSecretsCipher(cipher)
    this.#repository = new SandboxRepository(controlPlane.sandboxes, options.onStep, options.onRunning)
    this.steps = this.#repository.metrics
    this.#infoReader = new SandboxInfoReader({
      specs,
      backends: this.#backends,
      secretsCipher: this.#secretsCipher,
      fetch,
      getLifetimes: (row) => resolveLifetimes(specs.find(row.spec), this.#lifetimes),
      publicUrl: options.publicUrl,
      expose: options.expose ?? 'auto',
    })
    this.#reconciler = new Reconciler({
      iterateRows: () => controlPlane.sandboxes.iterateAll(),
      repository: this.#repository,
      backends: this.#backends,
      secretsCipher: this.#secretsCipher,
      getEnvironment: (row) => this.#environment(specs.find(row.spec), row.backend),
      fetch,
      log,
      now,
      graceMs: startMs,
      pollMs: options.pollMs ?? [20, 500],
      retryMs: options.retryMs ?? [1_000, 60_000],
      semaphores: { start: new Semaphore(8), change: new Semaphore(8), look: new Semaphore(16) },
    })
    this.#pool = new WarmPool({
      sandboxRows: controlPlane.sandboxes,
      repository: this.#repository,
      specs,
      secretsCipher: this.#secretsCipher,
      getEnvironment: (spec) => this.#environment(spec, spec.backend),
      log,
      now,
      notify: (id) => void this.#reconciler.notify(id),
    })
    this.#lastUse = new LastUseTracker({ rows: controlPlane.sandboxes, log, now })
    this.#concurrencyLimit = new ConcurrencyLimit(options.cap ?? { maxSandboxes: 0, policy: 'refuse' }, {
      listRunning: (owner) => controlPlane.sandboxes.listRunning(owner),
      isIdle: (row) => this.#isIdle(row, options.evictIdleSeconds ?? 10),
      pause: (row) => this.pause(row),
    })
    this.#activityMonitor = new ActivityMonitor({
      repository: this.#repository,
      log,
      now,
      getConnection: (row) => this.getConnection(row),
      getLifetimes: (row) => resolveLifetimes(specs.find(row.spec), this.#lifetimes),
      lastUse: (row) => this.#lastUse.lastUse(row),
      notify: (id) => void this.#reconciler.notify(id),
      probeContext: { fetch, signal: this.#stopping.signal },
    })
  }

  /**
   * Writes the wish for a sandbox and answers its row, STARTING. A Problem `invalid` for a spec or id that cannot be, `too_many`
   * when as many of the owner run as may, `conflict` when the id is another one's.
   */
  async start(scope: Scope, options: StartSandboxOptions = {}): Promise<SandboxRow> {
    const owner = must(scope.owner, 'the owner of a sandbox')
    const spec = this.#options.specs.resolve(options.spec)
    const id = requestedId(scope, options)
    return await this.#ownerMutex.runExclusive(owner, async () => {
      const existing = id === undefined ? undefined : await this.#repository.get(id)
      if (existing !== undefined) return requireSameSandbox(existing, scope, spec)
      await this.#concurrencyLimit.ensureCapacity(owner)
      const org = scope.org ?? null
      const pooled = id === undefined && spec.warm > 0 ? await this.#pool.claim(spec, owner, org) : undefined
      if (spec.warm > 0) this.#runInBackground(this.#refillPool(pooled?.id))
      return pooled ?? (await this.#createSandbox(id ?? newSandboxId(), scope, spec))
    })
  }

  /** A Problem `not_found` for one that is not there, is going, or is another's. */
  async get(scope: Scope, id: string): Promise<SandboxRow> {
    const row = await this.#repository.get(id)
    if (row === undefined || !isVisibleTo(row, scope)) throw notFoundProblem()
    return row
  }

  /** Whoever owns them, in the order asked for; those that are going are not there. */
  async find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    const rows = await this.#options.controlPlane.sandboxes.get(ids)
    return rows.map((row) => (row === undefined || isPooled(row) || row.wanted === 'gone' ? undefined : row))
  }

  /** The newest first. */
  async search(scope: Scope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    must(scope.owner, 'the owner of sandboxes')
    return await this.#options.controlPlane.sandboxes.search(scope, query)
  }

  /**
   * Resolves when everything in it stands still; one that is on its way is paused too. A Problem `conflict` in ERROR and MISSING,
   * `unavailable` when the backend cannot do it now: it is done later then.
   */
  async pause(row: SandboxRow): Promise<void> {
    await this.#updateDesired(row, (now) => {
      if (now.wanted === 'paused') return undefined
      if (now.status === 'ERROR' || now.status === 'MISSING') throw notPausableProblem(now)
      return { wanted: 'paused' }
    })
    await this.#waitForRow(row.id, (now) => {
      if (now === undefined || now.wanted !== 'paused' || now.status === 'PAUSED') return true
      if (now.status === 'ERROR' || now.status === 'MISSING') throw notPausableProblem(now)
      return false
    })
  }

  /**
   * Resolves when it is on its way (see `until`), and at once when it is STARTING or RUNNING. A Problem `conflict` when nothing is
   * left of it, `too_many` when as many of the owner run as may.
   */
  async resume(row: SandboxRow): Promise<void> {
    await this.#ownerMutex.runExclusive(row.owner ?? '', async () => {
      const current = await this.#getCurrent(row.id)
      if (isRunningOrStarting(current)) return
      if (current.status === 'MISSING') throw notResumableProblem(current)
      await this.#concurrencyLimit.ensureCapacity(row.owner, row.id)
      await this.#updateDesired(row, (now) => {
        if (isRunningOrStarting(now)) return undefined
        if (now.status === 'MISSING') throw notResumableProblem(now)
        const used_at = this.#now() * 1000
        const epoch = now.epoch === null ? null : restartEpoch
        return { wanted: 'running', status: 'STARTING', epoch, detail: null, used_at }
      })
    })
    await this.#waitForRow(row.id, (now) => {
      if (now?.status === 'MISSING') throw notResumableProblem(now)
      return now?.status !== 'STARTING' || (now.epoch !== null && now.epoch !== restartEpoch)
    }).catch((error: unknown) => {
      // It is on its way, and is tried again.
      if (!(error instanceof Problem) || error.code !== 'unavailable') throw error
    })
  }

  /** Resolves when nobody sees it any more; what is left of it goes behind. Nothing when it is gone already. */
  async remove(row: SandboxRow): Promise<void> {
    await this.#updateDesired(row, (now) => (now.wanted === 'gone' ? undefined : { wanted: 'gone' })).catch(
      (error: unknown) => {
        if (!(error instanceof Problem) || error.code !== 'not_found') throw error
      },
    )
  }

  /** The sandbox whose session key it is, whatever its status; not one that is going. */
  async findByKey(key: string): Promise<SandboxRow | undefined> {
    const row = await this.#options.controlPlane.sandboxes.findByKeyHash(hashKey(key))
    return row === undefined || row.wanted === 'gone' || isPooled(row) ? undefined : row
  }

  /**
   * Resolves when it is as it is wanted (RUNNING or PAUSED), or is ERROR or MISSING. A Problem `not_found` when it is deleted;
   * rejects with the signal's reason.
   */
  async waitSettled(id: string, signal: AbortSignal): Promise<SandboxRow> {
    const combinedSignal = AbortSignal.any([signal, this.#stopping.signal])
    return await this.#repository.changes.until(
      id,
      async () => {
        const row = await this.#getCurrent(id)
        const isSettled =
          row.status === (row.wanted === 'running' ? 'RUNNING' : 'PAUSED') ||
          row.status === 'ERROR' ||
          row.status === 'MISSING'
        return isSettled ? row : undefined
      },
      combinedSignal,
    )
  }

  /** Undefined unless it is RUNNING, and is to stay so. */
  getConnection(row: SandboxRow): SandboxConnection | undefined {
    return this.#infoReader.getConnection(row)
  }

  /** Where it is reached from this machine, by name of the wire; empty unless it runs. */
  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    return this.#infoReader.addresses(row)
  }

  /** As its owner sees it (wire 2.5). The key and the addresses are there only while it runs. */
  getInfo(row: SandboxRow): Promise<SandboxInfo> {
    return this.#infoReader.getInfo(row)
  }

  /** Somebody used it: its idle time begins anew. */
  touch(id: string): void {
    this.#lastUse.touch(id)
  }

  /** About how many something is to be done at the moment. */
  get activeWorkers(): number {
    return this.#reconciler.activeWorkers
  }

  /**
   * Compares everything with what is there, and goes on doing so. Resolves when each difference has been looked at once, or after
   * ten seconds: what takes longer goes on behind.
   */
  async startReconciling(): Promise<void> {
    const notified = await this.#reconcileAll()
    const settled = Promise.all(notified.map((worker) => worker.waitSettled()))
    let timer: NodeJS.Timeout | undefined
    const limit = new Promise((resolve) => {
      timer = setTimeout(resolve, 10_000)
    })
    await Promise.race([settled, limit])
    clearTimeout(timer)
    await this.#notifyRunning()
    this.#scheduleReconcile()
  }

  /** Stops looking; the sandboxes stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new Problem('unavailable', 'The server is stopping'))
    clearTimeout(this.#timer)
    await this.#reconciler[Symbol.asyncDispose]()
    await this.#reconciling
    await this.#checkingActivity
    await this.#lastUse[Symbol.asyncDispose]()
  }

  async #createSandbox(id: string, scope: Scope, spec: ResolvedSpec): Promise<SandboxRow> {
    const secrets = newSandboxConfig(spec, id, this.#environment(spec, spec.backend))
    const row: SandboxRow = {
      ...newSandboxRow(spec, id, this.#now() * 1000),
      owner: scope.owner,
      org: scope.org ?? null,
      key_hash: hashKey(secrets.key),
      sealed: this.#secretsCipher.seal(secrets),
    }
    if ((await this.#repository.add(row)) === 'known')
      return requireSameSandbox(must(await this.#repository.get(id), 'the sandbox of that id'), scope, spec)
    this.#reconciler.notify(id)
    return row
  }

  /** Writes a wish on the row as it is at that moment; undefined: it is so already. */
  async #updateDesired(
    { id }: SandboxRow,
    decide: (now: SandboxRow) => Parameters<SandboxRepository['update']>[1] | undefined,
  ): Promise<void> {
    for (;;) {
      const now = await this.#getCurrent(id)
      const members = decide(now)
      if (members === undefined || (await this.#repository.update(now, members)) !== undefined) break
    }
    this.#reconciler.notify(id)
  }

  /** Only then: a start takes all there is of a small machine, and somebody waits for the one that was claimed. */
  async #refillPool(claimed: string | undefined): Promise<void> {
    const waitSignal = AbortSignal.any([AbortSignal.timeout(refillWaitMs), this.#stopping.signal])
    if (claimed !== undefined) await this.waitSettled(claimed, waitSignal).catch(() => undefined)
    if (!this.#stopping.signal.aborted) await this.#pool.fill()
  }

  async #getCurrent(id: string): Promise<SandboxRow> {
    const [row] = await this.find([id])
    if (row === undefined) throw notFoundProblem()
    return row
  }

  /** Waits for a row that fits; a Problem `unavailable` when its backend fails or it takes too long. */
  async #waitForRow(id: string, predicate: (row: SandboxRow | undefined) => boolean): Promise<void> {
    const limit = AbortSignal.timeout(this.#options.answerMs ?? 30_000)
    const signal = AbortSignal.any([limit, this.#stopping.signal])
    const look = async () => {
      const [row] = await this.find([id])
      if (predicate(row)) return true
      const failure = this.#reconciler.failure(id)
      if (failure !== undefined) throw unavailableProblem(failure)
      return undefined
    }
    try {
      await this.#repository.changes.until(id, look, signal)
    } catch (error) {
      if (limit.aborted && error === limit.reason) throw unavailableProblem('it takes long')
      throw error
    }
  }

  async #notifyRunning(): Promise<void> {
    const { onRunning, controlPlane } = this.#options
    if (onRunning === undefined) return
    for await (const { id, status } of controlPlane.sandboxes.iterateAll())
      if (status === 'RUNNING') onRunning(id)
  }

  async #reconcileAll(): ReturnType<Reconciler['reconcileAll']> {
    const settled: SandboxRow[] = []
    const notified = await this.#reconciler.reconcileAll((row) => void settled.push(row))
    if (this.#stopping.signal.aborted) return notified
    this.#checkActivity(settled)
    await this.#pool.fill()
    return notified
  }

  /** Asks the agent servers; a sweep does not wait for those that are slow to answer. */
  #checkActivity(rows: readonly SandboxRow[]): void {
    this.#checkingActivity ??= this.#activityMonitor
      .checkAll(rows)
      .catch((error: unknown) => this.#logFailure(error))
      .finally(() => {
        this.#checkingActivity = undefined
      })
  }

  #scheduleReconcile(): void {
    if (this.#stopping.signal.aborted) return
    this.#timer = setTimeout(() => {
      this.#reconciling = this.#reconcileAll()
        .then(() => this.#scheduleReconcile())
        .catch((error: unknown) => {
          this.#logFailure(error)
          this.#scheduleReconcile()
        })
    }, this.#options.reconcileMs ?? 15_000)
  }

  #runInBackground(work: Promise<void>): void {
    work.catch((error: unknown) => this.#logFailure(error))
  }

  #logFailure(error: unknown): void {
    if (this.#stopping.signal.aborted) return
    this.#options.log('error', 'the sandboxes could not be looked after', { error: String(error) })
  }

  async #isIdle(row: SandboxRow, seconds: number): Promise<boolean> {
    const connection = this.getConnection(row)
    if (connection === undefined || this.#now() * 1000 - this.#lastUse.lastUse(row) < seconds * 1_000_000)
      return false
    const context = { fetch: this.#fetch, signal: this.#stopping.signal }
    const idle = await fetchIdleSeconds(connection.url, connection.key.reveal(), context)
    return idle !== undefined && idle >= seconds
  }

  #environment(spec: ResolvedSpec | undefined, backend: string): SandboxEnvironment {
    const url = this.#backends.get(backend)?.hostUrl(this.#options.hostPort(), spec?.network ?? 'shared')
    return {
      webhooks: url === undefined ? undefined : `${url}/api/v1/webhooks`,
      origins: this.#options.allowedOrigins ?? [],
      idleSeconds: resolveLifetimes(spec, this.#lifetimes).idleSeconds,
    }
  }
}

function definedLifetimes({
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

function requestedId(scope: Scope, { id, idempotencyKey }: StartSandboxOptions): string | undefined {
  if (id !== undefined) {
    if (!idPattern.test(id)) throw invalidInput(['sandbox_id'], 'An id is 1 to 63 of a-z, 0-9 and hyphens')
    return id
  }
  if (idempotencyKey === undefined) return undefined
  const owned = JSON.stringify([scope.owner, scope.org ?? null, idempotencyKey])
  return `sb-${createHash('sha256').update(owned).digest('hex').slice(0, 32)}`
}

/** The sandbox that is there already, when it is the one that is asked for. */
function requireSameSandbox(row: SandboxRow, scope: Scope, spec: ResolvedSpec): SandboxRow {
  if (row.wanted === 'gone') throw new Problem('conflict', 'The sandbox of this id is just being deleted')
  if (!isVisibleTo(row, scope) || row.spec !== spec.id)
    throw new Problem('conflict', 'There is another sandbox with this id')
  return row
}

function isVisibleTo(row: SandboxRow, scope: Scope): boolean {
  return !isPooled(row) && ownedBy(scope).includes(row) && row.wanted !== 'gone'
}

function isRunningOrStarting({ wanted, status }: SandboxRow): boolean {
  return wanted === 'running' && (status === 'STARTING' || status === 'RUNNING')
}

function notFoundProblem(): Problem {
  return new Problem('not_found', 'There is no such sandbox')
}

function notPausableProblem({ status }: SandboxRow): Problem {
  return new Problem('conflict', `A sandbox in ${status} cannot be paused`)
}

function notResumableProblem({ status }: SandboxRow): Problem {
  const message = 'Nothing is left of the sandbox that could be resumed'
  return new Problem('conflict', message, undefined, {
    code: 'runtime_not_resumable',
    current_status: status,
  })
}

function unavailableProblem(why: string): Problem {
  return new Problem('unavailable', `Not yet: ${why}. It is done as soon as it can be.`)
}
