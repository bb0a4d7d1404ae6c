import { randomBytes, randomUUID } from 'node:crypto'
import {
  type AppConversationStartRequest,
  appConversationStartRequest,
  type ForkAppConversationRequest,
  Problem,
  type UserSettings,
} from '@slipway/protocol'
import { createHistogram } from '@slipway/shared/metrics'
import type { Redactor } from '@slipway/shared/redaction'
import type { Timer } from '@slipway/shared/time'
import {
  type AppConversationRow,
  type Lease,
  ownedBy,
  type Scope,
  type StartTaskRow,
} from '@slipway/storage/control-plane'
import type { Quota } from '../accounts/quota.ts'
import { notRunningProblem } from '../conversations/agent-calls.ts'
import { visibleSandboxStatus } from '../conversations/records/conversation-info.ts'
import { newSandboxId } from '../sandboxes/warm-pool.ts'
import { type AdmittedStart, admitStart, createRedactor, idTakenProblem, redactRequest } from './admission.ts'
import { conversationDeletedError, explainError, interruptedError, isFork, StartError } from './failures.ts'
import { discardFork, forkMembers } from './fork.ts'
import type { CheckModelAddress } from './model-address.ts'
import { isFinished, RemoteStart, StartProgress, type StartStates } from './progress.ts'
import { runStart, type StartJob, type StartRunDeps } from './run.ts'
import { type SandboxChoice, selectSandbox } from './select-sandbox.ts'

interface ConversationStarterDeps extends StartRunDeps {
  readonly quota: Pick<Quota, 'slotOf' | 'refusal'>
  /** Delivers the pending messages of a conversation in the background. */
  readonly deliver: (conversation: string) => void
  readonly checkModelAddress: CheckModelAddress
}

interface ActiveStart {
  readonly progress: StartProgress
  readonly redactor: Redactor
  readonly controller: AbortController
  readonly lease: Lease
  /** Never rejects. */
  done: Promise<void>
  sandbox: string | undefined
}

/** Between two looks for starts whose server has ended. */
const recoverMs = 3_000

/**
 * Starts conversations (wire 3.1), in the background once the task is durable and its sandbox is chosen. A
 * change of a task is durable before it is visible. A start that becomes READY uses a slot of the quota.
 */
export class ConversationStarter implements AsyncDisposable {
  readonly #deps: ConversationStarterDeps
  /** By id of the conversation. */
  readonly #active = new Map<string, ActiveStart>()
  readonly durations = createHistogram(
    'slipway_conversation_start_duration_seconds',
    'Time of starts of conversations by outcome.',
    [1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600],
    'outcome',
  )
  #isClosing = false
  #timer: Timer | undefined
  /** By id of the task; each settles it now. */
  readonly #settling = new Map<string, () => Promise<void>>()
  #recovering: Promise<void> = Promise.resolve()

  constructor(deps: ConversationStarterDeps) {
    this.#deps = deps
  }

  /**
   * Call it before serving requests: starts that the end of a process interrupted become ERROR. Among several
   * servers it continues looking for them.
   */
  async recover(): Promise<void> {
    const { startTasks, leases } = this.#deps.controlPlane
    for (const row of await startTasks.listUnfinished()) await this.#endInterrupted(row)
    if (!leases.isShared || this.#isClosing) return
    this.#recoverAfter(() => {
      this.#recovering = this.recover().catch((error: unknown) => {
        this.#deps.log('warn', 'interrupted starts were not looked for', { error: String(error) })
        this.#recoverAfter(() => void this.recover().catch(() => {}))
      })
    })
  }

  #recoverAfter(run: () => void): void {
    this.#timer = this.#deps.clock.schedule(recoverMs, run, { ref: false })
  }

  /** Returns a start in progress too. Problems: `invalid`, `conflict` (id of another owner), `too_many`. */
  async start(
    scope: Scope,
    request: AppConversationStartRequest,
    source?: AppConversationRow,
  ): Promise<StartStates> {
    if (this.#isClosing) throw new Problem('unavailable', 'The server is stopping')
    const id = request.conversation_id ?? randomUUID()
    return await this.#deps.conversationMutex.runExclusive(id, async () => {
      const current = this.#active.get(id)
      const progress = current?.progress ?? (await this.#findRemote(id))
      if (progress === undefined)
        return await this.#begin(await admitStart(this.#deps, scope, id, request, source))
      if (!ownedBy(scope).includes(progress.row)) throw idTakenProblem()
      return progress
    })
  }

  /**
   * Starts a conversation with the log and the files of another one, whose sandbox runs; otherwise a Problem
   * as of a call of its agent server.
   */
  async fork(
    scope: Scope,
    source: AppConversationRow,
    body: ForkAppConversationRequest,
  ): Promise<StartStates> {
    const { id: conversation_id, title = source.title ?? undefined, tags } = body
    const [sandbox] = await this.#deps.sandboxes.find([source.sandbox])
    if (sandbox === undefined || this.#deps.sandboxes.getConnection(sandbox) === undefined)
      throw notRunningProblem(source, sandbox)
    const request = appConversationStartRequest.parse({ conversation_id, title, tags })
    return await this.start(scope, request, source)
  }

  get activeCount(): number {
    return this.#active.size
  }

  /** Ids of the conversations that are starting in a sandbox. */
  async startingIn(sandbox: string): Promise<readonly string[]> {
    const { startTasks, leases } = this.#deps.controlPlane
    if (leases.isShared) {
      const unfinished = (await startTasks.listUnfinished()).filter((row) => row.sandbox === sandbox)
      return unfinished.map(({ conversation }) => conversation).filter((id) => id !== null)
    }
    return [...this.#active].filter(([, start]) => start.sandbox === sandbox).map(([id]) => id)
  }

  /** Whether other conversations are in a sandbox or starting in it. */
  async hasOthers(sandbox: string, conversation: string): Promise<boolean> {
    const rows = await this.#deps.controlPlane.conversations.listBySandbox(sandbox)
    const ids = [...rows.map(({ id }) => id), ...(await this.startingIn(sandbox))]
    return ids.some((id) => id !== conversation)
  }

  /** Cancels the start of a conversation and waits for its end. */
  async cancel(conversation: string): Promise<void> {
    const start = this.#active.get(conversation)
    start?.controller.abort(conversationDeletedError)
    await start?.done
    if (start !== undefined || !this.#deps.controlPlane.leases.isShared) return
    for (const row of await this.#listUnfinished(conversation)) {
      // The other server cannot write any more.
      const lease = await this.#deps.controlPlane.leases.take(leaseName(row))
      await this.#endRow(row, conversationDeletedError.message)
      await lease.release()
    }
  }

  /** Ends the starts in progress as a restart would. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true
    this.#timer?.cancel()
    await this.#recovering
    const all = [...this.#active.values()]
    for (const { controller, progress } of all) controller.abort(interruptedError(progress.row))
    await Promise.all(all.map(({ done }) => done))
    await Promise.all([...this.#settling.values()].map((settle) => settle()))
  }

  /** A start of a conversation that another server does; one whose server has ended is ended. */
  async #findRemote(conversation: string): Promise<StartStates | undefined> {
    const { startTasks, leases } = this.#deps.controlPlane
    if (!leases.isShared) return undefined
    for (const row of await this.#listUnfinished(conversation))
      if (!(await this.#endInterrupted(row))) return new RemoteStart(startTasks, row, this.#deps.clock)
    return undefined
  }

  async #listUnfinished(conversation: string): Promise<readonly StartTaskRow[]> {
    const rows = await this.#deps.controlPlane.startTasks.listUnfinished()
    return rows.filter((row) => row.conversation === conversation)
  }

  /** False while a server does it. */
  async #endInterrupted(row: StartTaskRow): Promise<boolean> {
    const { startTasks, leases } = this.#deps.controlPlane
    const lease = await leases.tryAcquire(leaseName(row))
    if (lease === undefined) return false
    const [current] = await startTasks.get([row.id])
    if (current !== undefined) await this.#endRow(current, interruptedError(current).message)
    await lease.release()
    return true
  }

  #endRow(row: StartTaskRow, detail: string): Promise<void> {
    const progress = new StartProgress(
      this.#deps.controlPlane.startTasks,
      row,
      () => this.#deps.clock.now() * 1000,
    )
    return this.#markFailed(progress, detail)
  }

  async #begin(admitted: AdmittedStart): Promise<StartStates> {
    const { controlPlane, quota, storageQuota, clock } = this.#deps
    const { id, scope, existing } = admitted
    if (existing === undefined) await storageQuota.requireRoom(scope.owner)
    // An existing conversation was counted by its first start.
    const slot = existing === undefined ? await quota.slotOf(scope) : null
    const at = clock.now() * 1000
    const row: StartTaskRow = {
      id: randomUUID(),
      owner: scope.owner,
      org: scope.org ?? null,
      status: 'WORKING',
      detail: null,
      conversation: id,
      sandbox: null,
      agent_url: null,
      request: JSON.stringify({ ...redactRequest(admitted.request), ...forkMembers(admitted.source) }),
      quota_day: slot?.day ?? null,
      created_at: at,
      updated_at: at,
    }
    const lease = await controlPlane.leases.take(leaseName(row))
    try {
      const { isAdded, used } = await controlPlane.startTasks.add(row, {
        dailyLimit: slot?.limit ?? undefined,
      })
      if (slot !== null && !isAdded) throw quota.refusal(slot, used)
    } catch (error) {
      await lease.release()
      if (mayBeStored(error)) this.#settleLater(row)
      throw error
    }
    const start: ActiveStart = {
      lease,
      progress: new StartProgress(controlPlane.startTasks, row, () => clock.now() * 1000),
      redactor: createRedactor(admitted),
      controller: new AbortController(),
      done: Promise.resolve(),
      sandbox: undefined,
    }
    this.#active.set(id, start)
    return await this.#launch(admitted, start)
  }

  /** A Problem with the sandbox of the request is thrown, and ends the task too. */
  async #launch(admitted: AdmittedStart, start: ActiveStart): Promise<StartStates> {
    const { id, scope } = admitted
    const { progress, redactor, controller } = start
    try {
      const settings = await this.#deps.accounts.userSettings.read(scope.owner)
      const choice = await this.#selectSandbox(admitted, start, settings)
      const hasOthers = () => this.hasOthers(choice.row.id, id)
      const job = { ...admitted, settings, choice, progress, redactor, signal: controller.signal, hasOthers }
      start.done = start.lease.run(() => this.#runStart(job, start))
    } catch (error) {
      await this.#handleFailure(start, error)
      await this.#end(id, start)
      if (error instanceof Problem && error.code !== 'not_found') throw error
    }
    return progress
  }

  async #selectSandbox(
    admitted: AdmittedStart,
    start: ActiveStart,
    settings: UserSettings,
  ): Promise<SandboxChoice> {
    const { id, scope, request, existing, parent, source, model, limits } = admitted
    const { controlPlane, sandboxes, conversationMutex } = this.#deps
    if (source !== undefined) return await this.#createForFork(admitted, source, start)
    const [current] = existing === undefined ? [] : await sandboxes.find([existing.sandbox])
    const isElsewhere = current !== undefined && visibleSandboxStatus(current) !== 'MISSING'
    if (isElsewhere && request.sandbox_id !== undefined && request.sandbox_id !== current.id)
      throw new StartError(`The conversation lives in another sandbox: ${current.id}.`)
    const previousTasks = await controlPlane.startTasks.search(
      { owner: scope.owner },
      { conversation_id__eq: id, limit: 10, sort_order: 'CREATED_AT_DESC' },
    )
    const previous = previousTasks.items.map(({ sandbox }) => sandbox).filter((sandbox) => sandbox !== null)
    const usable = (await sandboxes.find(previous)).filter((row) => row?.status !== 'ERROR')
    const preferred = [existing?.sandbox, ...usable.map((row) => row?.id), parent?.sandbox]
    // Serialized: each choice sees the previous ones.
    return await conversationMutex.runExclusive(`choose:${scope.owner ?? ''}`, async () => {
      const context = {
        scope,
        sandboxes,
        conversations: controlPlane.conversations,
        startingIn: (sandbox: string) => this.startingIn(sandbox),
        // A conversation that is there has its model and its sandbox already.
        checkSpec: (spec: string | undefined) => {
          if (existing !== undefined) return
          if (spec !== undefined) limits.requireSpec(spec)
          this.#deps.checkModelAddress(spec, model)
        },
        limits,
      }
      const choice = await selectSandbox(context, {
        sandbox: request.sandbox_id,
        preferred: preferred.filter((sandbox) => sandbox !== undefined),
        spec: request.sandbox_spec_id ?? (settings.default_sandbox_spec_id || undefined),
        strategy: settings.sandbox_grouping_strategy,
      })
      start.sandbox = choice.row.id
      // With a key of no organisation, in a sandbox of one.
      if (!choice.isNew && choice.row.org !== (scope.org ?? null))
        (await this.#deps.organizations.limitsOf(choice.row.org)).requireModel(model)
      // Before other servers choose.
      if (controlPlane.leases.isShared)
        await controlPlane.startTasks.update(start.progress.row.id, { sandbox: choice.row.id })
      return choice
    })
  }

  /** The task names the sandbox before it exists: a fork that is interrupted leaves none. */
  async #createForFork(
    { scope, limits }: AdmittedStart,
    source: AppConversationRow,
    start: ActiveStart,
  ): Promise<SandboxChoice> {
    const { sandboxes } = this.#deps
    const [from] = await sandboxes.find([source.sandbox])
    if (from !== undefined) limits.requireSpec(from.spec)
    const sandbox = newSandboxId()
    start.sandbox = sandbox
    await start.progress.update({ sandbox })
    // Otherwise it may be the idle one that is paused to make room for its fork.
    sandboxes.touch(source.sandbox)
    const row = await sandboxes.start(scope, {
      ...{ id: sandbox, spec: from?.spec, specPath: ['path', 'conversation_id'] },
    })
    return { row, isNew: true, isGrouped: false }
  }

  async #runStart(job: StartJob, start: ActiveStart): Promise<void> {
    try {
      await runStart(this.#deps, job)
      this.#recordDuration(start, 'ready')
      this.#deps.deliver(job.id)
    } catch (error) {
      await this.#handleFailure(start, error)
    } finally {
      await this.#end(job.id, start)
    }
  }

  async #end(conversation: string, { lease }: ActiveStart): Promise<void> {
    this.#active.delete(conversation)
    await lease.release()
  }

  #recordDuration({ progress }: ActiveStart, outcome: 'ready' | 'failed'): void {
    this.durations.observe({ outcome }, (this.#deps.clock.now() * 1000 - progress.row.created_at) / 1_000_000)
  }

  /** Never rejects: an end that cannot be written now is written later. */
  async #handleFailure(start: ActiveStart, error: unknown): Promise<void> {
    const { log } = this.#deps
    const { progress, redactor } = start
    const { signal } = start.controller
    this.#recordDuration(start, 'failed')
    const explanation = explainError(signal.aborted ? signal.reason : error)
    const error_id = randomBytes(8).toString('hex')
    if (explanation === undefined) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      log('error', 'a start failed', { error_id, task: progress.row.id, error: redactor.redact(text) })
    }
    try {
      const detail = redactor.redact(explanation ?? `Internal error (${error_id}).`)
      await this.#markFailed(progress, detail)
    } catch (failure) {
      log('error', 'the end of a start could not be written', {
        task: progress.row.id,
        error: redactor.redact(String(failure)),
      })
      if (!this.#isClosing) this.#settleLater(progress.row)
      progress.endUnwritten('The start was interrupted. Start it again with the same conversation_id.')
    }
  }

  /**
   * After a write that failed, and may be stored: what is stored decides, once the store can be used again.
   */
  #settleLater(row: StartTaskRow): void {
    const settle = async () => {
      timer.cancel()
      try {
        await this.#settle(row)
        this.#settling.delete(row.id)
      } catch (error) {
        this.#deps.log('warn', 'a start was not ended', { task: row.id, error: String(error) })
        if (!this.#isClosing) this.#settleLater(row)
      }
    }
    let running: Promise<void> | undefined
    const settleOnce = () => {
      running ??= settle()
      return running
    }
    const timer = this.#deps.clock.schedule(recoverMs, () => void settleOnce(), { ref: false })
    this.#settling.set(row.id, settleOnce)
  }

  async #settle(row: StartTaskRow): Promise<void> {
    const { controlPlane } = this.#deps
    // A change: it comes after those whose connection was lost.
    const lease = await controlPlane.leases.take(leaseName(row))
    try {
      const [stored] = await controlPlane.startTasks.get([row.id])
      if (stored !== undefined) await this.#endRow(stored, interruptedError(stored).message)
    } finally {
      await lease.release()
    }
  }

  /** Gives the slot of the quota back in the same change. */
  async #markFailed(progress: StartProgress, detail: string): Promise<void> {
    if (isFinished(progress.row)) return
    if (isFork(progress.row)) await discardFork(this.#deps, progress.row)
    await progress.update({ status: 'ERROR', detail, quota_day: null })
  }
}

function leaseName({ id }: Pick<StartTaskRow, 'id'>): string {
  return `start ${id}`
}

/** The write that failed may be stored all the same; not on a full disk, and above a limit. */
function mayBeStored(error: unknown): boolean {
  return error instanceof Problem && error.code === 'unavailable' && error.retryAfterSeconds !== undefined
}
