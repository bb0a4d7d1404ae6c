import { hash } from 'node:crypto'
import { type Instant, invalidInput, must, Problem, type SandboxInfo } from '@slipway/protocol'
import {
  type AdminScope,
  ownedBy,
  type PageQuery,
  type RowPage,
  type SandboxActor,
  type SandboxRow,
  type Scope,
} from '@slipway/storage/control-plane'
import { hashKey } from '../auth/authenticator.ts'
import { type CopiedFiles, FilesError, type SandboxUse } from '../backends/backend.ts'
import { ensureCapacity } from './concurrency-limit.ts'
import { ControlLoop } from './control-loop.ts'
import { DesiredStateWriter, ignoreProblem, notFoundProblem } from './desired-state.ts'
import { ActivityMonitor } from './lifetimes/activity-monitor.ts'
import { DiskGuard } from './lifetimes/disk-guard.ts'
import { LastUseTracker } from './lifetimes/last-use.ts'
import { restartEpoch, stopEpoch } from './reconcile/plan.ts'
import { Reconciler } from './reconcile/reconciler.ts'
import { hasFailureDetail } from './reconcile/worker.ts'
import { createContext, type SandboxesOptions } from './state/context.ts'
import { readCaughtUpAt } from './state/event-note.ts'
import { isCaughtUp } from './state/lifetimes.ts'
import { newSandboxConfig } from './state/sandbox-config.ts'
import { type SandboxConnection, SandboxInfoReader } from './state/sandbox-info.ts'
import {
  isPresent,
  type SandboxRowUpdate,
  type StepMetrics,
  shownStatus,
} from './state/sandbox-repository.ts'
import { openSecrets, sealSecrets } from './state/sandbox-secrets.ts'
import type { ResolvedSpec } from './state/specs.ts'
import { isKeyRefused } from './state/status-reason.ts'
import { newSandboxId, newSandboxRow, WarmPool } from './warm-pool.ts'

export type { SandboxConnection } from './state/sandbox-info.ts'

interface StartSandboxOptions {
  /** Id of a spec; the default one when absent. */
  readonly spec?: string | undefined
  /** Where the request names it, for the Problem of an unknown one; in the query unless passed. */
  readonly specPath?: readonly string[]
  /** A repeat with the same key and owner returns the same sandbox, never one of the warm pool. */
  readonly idempotencyKey?: string | undefined
  /** 1 to 63 lower-case letters, digits and hyphens; never one of the warm pool. */
  readonly id?: string | undefined
}

/** How long an archive waits for what the agent server says of its events. */
const eventsTimeoutMs = 10_000
/** Between two tries to get the lease of a sandbox that another server works at. */
const leasePollMs = 300
const archivedDetail =
  'It was archived: its files are deleted, and the histories of its conversations are kept. Start a conversation again with its conversation_id to continue it in another sandbox.'

const idPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** Makes the desired state of sandboxes durable; then a worker for each makes it true, also after a crash. */
export class Sandboxes implements AsyncDisposable {
  readonly #parts: ReturnType<typeof assemble>

  constructor(options: SandboxesOptions) {
    this.#parts = assemble(options)
  }

  /**
   * Problems: `invalid` (spec, id), `forbidden` (spec), `too_many` at the limit, `conflict` when another
   * sandbox has the id.
   */
  async start(scope: Scope, options: StartSandboxOptions = {}): Promise<SandboxRow> {
    const owner = must(scope.owner, 'the owner of a sandbox')
    const chosen = await this.#parts.chooseSpec?.(scope.org, options.spec)
    const spec = this.#parts.specs.resolve(chosen ?? options.spec, options.specPath)
    const id = requestedId(scope, options)
    return await this.#parts.forOwner(owner, async () => {
      const existing = id === undefined ? undefined : await this.#parts.repository.get(id)
      if (existing !== undefined) return requireSameSandbox(existing, scope, spec)
      await ensureCapacity(this.#parts, owner)
      const org = scope.org ?? null
      const pooled =
        id === undefined && spec.warm > 0 ? await this.#parts.pool.claim(spec, owner, org) : undefined
      if (spec.warm > 0) this.#parts.loop.refillPool(pooled?.id)
      return pooled ?? (await this.#createSandbox(id ?? newSandboxId(), scope, spec))
    })
  }

  /** A Problem `not_found` for an unknown or removed sandbox and for another owner's. */
  async get(scope: Scope | AdminScope, id: string): Promise<SandboxRow> {
    const row = await this.#parts.repository.get(id)
    if (isPresent(row) && ownedBy(scope).includes(row)) return row
    throw notFoundProblem()
  }

  /** Sandboxes of any owner, in the order of the ids; undefined for unknown and removed ones. */
  find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    return this.#parts.desired.find(ids)
  }

  /** The newest first. */
  async search(scope: Scope | AdminScope, query: PageQuery): Promise<RowPage<SandboxRow>> {
    if (!('isEveryOwner' in scope)) must(scope.owner, 'the owner of sandboxes')
    return await this.#parts.rows.search(scope, query)
  }

  /** See `DesiredStateWriter.pause`; `by` is for the events of the sandbox, as in what follows. */
  pause({ id }: SandboxRow, by?: SandboxActor): Promise<void> {
    return this.#parts.desired.pause(id, {}, by)
  }

  /**
   * Resolves when it is on its way. While it is STARTING or RUNNING nothing changes: it keeps its key, and a
   * start that failed is tried again now. Problems: `not_found`, `conflict` without a rest of it, `too_many`
   * at the limit, `bad_gateway` when its backend fails, which is tried again until it runs or is paused.
   */
  async resume({ id, owner }: SandboxRow, by?: SandboxActor): Promise<void> {
    await this.#parts.forOwner(owner ?? '', async () => {
      if (!needsResume(await this.#parts.desired.get(id)))
        return await this.#parts.desired.update(id, (row) =>
          row.status === 'STARTING' && hasFailureDetail(row) ? { detail: null } : undefined,
        )
      await ensureCapacity(this.#parts, owner, id)
      const decide = (row: SandboxRow): SandboxRowUpdate | undefined => {
        if (!needsResume(row)) return undefined
        const used_at = this.#parts.clock.now() * 1000
        // One that runs with another key, as after a restore of an older backup, gets a new one by a start.
        const takesKey = this.#parts.backends.get(row.backend)?.appliesConfigOnResume === true
        const next = takesKey && isKeyRefused(row.detail) ? stopEpoch : restartEpoch
        const epoch = row.epoch === null ? null : next
        return { wanted: 'running', status: 'STARTING', epoch, detail: null, used_at }
      }
      await this.#parts.desired.update(id, decide, by)
    })
    await this.#waitOnItsWay(id)
  }

  /**
   * Ends its processes and starts them again on its files; resolves when it is on its way. Problems:
   * `conflict` unless it is to run, and as `resume`.
   */
  async restart({ id }: SandboxRow, by?: SandboxActor): Promise<void> {
    const decide = (row: SandboxRow): SandboxRowUpdate => {
      if (row.wanted !== 'running' || row.status === 'MISSING')
        throw new Problem(
          'conflict',
          `The sandbox is ${shownStatus(row)}: a restart is for one that is to run`,
        )
      const used_at = this.#parts.clock.now() * 1000
      return { status: 'STARTING', epoch: row.epoch === null ? null : stopEpoch, detail: null, used_at }
    }
    await this.#parts.desired.update(id, decide, { ...by, kind: 'restart' })
    await this.#waitOnItsWay(id)
  }

  /** The end of what it printed, without its secrets and those of its owner. */
  async readLog(row: SandboxRow): Promise<string> {
    const backend = this.#parts.backends.get(row.backend)
    return backend === undefined
      ? ''
      : await this.#parts.readLog(row, backend, openSecrets(this.#parts.cipher, row))
  }

  async #waitOnItsWay(id: string): Promise<void> {
    const delay = await this.#parts.desired.waitFor(id, (row) => {
      if (row === undefined) throw notFoundProblem()
      // Another request has paused it.
      if (row.wanted === 'paused') return true
      if (shownStatus(row) === 'MISSING') throw notResumableProblem(row)
      if (row.status === 'ERROR') throw backendProblem(row.detail ?? 'its start failed')
      const isBegun = row.epoch !== null && row.epoch !== restartEpoch && row.epoch !== stopEpoch
      return row.status !== 'STARTING' || isBegun
    })
    if (delay?.isFailure) throw backendProblem(`${delay.why}. It is tried again.`)
  }

  /**
   * Deletes its processes and files and keeps its row; callers see it as MISSING from then on. One that runs
   * is paused first. A Problem `conflict`, with nothing deleted, unless all events of its conversations are
   * here and nothing runs in it.
   */
  async archive({ id, owner }: SandboxRow, by?: SandboxActor): Promise<void> {
    const { desired, forOwner, lastUse } = this.#parts
    const row = await desired.get(id)
    if (row.wanted === 'archived') return
    if (row.status === 'ERROR') throw notArchivableProblem('ended on its own')
    if (row.status !== 'MISSING') {
      await desired.pause(id, await this.#readNote(row), by)
    }
    const decide = (current: SandboxRow): SandboxRowUpdate | undefined => {
      if (current.wanted === 'archived') return undefined
      const isMissing = current.status === 'MISSING'
      if (!isMissing && !(current.wanted === 'paused' && current.status === 'PAUSED'))
        throw notArchivableProblem('is in use')
      // One that is missing may come back.
      if (!isCaughtUp(current, lastUse.lastUse(current)))
        throw notArchivableProblem(
          `${isMissing ? 'went missing' : 'was paused'} before all were known to be here`,
        )
      return { wanted: 'archived', detail: archivedDetail }
    }
    await forOwner(owner ?? '', () => desired.update(id, decide, by))
  }

  /** Resolves when callers no longer see it; its processes and files are removed afterwards. */
  async remove({ id }: SandboxRow, by?: SandboxActor): Promise<void> {
    const decide = ({ wanted }: SandboxRow) => (wanted === 'gone' ? undefined : ({ wanted: 'gone' } as const))
    const removed = this.#parts.desired.update(id, decide, by)
    await removed.catch(ignoreProblem('not_found'))
  }

  /** The sandbox with this session key, in any status, unless it is removed. */
  async findByKey(key: string): Promise<SandboxRow | undefined> {
    const row = await this.#parts.rows.findByKeyHash(hashKey(key))
    return isPresent(row) ? row : undefined
  }

  /** See `DesiredStateWriter.waitSettled`. */
  waitSettled(id: string, signal: AbortSignal): Promise<SandboxRow> {
    return this.#parts.desired.waitSettled(id, signal)
  }

  /** Resolves when it never runs again: removed or archived. Rejects with the reason of the signal. */
  async untilEnded(id: string, signal: AbortSignal): Promise<void> {
    const isEnded = async () =>
      ((await this.find([id]))[0]?.wanted ?? 'archived') === 'archived' ? true : undefined
    // A storage that fails says nothing: what removes the row is noticed later.
    await this.#parts.repository.until(id, () => isEnded().catch(() => undefined), signal)
  }

  /** Resolves when its backend has deleted all of it, which a removal begins. */
  async untilGone(id: string, signal: AbortSignal): Promise<void> {
    const isGone = async () => ((await this.#parts.repository.get(id)) === undefined ? true : undefined)
    await this.#parts.repository.until(id, () => isGone().catch(() => undefined), signal)
  }

  /** Undefined unless it is RUNNING, also as desired. */
  getConnection(row: SandboxRow): SandboxConnection | undefined {
    return this.#parts.infoReader.getConnection(row)
  }

  /** Those that run, of all owners. */
  async *listRunning(): AsyncIterable<SandboxRow> {
    for await (const row of this.#parts.rows.iterateRunning())
      if (isPresent(row) && row.status === 'RUNNING') yield row
  }

  lastUse(row: SandboxRow): Instant {
    return this.#parts.lastUse.lastUse(row)
  }

  /** Whether its agent server knows an address of this server for its events. */
  hasWebhooks(row: SandboxRow): boolean {
    return this.#parts.getEnvironment(row).webhooks !== undefined
  }

  /** Its addresses from this machine, by name of the wire; empty unless it runs. */
  addresses(row: SandboxRow): Readonly<Record<string, string>> {
    return this.#parts.infoReader.addresses(row)
  }

  /** As its owner sees it (wire 2.5). The key and the addresses are there only while it runs. */
  getInfo(row: SandboxRow): Promise<SandboxInfo> {
    return this.#parts.infoReader.getInfo(row)
  }

  /** What its processes use; undefined when none run, or when its backend does not measure it. */
  async measureUse({ id, backend }: SandboxRow): Promise<SandboxUse | undefined> {
    return await this.#parts.backends.get(backend)?.measureUse?.(id)
  }

  /**
   * See `Backend.copyFiles`; of two that run. No worker of any server looks at them meanwhile: one that is
   * frozen would be continued.
   */
  async copyFiles(from: SandboxRow, to: SandboxRow, signal: AbortSignal): Promise<CopiedFiles> {
    const { backends, leases, clock, maxForkBytes } = this.#parts
    const backend = from.backend === to.backend ? backends.get(from.backend) : undefined
    if (backend?.copyFiles === undefined)
      throw new FilesError('Files are copied between sandboxes of the same backend only.')
    await using held = new AsyncDisposableStack()
    // In one order, so that two copies do not wait for each other.
    for (const id of [from.id, to.id].sort()) {
      let lease = await leases.tryAcquire(`sandbox ${id}`)
      for (; lease === undefined; lease = await leases.tryAcquire(`sandbox ${id}`))
        await clock.sleep(leasePollMs, { signal })
      held.defer(lease.release.bind(lease))
    }
    return await backend.copyFiles(from.id, to.id, maxForkBytes ?? 0)
  }

  /** Records a use: its idle time starts again. */
  touch(id: string): void {
    this.#parts.lastUse.touch(id)
  }

  get steps(): StepMetrics {
    return this.#parts.repository.metrics
  }

  /** Number of sandboxes with a pending step. */
  get activeWorkers(): number {
    return this.#parts.reconciler.activeWorkers
  }

  /** See `ControlLoop.start`. */
  async startReconciling(): Promise<void> {
    await this.#parts.loop.start()
    this.#parts.diskGuard.start()
  }

  /** Stops reconciling; the sandboxes stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#parts.stopping.abort(new Problem('unavailable', 'The server is stopping'))
    await this.#parts.diskGuard[Symbol.asyncDispose]()
    await this.#parts.loop[Symbol.asyncDispose]()
    await this.#parts.lastUse[Symbol.asyncDispose]()
  }

  /** Of one that runs, before it is paused for nothing. */
  async #readNote(row: SandboxRow): Promise<SandboxRowUpdate> {
    const connection = this.#parts.infoReader.getConnection(row)
    if (connection === undefined) return {}
    const note = await readCaughtUpAt(this.#parts, row.id, connection, eventsTimeoutMs)
    if (note.caught_up_at === null) throw notArchivableProblem('works, or does not answer')
    return note
  }

  async #createSandbox(id: string, scope: Scope, spec: ResolvedSpec): Promise<SandboxRow> {
    const { repository, cipher, clock, getEnvironment, reconciler } = this.#parts
    const secrets = newSandboxConfig(spec, id, getEnvironment({ spec: spec.id, backend: spec.backend }))
    const row: SandboxRow = {
      ...newSandboxRow(spec, id, clock.now() * 1000),
      owner: scope.owner,
      org: scope.org ?? null,
      key_hash: hashKey(secrets.key),
      sealed: sealSecrets(cipher, secrets),
    }
    if ((await repository.add(row)) === 'known')
      return requireSameSandbox(must(await repository.get(id), 'the sandbox of that id'), scope, spec)
    reconciler.notify(id)
    return row
  }
}

function assemble(options: SandboxesOptions) {
  const onRunning = (id: string) => {
    diskGuard.notify()
    options.onRunning?.(id)
  }
  const context = createContext({ ...options, onRunning })
  const reconciler = new Reconciler(context)
  const infoReader = new SandboxInfoReader(context)
  const lastUse = new LastUseTracker(context)
  const deps = { ...context, reconciler, infoReader, lastUse }
  const pool = new WarmPool(deps)
  const activityMonitor = new ActivityMonitor(deps)
  const parts = { ...deps, desired: new DesiredStateWriter(deps), pool, activityMonitor }
  const diskGuard = new DiskGuard(deps)
  return { ...parts, loop: new ControlLoop(parts), diskGuard }
}

function requestedId(scope: Scope, { id, idempotencyKey }: StartSandboxOptions): string | undefined {
  if (id !== undefined) {
    if (!idPattern.test(id)) throw invalidInput(['sandbox_id'], 'An id is 1 to 63 of a-z, 0-9 and hyphens')
    return id
  }
  if (idempotencyKey === undefined) return undefined
  const owned = JSON.stringify([scope.owner, scope.org ?? null, idempotencyKey])
  return `sb-${hash('sha256', owned).slice(0, 32)}`
}

function requireSameSandbox(row: SandboxRow, scope: Scope, spec: ResolvedSpec): SandboxRow {
  if (row.wanted === 'gone') throw new Problem('conflict', 'The sandbox of this id is just being deleted')
  if (!isPresent(row) || !ownedBy(scope).includes(row) || row.spec !== spec.id)
    throw new Problem('conflict', 'There is another sandbox with this id')
  return row
}

/** False while it is starting or running. A Problem `conflict` when nothing is left of it. */
function needsResume(row: SandboxRow): boolean {
  if (row.wanted === 'running' && (row.status === 'STARTING' || row.status === 'RUNNING')) return false
  if (shownStatus(row) === 'MISSING') throw notResumableProblem(row)
  return true
}

function notResumableProblem(row: SandboxRow): Problem {
  const message =
    row.wanted === 'archived'
      ? `The sandbox cannot be resumed. ${archivedDetail}`
      : 'Nothing is left of the sandbox that could be resumed'
  const members = { code: 'runtime_not_resumable', current_status: shownStatus(row) }
  return new Problem('conflict', message, undefined, members)
}

function notArchivableProblem(why: string): Problem {
  const message = `Events of the sandbox may not be here yet: it ${why}. Resume it, wait until nothing runs in it, and archive it again.`
  return new Problem('conflict', message, undefined, { code: 'events_not_received' })
}

function backendProblem(why: string): Problem {
  return new Problem('bad_gateway', `The sandbox could not be resumed: ${why}`)
}
