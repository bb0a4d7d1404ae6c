/**
 * Starts and stops the run of a conversation.
 *
 * Problem: requests to run, pause, interrupt, answer, navigate, condense and close come at any time, also in
 * the last moment of a run. One run at most may be active, the server limits how many run at once, and the
 * process may end between any two lines.
 *
 * Idea: the status in the log is the command. A request appends a status, decided by `transition` from the
 * state of that moment (`events/writer.ts`). Only then something happens here: the loop is started when the
 * status is `running`, and the loop itself looks at the status before each step.
 *
 * Invariants:
 * - `#runExclusive` alone sets `#activity`, and its callers check `isActive` without a wait in between: runs,
 *   condensations and work for `runWhileIdle` never overlap.
 * - A slot is acquired before the status is written, so a refused request leaves nothing in the log. It is
 *   released on each way out of `startWith` and `start`.
 * - A run that was requested while one ended is started by the end of `#runExclusive`. A run that failed to
 *   write its failure is not (`isBroken`): it would fail at once, for ever.
 * - A step is aborted by the decision that writes why (`#abortStep`), and the next step waits for that write
 *   (`#nextStepSignal`). So the events of a stop come before anything that follows it.
 * - A stop waits a limited time. What an abandoned step writes later is decided by a state that has stopped.
 * - An answer to a confirmation is compared with the waiting actions in the write that accepts it
 *   (`assertAnswersPending`): it cannot approve others than those that were shown.
 * - `close` queues its events before it aborts `closing`, so they precede what the aborted step writes. A
 *   deleted conversation gets none.
 *
 * If you change this: two runs that append to one log, a slot that is never free again, or a conversation
 * that is `running` while nothing runs.
 *
 * Decision pages: docs/decisions/0034-cut-runs.md, docs/decisions/0008-messages-in-flight.md
 */

import { type ExecutionStatus, isAcpAgent, Problem } from '@slipway/protocol'
import { actionsDigest } from '@slipway/protocol/confirmation'
import { errorText } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import { ConfirmationDeadline } from './confirm/deadline.ts'
import { isServerQuestion } from './confirm/server-questions.ts'
import { agentErrorEvent, stateUpdate, statusUpdate } from './events/event-drafts.ts'
import type { ExternalAgent } from './external/external-agent.ts'
import { AgentLoop } from './loop/agent-loop.ts'
import { endGoalEvents } from './loop/goal.ts'
import { closeAbandonedActions, navigateEvents, resolveNavigateTarget } from './navigate.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import { type RunSlot, type RunSlots, runLimitProblem } from './runtime/deps.ts'
import { instrument, type WorkOutcome } from './runtime/instrumentation.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import type { ConversationState } from './state/state.ts'
import { isAwaitingConsent } from './state/state.ts'
import { transition } from './state/status.ts'
import {
  interruptEvent,
  pauseEvent,
  rejectOpenCalls,
  restartedText,
  stepStatus,
  stopEvents,
} from './stop-events.ts'

const interruptedText = 'Tool call interrupted before completion, by the user. It may have been done in part.'
const pausedQuestionText = 'The run was paused before this was answered.'
/** A run that does not stop is abandoned after this. */
const stopMs = 5_000
/** The same when its conversation closes, which ends the processes of its tools next. */
const closeMs = 1_000
/** Events between two checkpoints during a run; after a run a tenth is enough. */
const checkpointInterval = 1_000

/** Key of the state update that says whether a run waits for its turn. */
const runQueuedKey = 'run_queued'

function releaseSlot(slot: RunSlot): void {
  if (slot !== 'none') slot()
}

/** The answer of a user. */
interface ConfirmationAnswer {
  readonly accept: boolean
  readonly reason: string
  /** The answer is for these actions only. */
  readonly action_ids?: readonly string[] | undefined
  /** The answer is for actions with this digest only. */
  readonly actions_digest?: string | undefined
}

/**
 * A Problem `conflict` when an answer names actions, or their digest, and others wait for confirmation, or
 * none.
 */
function assertAnswersPending(state: ConversationState, answer: ConfirmationAnswer): void {
  const { action_ids: ids, actions_digest: digest } = answer
  if (ids === undefined && digest === undefined) return
  const open = state.status === 'waiting_for_confirmation' ? state.openActions() : []
  if (open.length === 0 || (ids !== undefined && !open.every(({ id }) => ids.includes(id))))
    throw new Problem('conflict', 'These actions wait no more: they were already answered elsewhere.')
  if (digest !== undefined && digest !== actionsDigest(open))
    throw new Problem(
      'conflict',
      'The actions that wait are not the ones that were shown. Nothing was answered: show them again.',
    )
}

/** A Problem `forbidden` when something waits for an answer: a message rejects it, and a run approves it. */
export function assertNothingWaits({ status }: ConversationState): void {
  if (status === 'waiting_for_confirmation')
    throw new Problem('forbidden', 'The conversation waits for an answer, which this key may not give')
}

/** Starts and stops the agent loop, and does other work that excludes a run. */
export class RunControl {
  readonly #context: ConversationContext
  readonly #runtimes: RuntimeLoader
  readonly #agentLoop: AgentLoop
  readonly #external: ExternalAgent
  readonly #deadline: ConfirmationDeadline
  #activity: Promise<void> | undefined
  /** The activity is a run. */
  #isRunActive = false
  #isQueued = false
  #stepController: AbortController | undefined
  #interruption: Promise<unknown> | undefined

  constructor(context: ConversationContext, runtimes: RuntimeLoader, external: ExternalAgent) {
    this.#context = context
    this.#external = external
    this.#runtimes = runtimes
    this.#agentLoop = new AgentLoop(context, (signal) => runtimes.prepare(signal), external)
    this.#deadline = new ConfirmationDeadline(
      context.deps.clock,
      (reason) => void this.resolveConfirmation({ accept: false, reason }).catch(() => undefined),
    )
  }

  /** A run waits for its slot. */
  get isQueued(): boolean {
    return this.#isQueued
  }

  get isActive(): boolean {
    return this.#activity !== undefined
  }

  async waitUntilIdle(): Promise<void> {
    while (this.#activity !== undefined) await this.#activity
  }

  /** A Problem `conflict` unless nothing runs. */
  assertIdle({ status }: ConversationState): void {
    if (status !== 'running' && !this.isActive) return
    throw new Problem('conflict', 'The conversation is running. Wait until it has stopped, or pause it.')
  }

  /** Does work that no run may overlap; a Problem `conflict` during a run. */
  async runWhileIdle<T>(work: () => Promise<T>): Promise<T> {
    await this.#context.append((now) => {
      this.assertIdle(now)
      return []
    })
    this.assertIdle(this.#context.state)
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    this.#runExclusive(() => work().then(resolve, reject))
    return await promise
  }

  /**
   * A slot for a run that is about to begin; `none` when it gets one on its own: it joins the active run, or
   * waits. Undefined when all slots are taken. Pass it to `startWith`.
   */
  reserveSlot(): RunSlot | undefined {
    const { runSlots } = this.#context.deps
    return runSlots === undefined || runSlots.isQueued || this.isActive ? 'none' : runSlots.tryAcquire()
  }

  /** `waitsForSlot`: the run waits for its turn where other requests are refused. */
  async run({
    waitsForSlot = false,
    mayAnswer = true,
  }: {
    readonly waitsForSlot?: boolean
    /** False: a Problem `forbidden` while something waits for an answer, which a run would give. */
    readonly mayAnswer?: boolean
  } = {}): Promise<void> {
    const context = this.#context
    // Its last run ended without being able to write a status.
    if (context.state.status === 'running' && !this.isActive) return this.start()
    await this.startWith(waitsForSlot ? 'none' : this.reserveSlot(), () =>
      context.append((now) => {
        if (!mayAnswer) assertNothingWaits(now)
        const status = transition(now.status, 'run')
        return status === undefined ? [] : [...closeAbandonedActions(now), statusUpdate(status)]
      }),
    )
    await context.questions.settle()
    if (context.state.status !== 'running') context.publish({ kind: 'idle' })
  }

  /** Runs in the slot if the status that `write` leaves says so; releases it otherwise. */
  async startWith(slot: RunSlot | undefined, write: () => Promise<unknown>): Promise<void> {
    if (slot === undefined) throw runLimitProblem()
    try {
      await write()
    } catch (error) {
      releaseSlot(slot)
      throw error
    }
    if (this.#context.state.status === 'running') this.start(slot)
    else releaseSlot(slot)
  }

  /** Runs the agent loop while the status is `running`; an active run just continues. */
  start(slot: RunSlot = 'none'): void {
    const context = this.#context
    this.#deadline.schedule(undefined)
    this.#agentLoop.reset()
    if (this.isActive || context.closing.signal.aborted) {
      releaseSlot(slot)
      return
    }
    this.#runExclusive(async (signal) => {
      this.#isRunActive = true
      const { runSlots } = context.deps
      let release = slot === 'none' ? runSlots?.tryAcquire() : slot
      try {
        if (runSlots !== undefined) release ??= await this.#waitForSlot(runSlots, signal)
        const loop = () => this.#agentLoop.run(() => this.#nextStepSignal())
        await instrument(context.deps.monitor, { kind: 'run' }, loop, () => runOutcome(context.state))
        await context.appendPatiently((now) => (isRunUnfinished(now) ? [] : endGoalEvents(now)))
      } finally {
        this.#isRunActive = false
        release?.()
      }
    })
  }

  /** The log says that the run waits; a run that cannot write reports that itself. */
  async #waitForSlot(slots: RunSlots, signal: AbortSignal): Promise<() => void> {
    const { append, closing } = this.#context
    const noteQueued = (value: boolean) =>
      append(() => (closing.signal.aborted ? [] : [stateUpdate(runQueuedKey, value)])).catch(() => undefined)
    const acquired = slots.acquire(signal)
    this.#isQueued = true
    await noteQueued(true)
    const release = await acquired
    this.#isQueued = false
    await noteQueued(false)
    return release
  }

  async ensureRunning(): Promise<void> {
    if (this.#context.state.status === 'running') return
    await this.run().catch((error: unknown) => {
      // Another caller started it between the check and the write.
      if (!(error instanceof Problem && error.code === 'conflict')) throw error
    })
  }

  /** A Problem `conflict` when the answer is for other actions than those that wait. */
  async resolveConfirmation(answer: ConfirmationAnswer): Promise<void> {
    const { accept, reason } = answer
    const isWaiting = this.#context.state.status === 'waiting_for_confirmation'
    await this.startWith(accept && isWaiting ? this.reserveSlot() : 'none', () =>
      this.#context.append((now) => {
        assertAnswersPending(now, answer)
        const status = transition(now.status, accept ? 'accept' : 'reject')
        if (status === undefined) return []
        // Only a decision about the repository continues a run that waits for one.
        if (accept && isAwaitingConsent(now)) return []
        if (accept) return [statusUpdate(status)]
        // An external agent receives the rejection, and continues its turn.
        const next = this.#external.hasTurn ? 'running' : status
        return [...rejectOpenCalls(now, reason), ...endGoalEvents(now), statusUpdate(next)]
      }),
    )
    await this.#context.questions.settle()
    this.#deadline.schedule(undefined)
  }

  async pause(): Promise<void> {
    const decide = (now: ConversationState) => {
      const status = transition(this.#workingStatus(now), 'pause')
      if (status === undefined) return []
      const isExternal = this.#external.hasTurn
      const questions = now.openActions().filter((open) => isExternal || isServerQuestion(open))
      const ends = questions.map((question) => agentErrorEvent(question, pausedQuestionText))
      return [...ends, ...endGoalEvents(now), statusUpdate(status), pauseEvent]
    }
    // The turn of an external agent has no end that is near.
    const isExternal = isAcpAgent(this.#context.settings.current.agent)
    await (isExternal ? this.#abortStep(decide) : this.#context.append(decide))
    await this.#context.questions.settle()
    await this.#runtimes.tasks?.pause()
    this.#context.publish({ kind: 'idle' })
  }

  async interrupt(): Promise<void> {
    await this.#abortStep((now) => {
      const working = this.#workingStatus(now)
      const status = transition(working, 'interrupt')
      // A pause lets the current step continue: that step is interrupted.
      if (status === undefined) {
        const isWorking = this.#isRunActive && now.status === 'paused'
        if (!isWorking) return []
        const errors = now.pendingActions().map((call) => agentErrorEvent(call, interruptedText))
        return this.#context.wire === 'current' ? [...errors, interruptEvent] : errors
      }
      if (working !== 'running') return [...endGoalEvents(now), statusUpdate(status), pauseEvent]
      const end = this.#context.wire === 'current' ? interruptEvent : pauseEvent
      return [...stopEvents(now, interruptedText), end]
    })
  }

  /** The status without regard to a question from within a step, or a turn of an external agent. */
  #workingStatus(now: ConversationState): ExecutionStatus {
    const isAsking = now.status === 'waiting_for_confirmation' && this.#external.hasTurn
    return isAsking ? 'running' : stepStatus(now)
  }

  async navigate(eventId: string | null): Promise<void> {
    const context = this.#context
    // What the last step still writes belongs to the branch that is left.
    if (context.state.status !== 'running') await this.#waitBriefly(this.waitUntilIdle())
    await context.append(async (now) => {
      const { id, deps } = context
      const value = eventId === null ? null : await resolveNavigateTarget(deps.log, { id, eventId, now })
      if (now.status === 'running' || this.isActive)
        throw new Problem('conflict', 'The conversation is running. Pause the run before navigating.')
      return navigateEvents(now, value)
    })
    const runtime = await this.#runtimes.opened()
    runtime?.rules.reset()
    await this.#external.forgetSession()
    this.#deadline.schedule(undefined)
    context.publish({ kind: 'idle' })
  }

  /** Condenses now, or at the next step of the active run. */
  async condense(): Promise<void> {
    const { settings, secrets, append } = this.#context
    const { condenser } = settings.current.agent
    if (condenser === undefined || condenser.kind === 'NoOpCondenser')
      throw new Problem('conflict', 'The agent of this conversation has no condenser.')
    const runtime = await this.#runtimes.open()
    await append(() => [{ kind: 'CondensationRequest', source: 'environment' }])
    if (this.isActive) return
    let failure: string | undefined
    this.#runExclusive(async (signal) => {
      const result = await this.#agentLoop.condense(runtime, signal)
      if (result.kind === 'failed') failure = result.detail
    })
    await this.waitUntilIdle()
    if (failure !== undefined)
      throw new Problem('conflict', `The history was not condensed. ${secrets.redact(failure)}`)
  }

  /** Rejects pending actions when the confirmation deadline of the policy or of the server passes. */
  scheduleDeadline(): void {
    const { state, settings, deps } = this.#context
    const { policy } = settings
    const own = 'deadline_seconds' in policy ? policy.deadline_seconds : undefined
    const limitMs = own === undefined ? deps.confirmationDeadlineMs : own * 1000
    const since = Date.parse(state.statusSince ?? '')
    const isWaiting = state.status === 'waiting_for_confirmation' && limitMs !== undefined
    this.#deadline.schedule(isWaiting ? { since, limitMs } : undefined)
  }

  get hasDeadline(): boolean {
    return this.#deadline.isScheduled
  }

  /** Aborts the run and the conversation's other work. Writes nothing when the conversation is deleted. */
  async close({ isDeleted }: { readonly isDeleted: boolean }): Promise<void> {
    this.#deadline.schedule(undefined)
    const marks = this.#context.wire === 'current' ? [pauseEvent, interruptEvent] : []
    const decide = (now: ConversationState) =>
      isDeleted || now.status !== 'running' ? [] : [...stopEvents(now, restartedText), ...marks]
    const stopped = this.#abortStep(decide, closeMs)
    this.#context.closing.abort()
    await stopped.catch(() => undefined)
  }

  async saveCheckpoint(): Promise<void> {
    const { state, checkpoints, store } = this.#context
    const { position, needsBranchReplay } = state
    if (position === checkpoints.position || needsBranchReplay) return
    const snapshot = checkpoints.add(position, state.save())
    await store.saveSnapshot(snapshot).catch(() => undefined)
  }

  /** Does work that excludes a run. */
  #runExclusive(work: (signal: AbortSignal) => Promise<void>): void {
    const { id, deps, closing, publish } = this.#context
    const step = new AbortController()
    this.#stepController = step
    let isBroken = false
    this.#activity = work(AbortSignal.any([step.signal, closing.signal]))
      .catch((error: unknown) => {
        isBroken = true
        const reason = errorText(error)
        deps.logLine('error', 'a run ended unexpectedly', { conversation: id, reason })
      })
      .then(() => {
        this.#activity = undefined
        this.#stepController = undefined
        publish({ kind: 'idle' })
        this.#saveCheckpointAfter(checkpointInterval / 10)
        if (closing.signal.aborted) return
        if (this.#context.state.status === 'running' && !isBroken) this.start()
        else this.scheduleDeadline()
      })
  }

  async #nextStepSignal(): Promise<AbortSignal> {
    await this.#interruption
    this.#saveCheckpointAfter(checkpointInterval)
    this.#stepController = new AbortController()
    return AbortSignal.any([this.#stepController.signal, this.#context.closing.signal])
  }

  #saveCheckpointAfter(events: number): void {
    const { state, checkpoints } = this.#context
    if (state.position - checkpoints.position >= events) void this.saveCheckpoint()
  }

  /** Aborts the step, also after a pause, and appends `decide`'s events before the next step. */
  async #abortStep(
    decide: (now: ConversationState) => readonly EventDraft[],
    limitMs = stopMs,
  ): Promise<void> {
    const context = this.#context
    const written = context.append((now) => {
      const events = decide(now)
      if (events.length > 0 || now.status === 'paused' || context.closing.signal.aborted)
        this.#stepController?.abort()
      return events
    })
    // Another stop may have begun to end the turn.
    const before = this.#interruption
    const interruption = written
      .then(() => before)
      .then(() => (context.state.status === 'paused' ? this.#external.stopWaitingTurn() : undefined))
      .catch(() => undefined)
    this.#interruption = interruption
    await written
    if (context.state.status === 'running') return
    const work = [interruption, ...(this.#activity === undefined ? [] : [this.#activity])]
    await this.#waitBriefly(Promise.all(work), limitMs)
  }

  async #waitBriefly(work: Promise<unknown>, limitMs = stopMs): Promise<void> {
    await Promise.race([work, this.#context.deps.clock.sleep(limitMs, { ref: false })])
  }
}

function runOutcome({ status }: ConversationState): WorkOutcome {
  return { outcome: status, isFailure: status === 'error' || status === 'stuck' }
}

/** The run continues now or after a confirmation. */
function isRunUnfinished({ status }: ConversationState): boolean {
  return status === 'running' || status === 'waiting_for_confirmation'
}
