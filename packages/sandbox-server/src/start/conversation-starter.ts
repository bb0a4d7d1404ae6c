import { randomBytes, randomUUID } from 'node:crypto'
import {
  type AppConversationStartRequest,
  invalidInput,
  type Llm,
  type LogFunction,
  Problem,
} from '@slipway/protocol'
import { createHistogram } from '@slipway/shared/metrics'
import { redact, redactedText } from '@slipway/shared/redaction'
import { type AppConversationRow, ownedBy, type Scope, type StartTaskRow } from '@slipway/storage'
import { parseMetadata } from '../conversations/records/conversation-info.ts'
import { Redactor } from '../redaction/redactor.ts'
import { conversationDeletedError, explainError, interruptedError, StartError } from './failures.ts'
import { checkRepository } from './git-repository.ts'
import { isFinished, StartProgress } from './progress.ts'
import { runStart, type StartJob, type StartRunDeps } from './run.ts'
import { hasOtherConversations, type SandboxChoice, selectSandbox } from './select-sandbox.ts'

export interface ConversationStarterDeps extends StartRunDeps {
  readonly quota: {
    reserve(scope: Scope): Promise<string | null>
    release(owner: string | null, day: string): Promise<void>
  }
  /** Delivers what waits for a conversation; goes on behind. */
  readonly deliver: (conversation: string) => void
  readonly log: LogFunction
}

/** A start that goes on. */
interface ActiveStart {
  readonly scope: Scope
  readonly progress: StartProgress
  readonly redactor: Redactor
  readonly controller: AbortController
  /** Never rejects. */
  done: Promise<void>
  sandbox: string | undefined
}

/** What a request is made of before it is begun. */
interface AdmittedStart {
  readonly id: string
  readonly scope: Scope
  readonly request: AppConversationStartRequest
  readonly existing: AppConversationRow | undefined
  readonly parent: AppConversationRow | undefined
  readonly model: Llm
}

/**
 * Starts conversations (wire 3.1). `start` resolves when the task is durable and its sandbox is chosen; everything after it
 * goes on without the caller. Every change of a task is durable before it is told. A slot of the quota is kept by a start that
 * becomes READY and given back by any other one.
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

  constructor(deps: ConversationStarterDeps) {
    this.#deps = deps
  }

  /** Before anybody is answered: what was under way when the process ended can only be started again. */
  async recover(): Promise<void> {
    for (const row of await this.#deps.controlPlane.startTasks.listUnfinished()) {
      const progress = new StartProgress(this.#deps.controlPlane.startTasks, row, this.#deps.now)
      await this.#markFailed(progress, interruptedError(row).message)
    }
  }

  /**
   * Begins a start, or answers the one of the same conversation that is under way. Problems: `invalid` for what cannot be,
   * `conflict` for an id that is somebody else's, `too_many` for the quota and the limit of sandboxes.
   */
  async start(scope: Scope, request: AppConversationStartRequest): Promise<StartProgress> {
    if (this.#isClosing) throw new Problem('unavailable', 'The server is stopping')
    const id = request.conversation_id ?? randomUUID()
    return await this.#deps.conversationMutex.runExclusive(id, async () => {
      const current = this.#active.get(id)
      if (current !== undefined) {
        if (current.scope.owner !== scope.owner) throw idTakenProblem()
        return current.progress
      }
      const admitted = await this.#admit(scope, id, request)
      return await this.#createTask(admitted)
    })
  }

  /** Starts that go on. */
  get activeCount(): number {
    return this.#active.size
  }

  /** Ids of the conversations that are on their way into a sandbox. */
  startingIn(sandbox: string): readonly string[] {
    return [...this.#active].filter(([, start]) => start.sandbox === sandbox).map(([id]) => id)
  }

  /** Ends the start of a conversation, if there is one, and waits for its end. */
  async cancel(conversation: string): Promise<void> {
    const start = this.#active.get(conversation)
    start?.controller.abort(conversationDeletedError)
    await start?.done
  }

  /** Ends what is under way as a restart would. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true
    const all = [...this.#active.values()]
    for (const { controller, progress } of all) controller.abort(interruptedError(progress.row))
    await Promise.all(all.map(({ done }) => done))
  }

  async #admit(scope: Scope, id: string, request: AppConversationStartRequest): Promise<AdmittedStart> {
    const { controlPlane, accounts } = this.#deps
    checkRepository(request.selected_repository)
    if (request.agent_profile_id !== undefined)
      throw invalidInput(['body', 'agent_profile_id'], 'There is no such agent profile')
    const [existing] = await controlPlane.conversations.get([id])
    if (existing !== undefined && !ownedBy(scope).includes(existing)) throw idTakenProblem()
    const { parent_conversation_id: parentId } = request
    const [parent] = parentId === undefined ? [] : await controlPlane.conversations.get([parentId])
    if (parentId !== undefined && (!ownedBy(scope).includes(parent) || parentId === id))
      throw invalidInput(['body', 'parent_conversation_id'], 'There is no such conversation to be the parent')
    const inherited = inheritSettings(request, existing ?? parent)
    const { llm_profile: profile, llm_model: model } = inherited
    try {
      const llm = await accounts.model(scope.owner, { profile, model })
      return { id, scope, request: inherited, existing, parent, model: llm }
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'not_found') throw error
      throw invalidInput(['body', 'llm_profile'], error.message)
    }
  }

  async #createTask(admitted: AdmittedStart): Promise<StartProgress> {
    const { controlPlane, quota, now } = this.#deps
    const { id, scope, existing } = admitted
    // What was counted when it began is not counted again.
    const day = existing === undefined ? await quota.reserve(scope) : null
    const at = now()
    const row: StartTaskRow = {
      id: randomUUID(),
      owner: scope.owner,
      status: 'WORKING',
      detail: null,
      conversation: id,
      sandbox: null,
      agent_url: null,
      request: JSON.stringify(redactRequest(admitted.request)),
      quota_day: day,
      created_at: at,
      updated_at: at,
    }
    try {
      await controlPlane.startTasks.add(row)
    } catch (error) {
      if (day !== null) await quota.release(scope.owner, day)
      throw error
    }
    const start: ActiveStart = {
      scope,
      progress: new StartProgress(controlPlane.startTasks, row, now),
      redactor: createRedactor(admitted),
      controller: new AbortController(),
      done: Promise.resolve(),
      sandbox: undefined,
    }
    this.#active.set(id, start)
    return await this.#launch(admitted, start)
  }

  /** A sandbox that cannot be had because of the request is told to the caller at once, and is the end of the task too. */
  async #launch(admitted: AdmittedStart, start: ActiveStart): Promise<StartProgress> {
    const settings = await this.#orFail(start, () => this.#deps.accounts.settings(admitted.scope.owner))
    const choice =
      settings && (await this.#orFail(start, () => this.#selectSandbox(admitted, start, settings)))
    if (settings === undefined || choice === undefined) {
      this.#active.delete(admitted.id)
      return start.progress
    }
    const { progress, redactor, controller } = start
    const job: StartJob = {
      ...admitted,
      settings,
      choice,
      progress,
      redactor,
      signal: controller.signal,
      hasOthers: () => hasOtherConversations(this.#selectionContext(admitted.scope), choice.row.id, admitted),
    }
    start.done = this.#runStart(job, start)
    return progress
  }

  /** Undefined when it failed and the task says so; what the caller did wrong is thrown. */
  async #orFail<T>(start: ActiveStart, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      await this.#handleFailure(start, error)
      if (!(error instanceof Problem) || error.code === 'not_found') return undefined
      this.#active.delete(String(start.progress.row.conversation))
      throw error
    }
  }

  async #selectSandbox(
    { id, scope, request, existing, parent }: AdmittedStart,
    start: ActiveStart,
    settings: Awaited<ReturnType<StartRunDeps['accounts']['settings']>>,
  ): Promise<SandboxChoice> {
    const { controlPlane, sandboxes, conversationMutex } = this.#deps
    const [current] = existing === undefined ? [] : await sandboxes.find([existing.sandbox])
    const isElsewhere =
      current !== undefined &&
      current.wanted !== 'gone' &&
      current.status !== 'MISSING' &&
      existing !== undefined
    if (isElsewhere && request.sandbox_id !== undefined && request.sandbox_id !== current.id)
      throw new StartError(`The conversation lives in another sandbox: ${current.id}.`)
    const previousTasks = await controlPlane.startTasks.search(
      { owner: scope.owner },
      { conversation_id__eq: id, limit: 10, sort_order: 'CREATED_AT_DESC' },
    )
    const previousSandboxes = previousTasks.items.flatMap(({ sandbox }) =>
      sandbox === null ? [] : [sandbox],
    )
    const usable = (await sandboxes.find(previousSandboxes)).filter(
      (row) => row !== undefined && row.status !== 'ERROR',
    )
    const preferred = [existing?.sandbox, ...usable.map((row) => row?.id), parent?.sandbox]
    // One after another, so that each sees whom the one before has put where.
    return await conversationMutex.runExclusive(`choose:${scope.owner ?? ''}`, async () => {
      const choice = await selectSandbox(this.#selectionContext(scope), {
        sandbox: request.sandbox_id,
        preferred: preferred.filter((sandbox) => sandbox !== undefined),
        spec: request.sandbox_spec_id ?? settings.default_sandbox_spec_id,
        strategy: settings.sandbox_grouping_strategy,
      })
      start.sandbox = choice.row.id
      return choice
    })
  }

  #selectionContext(scope: Scope) {
    const { sandboxes, controlPlane } = this.#deps
    return {
      scope,
      sandboxes,
      conversations: controlPlane.conversations,
      startingIn: (sandbox: string) => this.startingIn(sandbox),
    }
  }

  async #runStart(job: StartJob, start: ActiveStart): Promise<void> {
    try {
      await runStart(this.#deps, job)
      this.#recordDuration(start, 'ready')
      this.#deps.deliver(job.id)
    } catch (error) {
      await this.#handleFailure(start, error)
    } finally {
      this.#active.delete(job.id)
    }
  }

  #recordDuration({ progress }: ActiveStart, outcome: 'ready' | 'failed'): void {
    this.durations.observe({ outcome }, (this.#deps.now() - progress.row.created_at) / 1_000_000)
  }

  /** Never rejects: what cannot be written now is found at the next start of the server. */
  async #handleFailure(start: ActiveStart, error: unknown): Promise<void> {
    const { progress, redactor, controller } = start
    this.#recordDuration(start, 'failed')
    const { log } = this.#deps
    const { signal } = controller
    const explanation = explainError(signal.aborted ? signal.reason : error)
    const error_id = randomBytes(8).toString('hex')
    if (explanation === undefined) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      log('error', 'a start failed', { error_id, task: progress.row.id, error: redactor.redact(text) })
    }
    try {
      await this.#markFailed(
        progress,
        redactor.redact(explanation ?? `The server made a mistake (${error_id}).`),
      )
    } catch (failure) {
      log('error', 'the end of a start could not be written', {
        task: progress.row.id,
        error: redactor.redact(String(failure)),
      })
    }
  }

  /**
   * The end of a task comes before its slot is given back: a crash between the two costs a slot of that day, the other order
   * would give one back twice.
   */
  async #markFailed(progress: StartProgress, detail: string): Promise<void> {
    const { owner, quota_day } = progress.row
    if (isFinished(progress.row)) return
    await progress.update({ status: 'ERROR', detail, quota_day: null })
    if (quota_day !== null) await this.#deps.quota.release(owner, quota_day)
  }
}

/** Says nothing of whose it is. */
function idTakenProblem(): Problem {
  return new Problem('conflict', 'The conversation_id is taken')
}

/** What is not given is as it was in the conversation itself or in its parent (wire 3.1, step 1). */
function inheritSettings(
  request: AppConversationStartRequest,
  from: AppConversationRow | undefined,
): AppConversationStartRequest {
  if (from === undefined) return request
  const { selected_repository, selected_branch, git_provider, llm_model } = parseMetadata(from)
  const isSame = request.selected_repository === undefined
  return {
    ...request,
    selected_repository: request.selected_repository ?? selected_repository ?? undefined,
    selected_branch: request.selected_branch ?? (isSame ? (selected_branch ?? undefined) : undefined),
    git_provider: request.git_provider ?? (isSame ? (git_provider ?? undefined) : undefined),
    llm_model:
      request.llm_model ?? (request.llm_profile === undefined ? (llm_model ?? undefined) : undefined),
  }
}

function createRedactor({ request, model }: AdmittedStart): Redactor {
  const redactor = new Redactor()
  redactor.addSecretsOf(model)
  redactor.addSecretsOf({ plugins: request.plugins, suggested_task: request.suggested_task })
  for (const secret of Object.values(request.secrets ?? {})) {
    if (typeof secret === 'string') redactor.add(secret)
    else if (secret.kind === 'StaticSecret') redactor.add(secret.value)
    else for (const value of Object.values(secret.headers)) redactor.add(value)
  }
  return redactor
}

/** The request as it is kept and shown: of its secrets the names. */
function redactRequest(request: AppConversationStartRequest): unknown {
  const names = Object.keys(request.secrets ?? {})
  const secrets = Object.fromEntries(names.map((name) => [name, redactedText]))
  const redacted = redact({ ...request, secrets: undefined }, redactedText)
  return { ...Object(redacted), ...(request.secrets === undefined ? {} : { secrets }) }
}
