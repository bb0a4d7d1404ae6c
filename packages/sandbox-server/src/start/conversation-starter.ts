import { randomBytes, randomUUID } from 'node:crypto'
import {
  type AppConversationStartRequest,
  invalid,
  type Llm,
  type Log,
  Problem,
  redact,
  Tallies,
} from '@slipway/protocol'
import type { AppConversationRow, Scope, StartTaskRow } from '@slipway/storage'
import { membersOf } from '../conversations/records/conversation-info.ts'
import { Hidden } from '../redaction/redactor.ts'
import { deleted, explained, interrupted, StartFailed } from './failures.ts'
import { checkRepository } from './git-repository.ts'
import { isOver, Progress } from './progress.ts'
import { type RunParts, runStart, type StartJob } from './run.ts'
import { type Choice, chooseSandbox, hasOthers } from './select-sandbox.ts'

export interface StartParts extends RunParts {
  readonly quota: {
    take(scope: Scope): Promise<string | null>
    giveBack(owner: string | null, day: string): Promise<void>
  }
  /** Delivers what waits for a conversation; goes on behind. */
  readonly deliver: (conversation: string) => void
  readonly log: Log
}

/** A start that goes on. */
interface Running {
  readonly scope: Scope
  readonly progress: Progress
  readonly hidden: Hidden
  readonly controller: AbortController
  /** Never rejects. */
  done: Promise<void>
  sandbox: string | undefined
}

/** What a request is made of before it is begun. */
interface Admitted {
  readonly id: string
  readonly scope: Scope
  readonly request: AppConversationStartRequest
  readonly known: AppConversationRow | undefined
  readonly parent: AppConversationRow | undefined
  readonly model: Llm
}

/**
 * Starts conversations (wire 3.1). `start` resolves when the task is durable and its sandbox is chosen; everything after it
 * goes on without the caller. Every change of a task is durable before it is told. A slot of the quota is kept by a start that
 * becomes READY and given back by any other one.
 */
export class Starts implements AsyncDisposable {
  readonly #parts: StartParts
  /** By id of the conversation. */
  readonly #running = new Map<string, Running>()
  /** Seconds that starts took, by what became of them. */
  readonly ended = new Tallies([1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600], 'outcome')
  #isClosing = false

  constructor(parts: StartParts) {
    this.#parts = parts
  }

  /** Before anybody is answered: what was under way when the process ended can only be started again. */
  async recover(): Promise<void> {
    for (const row of await this.#parts.ledger.startTasks.unfinished()) {
      const progress = new Progress(this.#parts.ledger.startTasks, row, this.#parts.now)
      await this.#fail(progress, interrupted(row).message)
    }
  }

  /**
   * Begins a start, or answers the one of the same conversation that is under way. Problems: `invalid` for what cannot be,
   * `conflict` for an id that is somebody else's, `too_many` for the quota and the limit of sandboxes.
   */
  async start(scope: Scope, request: AppConversationStartRequest): Promise<Progress> {
    if (this.#isClosing) throw new Problem('unavailable', 'The server is stopping')
    const id = request.conversation_id ?? randomUUID()
    return await this.#parts.lanes.run(id, async () => {
      const current = this.#running.get(id)
      if (current !== undefined) {
        if (current.scope.owner !== scope.owner) throw taken()
        return current.progress
      }
      const admitted = await this.#admit(scope, id, request)
      return await this.#open(admitted)
    })
  }

  /** Starts that go on. */
  get underWay(): number {
    return this.#running.size
  }

  /** Ids of the conversations that are on their way into a sandbox. */
  startingIn(sandbox: string): readonly string[] {
    return [...this.#running].filter(([, running]) => running.sandbox === sandbox).map(([id]) => id)
  }

  /** Ends the start of a conversation, if there is one, and waits for its end. */
  async cancel(conversation: string): Promise<void> {
    const running = this.#running.get(conversation)
    running?.controller.abort(deleted)
    await running?.done
  }

  /** Ends what is under way as a restart would. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true
    const all = [...this.#running.values()]
    for (const { controller, progress } of all) controller.abort(interrupted(progress.row))
    await Promise.all(all.map(({ done }) => done))
  }

  async #admit(scope: Scope, id: string, request: AppConversationStartRequest): Promise<Admitted> {
    const { ledger, accounts } = this.#parts
    checkRepository(request.selected_repository)
    if (request.agent_profile_id !== undefined)
      throw invalid(['body', 'agent_profile_id'], 'There is no such agent profile')
    const [known] = await ledger.conversations.get([id])
    if (known !== undefined && !isOwn(scope, known)) throw taken()
    const { parent_conversation_id: parentId } = request
    const [parent] = parentId === undefined ? [] : await ledger.conversations.get([parentId])
    if (parentId !== undefined && (parent === undefined || !isOwn(scope, parent) || parentId === id))
      throw invalid(['body', 'parent_conversation_id'], 'There is no such conversation to be the parent')
    const inherited = inherit(request, known ?? parent)
    const { llm_profile: profile, llm_model: model } = inherited
    try {
      const llm = await accounts.model(scope.owner, { profile, model })
      return { id, scope, request: inherited, known, parent, model: llm }
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'not_found') throw error
      throw invalid(['body', 'llm_profile'], error.message)
    }
  }

  async #open(admitted: Admitted): Promise<Progress> {
    const { ledger, quota, now } = this.#parts
    const { id, scope, known } = admitted
    // What was counted when it began is not counted again.
    const day = known === undefined ? await quota.take(scope) : null
    const at = now()
    const row: StartTaskRow = {
      id: randomUUID(),
      owner: scope.owner,
      status: 'WORKING',
      detail: null,
      conversation: id,
      sandbox: null,
      agent_url: null,
      request: JSON.stringify(shownRequest(admitted.request)),
      quota_day: day,
      created_at: at,
      updated_at: at,
    }
    try {
      await ledger.startTasks.add(row)
    } catch (error) {
      if (day !== null) await quota.giveBack(scope.owner, day)
      throw error
    }
    const running: Running = {
      scope,
      progress: new Progress(ledger.startTasks, row, now),
      hidden: hiddenOf(admitted),
      controller: new AbortController(),
      done: Promise.resolve(),
      sandbox: undefined,
    }
    this.#running.set(id, running)
    return await this.#launch(admitted, running)
  }

  /** A sandbox that cannot be had because of the request is told to the caller at once, and is the end of the task too. */
  async #launch(admitted: Admitted, running: Running): Promise<Progress> {
    const settings = await this.#settle(running, () => this.#parts.accounts.settings(admitted.scope.owner))
    const choice = settings && (await this.#settle(running, () => this.#choose(admitted, running, settings)))
    if (settings === undefined || choice === undefined) {
      this.#running.delete(admitted.id)
      return running.progress
    }
    const { progress, hidden, controller } = running
    const job: StartJob = {
      ...admitted,
      settings,
      choice,
      progress,
      hidden,
      signal: controller.signal,
      hasOthers: () => hasOthers(this.#choosing(admitted.scope), choice.row.id, admitted),
    }
    running.done = this.#follow(job, running)
    return progress
  }

  /** Undefined when it failed and the task says so; what the caller did wrong is thrown. */
  async #settle<T>(running: Running, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      await this.#end(running, error)
      if (!(error instanceof Problem) || error.code === 'not_found') return undefined
      this.#running.delete(String(running.progress.row.conversation))
      throw error
    }
  }

  async #choose(
    { id, scope, request, known, parent }: Admitted,
    running: Running,
    settings: Awaited<ReturnType<RunParts['accounts']['settings']>>,
  ): Promise<Choice> {
    const { ledger, sandboxes, lanes } = this.#parts
    const [current] = known === undefined ? [] : await sandboxes.find([known.sandbox])
    const isElsewhere =
      current !== undefined &&
      current.wanted !== 'gone' &&
      current.status !== 'MISSING' &&
      known !== undefined
    if (isElsewhere && request.sandbox_id !== undefined && request.sandbox_id !== current.id)
      throw new StartFailed(`The conversation lives in another sandbox: ${current.id}.`)
    const tried = await ledger.startTasks.search(
      { owner: scope.owner },
      { conversation_id__eq: id, limit: 10, sort_order: 'CREATED_AT_DESC' },
    )
    const before = tried.items.flatMap(({ sandbox }) => (sandbox === null ? [] : [sandbox]))
    const usable = (await sandboxes.find(before)).filter((row) => row !== undefined && row.status !== 'ERROR')
    const preferred = [known?.sandbox, ...usable.map((row) => row?.id), parent?.sandbox]
    // One after another, so that each sees whom the one before has put where.
    return await lanes.run(`choose:${scope.owner ?? ''}`, async () => {
      const choice = await chooseSandbox(this.#choosing(scope), {
        sandbox: request.sandbox_id,
        preferred: preferred.filter((sandbox) => sandbox !== undefined),
        spec: request.sandbox_spec_id ?? settings.default_sandbox_spec_id,
        strategy: settings.sandbox_grouping_strategy,
      })
      running.sandbox = choice.row.id
      return choice
    })
  }

  #choosing(scope: Scope) {
    const { sandboxes, ledger } = this.#parts
    return {
      scope,
      sandboxes,
      conversations: ledger.conversations,
      startingIn: (sandbox: string) => this.startingIn(sandbox),
    }
  }

  async #follow(job: StartJob, running: Running): Promise<void> {
    try {
      await runStart(this.#parts, job)
      this.#count(running, 'ready')
      this.#parts.deliver(job.id)
    } catch (error) {
      await this.#end(running, error)
    } finally {
      this.#running.delete(job.id)
    }
  }

  #count({ progress }: Running, outcome: 'ready' | 'failed'): void {
    this.ended.add({ outcome }, (this.#parts.now() - progress.row.created_at) / 1_000_000)
  }

  /** Never rejects: what cannot be written now is found at the next start of the server. */
  async #end(running: Running, error: unknown): Promise<void> {
    const { progress, hidden, controller } = running
    this.#count(running, 'failed')
    const { log } = this.#parts
    const { signal } = controller
    const words = explained(signal.aborted ? signal.reason : error)
    const error_id = randomBytes(8).toString('hex')
    if (words === undefined) {
      const said = error instanceof Error ? (error.stack ?? error.message) : String(error)
      log('error', 'a start failed', { error_id, task: progress.row.id, error: hidden.hide(said) })
    }
    try {
      await this.#fail(progress, hidden.hide(words ?? `The server made a mistake (${error_id}).`))
    } catch (failure) {
      log('error', 'the end of a start could not be written', {
        task: progress.row.id,
        error: hidden.hide(String(failure)),
      })
    }
  }

  /**
   * The end of a task comes before its slot is given back: a crash between the two costs a slot of that day, the other order
   * would give one back twice.
   */
  async #fail(progress: Progress, detail: string): Promise<void> {
    const { owner, quota_day } = progress.row
    if (isOver(progress.row)) return
    await progress.change({ status: 'ERROR', detail, quota_day: null })
    if (quota_day !== null) await this.#parts.quota.giveBack(owner, quota_day)
  }
}

function isOwn({ owner, org }: Scope, row: AppConversationRow): boolean {
  return row.owner === owner && (org === undefined || row.org === org)
}

/** Says nothing of whose it is. */
function taken(): Problem {
  return new Problem('conflict', 'The conversation_id is taken')
}

/** What is not given is as it was in the conversation itself or in its parent (wire 3.1, step 1). */
function inherit(
  request: AppConversationStartRequest,
  from: AppConversationRow | undefined,
): AppConversationStartRequest {
  if (from === undefined) return request
  const { selected_repository, selected_branch, git_provider, llm_model } = membersOf(from)
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

function hiddenOf({ request, model }: Admitted): Hidden {
  const hidden = new Hidden()
  hidden.addIn(model)
  hidden.addIn({ plugins: request.plugins, suggested_task: request.suggested_task })
  for (const secret of Object.values(request.secrets ?? {})) {
    if (typeof secret === 'string') hidden.add(secret)
    else if (secret.kind === 'StaticSecret') hidden.add(secret.value)
    else for (const value of Object.values(secret.headers)) hidden.add(value)
  }
  return hidden
}

/** The request as it is kept and shown: of its secrets the names. */
function shownRequest(request: AppConversationStartRequest): unknown {
  const names = Object.keys(request.secrets ?? {})
  const secrets = Object.fromEntries(names.map((name) => [name, '**********']))
  const shown = redact({ ...request, secrets: undefined }, '**********')
  return { ...Object(shown), ...(request.secrets === undefined ? {} : { secrets }) }
}
