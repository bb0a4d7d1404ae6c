import { changedHooksReason, isAcpAgent, isStorageFailure, Problem, stuckThresholds } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import { AcpError } from '../../acp/failure.ts'
import { PluginLoadError } from '../../plugins/extensions.ts'
import { isReadOnly } from '../../tools/calls/parse-call.ts'
import { decideCommands, type RuleDecisions } from '../confirm/confirmation.ts'
import { refusedInPlanMode } from '../confirm/plan-mode.ts'
import {
  agentErrorEvent,
  errorEvent,
  failureEvents,
  rejectionEvent,
  stateUpdate,
  statusUpdate,
  userMessage,
} from '../events/event-drafts.ts'
import type { ExternalAgent } from '../external/external-agent.ts'
import {
  checkLimits,
  type LimitFinding,
  limitCodes,
  nearText,
  reachedText,
  secondsLeft,
  warningKey,
} from '../limits/check-limits.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'
import { McpStartError } from '../runtime/mcp-connections.ts'
import { type ConversationState, isAwaitingConsent } from '../state/state.ts'
import { callModel } from './call-model.ts'
import { conclude } from './conclude.ts'
import { type CondenseStepResult, condenseStep } from './condense-step.ts'
import { executePendingActions } from './execute-actions.ts'
import { overdueTasks } from './reminders.ts'
import { endsWithClientCall } from './required-call.ts'
import { RunProgress, type StepScope } from './run-progress.ts'
import { runTurns } from './run-turns.ts'
import { nextStep, type Step } from './step.ts'
import { StreamedReply } from './streamed-reply.ts'

const nudge =
  'The last calls all had the same result. Look at it, then try something else instead of repeating the call.'
const silentText =
  'The agent has waited for an hour and nothing new came. Send a message, or run again to let it wait on.'
/** Between attempts to write a failure while the storage cannot be written. */
const storageRetryMs = 500
const timeLimitText =
  'The time limit of the run was reached before the call had a result. It may have been done in part.'
const defaultThresholds = stuckThresholds.parse({})

interface StepContext {
  readonly runtime: AgentRuntime
  readonly rules: RuleDecisions
  readonly refused: ReadonlySet<string>
}

/**
 * The loop of one conversation: while its status is `running`, decide the next step from the state, do it and
 * append the result. Unexpected errors become a ConversationErrorEvent and status `error`.
 */
export class AgentLoop {
  readonly #context: ConversationContext
  readonly #prepareRuntime: (signal: AbortSignal) => Promise<AgentRuntime>
  readonly #external: ExternalAgent
  readonly #progress = new RunProgress()

  constructor(
    context: ConversationContext,
    prepareRuntime: (signal: AbortSignal) => Promise<AgentRuntime>,
    external: ExternalAgent,
  ) {
    this.#context = context
    this.#external = external
    this.#prepareRuntime = prepareRuntime
  }

  /** A new run begins. */
  reset(): void {
    this.#progress.reset()
  }

  /** Never rejects. `nextSignal` returns the signal that interrupts the next step. */
  async run(nextSignal: () => Promise<AbortSignal>): Promise<void> {
    const context = this.#context
    while (context.state.status === 'running') {
      await runTurns.pass()
      const signal = await nextSignal()
      // Aborted from the start: the conversation is closed, and a deleted one keeps its status.
      if (signal.aborted || context.state.status !== 'running') break
      await this.#runTimedStep(signal)
    }
    // The time of the last step.
    if (context.settings.current.limits !== undefined && !context.closing.signal.aborted)
      await context.saveUsage().catch(() => undefined)
  }

  /** Does a step, counts its time and ends it when the time is over: the next step says so. */
  async #runTimedStep(signal: AbortSignal): Promise<void> {
    const { stats, state, settings, deps } = this.#context
    const { clock } = deps
    stats.enterRun(state.runPosition ?? 0)
    const seconds = secondsLeft(settings.current.limits, stats)
    const limit = seconds === undefined ? undefined : clock.timeout(seconds * 1000)
    const started = clock.monotonic()
    try {
      await this.#runStep(limit === undefined ? signal : AbortSignal.any([signal, limit]))
    } catch (error) {
      if (signal.aborted && this.#context.state.status !== 'running') return
      if (!limit?.aborted || signal.aborted) await this.#appendFailure(error)
    } finally {
      // Timers may fire a little early; a step that was ended has used all.
      const elapsed = (clock.monotonic() - started) / 1000
      stats.limits.seconds += limit?.aborted ? Math.max(elapsed, seconds ?? 0) : elapsed
    }
  }

  async condense(runtime: AgentRuntime, signal: AbortSignal): Promise<CondenseStepResult> {
    return await condenseStep(this.#scope(runtime), signal)
  }

  async #runStep(signal: AbortSignal): Promise<void> {
    const runtime = await this.#prepareRuntime(signal)
    if (signal.aborted) return
    const context = this.#context
    if (runtime.repository.isPending) return await this.#waitForConsent(runtime)
    if (isAcpAgent(runtime.settings.agent)) return await this.#runExternalStep(runtime, signal)
    await runtime.model.prepare?.()
    const { writer, deps } = context
    const limit = runtime.settings.agent.tool_concurrency_limit
    const scope = this.#scope(runtime)
    const hasSandbox = runtime.workspace.sandbox !== undefined
    const pending = context.state.openActions()
    const rules = await decideCommands(pending, { rules: runtime.commandRules, hasSandbox })
    const refused = await refusedInPlanMode(context.settings.isPlanning ? pending : [], runtime.tools)
    const next = (now: ConversationState) => this.#nextStep(now, { runtime, rules, refused })
    const append = (step: Step, events: readonly EventDraft[]) =>
      context.appendPatiently((now) => (next(now) === step ? events : []))
    const limitText = `Agent reached maximum iterations limit (${context.settings.current.max_iterations}).`
    const steps: Record<Step, () => Promise<unknown>> = {
      ask: () => append('ask', [statusUpdate('waiting_for_confirmation')]),
      act: async () => {
        const hasCheckpoint = await this.#saveCheckpoint(runtime, signal)
        const { monitor, clock } = deps
        const isPlanning = () => context.settings.isPlanning
        const work = { writer, runtime, rules, isPlanning, limit, hasSandbox, monitor, clock }
        try {
          await executePendingActions(work, signal)
        } finally {
          if (hasCheckpoint) await runtime.checkpoints?.saveEnd(context.closing.signal)
        }
      },
      condense: () => condenseStep(scope, signal),
      conclude: () => conclude(scope, signal),
      stuck: () => append('stuck', [statusUpdate('stuck')]),
      silent: () => append('silent', [statusUpdate('stuck'), errorEvent('NoNewOutput', silentText)]),
      nudge: () => append('nudge', [userMessage('environment', nudge)]),
      remind: () =>
        append('remind', [userMessage('environment', overdueTasks(context.state.view.events) ?? '')]),
      limit: () => append('limit', failureEvents('MaxIterationsReached', limitText)),
      think: () => callModel(scope, signal),
      warn: () => this.#warn(),
      overLimit: () => this.#endOverLimit(),
      handOver: () => append('handOver', [statusUpdate('finished')]),
    }
    await steps[next(context.state)]()
  }

  /** The step of a conversation whose agent is its own program: it has calls and a history on its own. */
  async #runExternalStep(runtime: AgentRuntime, signal: AbortSignal): Promise<void> {
    const context = this.#context
    const { state, stats, settings } = context
    const external = this.#external
    if (!external.hasTurn) {
      if (await external.closeLeftCalls()) return
      if (this.#findLimit()?.kind === 'reached') return await this.#endOverLimit()
      if (!state.isAwaiting) return await conclude(this.#scope(runtime), signal)
      const { max_iterations } = settings.current
      if (this.#progress.steps >= max_iterations) {
        const text = `Agent reached maximum iterations limit (${max_iterations}).`
        const events = failureEvents('MaxIterationsReached', text)
        return await context.appendPatiently((now) => (now.status === 'running' ? events : []))
      }
      this.#progress.steps++
      stats.limits.steps++
    }
    const createReply = () => new StreamedReply(context, settings.current.agent.llm.stream)
    await external.step(runtime, createReply, signal)
  }

  /** Tells the model and the readers, once, that a limit is near. */
  async #warn(): Promise<void> {
    const finding = this.#findLimit()
    if (finding === undefined) return
    const { stats, appendWithUsage } = this.#context
    stats.limits.addWarning(warningKey(finding))
    const { kind: _, ...value } = finding
    await appendWithUsage((now) =>
      now.status === 'running' && now.isAwaiting
        ? [stateUpdate('limit_warning', value), userMessage('environment', nearText(finding))]
        : [],
    )
  }

  async #endOverLimit(): Promise<void> {
    const finding = this.#findLimit()
    if (finding === undefined) return
    await this.#context.appendWithUsage((now) =>
      now.status === 'running'
        ? [
            ...now.openActions().map((call) => agentErrorEvent(call, timeLimitText)),
            ...failureEvents(limitCodes[finding.limit], reachedText(finding)),
          ]
        : [],
    )
  }

  #findLimit(): LimitFinding | undefined {
    const { settings, stats } = this.#context
    return checkLimits(settings.current.limits, stats)
  }

  /** Stores the files of the workspace before actions that may change them; false when there is no need. */
  async #saveCheckpoint({ checkpoints, tools }: AgentRuntime, signal: AbortSignal): Promise<boolean> {
    const { id, deps, state, secrets } = this.#context
    const actions = state.openActions()
    const mayChange = actions.some(({ tool_name }) => {
      const tool = tools.get(tool_name)
      return tool !== undefined && !isReadOnly(tool)
    })
    const [first] = actions
    if (checkpoints === undefined || first === undefined || !mayChange) return false
    const failure = await checkpoints.save(first.id, signal)
    if (failure === undefined) return true
    deps.logLine('warn', 'checkpoints are off', { conversation: id, reason: secrets.redact(failure) })
    return false
  }

  async #waitForConsent({ repository }: AgentRuntime): Promise<void> {
    const { appendPatiently } = this.#context
    // Consent is no confirmation of actions: those that would have met changed hooks are not executed.
    const closed = (now: ConversationState) =>
      repository.notice?.has_hooks
        ? now.openActions().map((call) => rejectionEvent(call, changedHooksReason))
        : []
    await appendPatiently((now) =>
      now.status === 'running' ? [...closed(now), statusUpdate('waiting_for_confirmation')] : [],
    )
    // A decision before the status was written has continued nothing.
    if (await repository.hasNewVerdict())
      await appendPatiently((now) => (isAwaitingConsent(now) ? [statusUpdate('running')] : []))
  }

  #scope(runtime: AgentRuntime): StepScope {
    return { context: this.#context, runtime, progress: this.#progress }
  }

  #nextStep(state: ConversationState, { runtime, rules, refused }: StepContext): Step {
    const { settings } = this.#context
    const { stuck_detection, stuck_detection_thresholds, max_iterations, door } = settings.current
    const finding = this.#findLimit()
    return nextStep(state, {
      policy: settings.policy,
      tools: runtime.tools,
      rules,
      refused,
      thresholds: stuck_detection ? (stuck_detection_thresholds ?? defaultThresholds) : undefined,
      stepsLeft: max_iterations - this.#progress.steps,
      mustCondense: this.#progress.condenseNeed(state, runtime) !== 'no',
      mustRemind: runtime.tools.has('task_tracker') && overdueTasks(state.view.events) !== undefined,
      isClientsTurn: door?.waits_for_client === true && endsWithClientCall(state.view.events),
      limit: finding?.kind === 'reached' && finding.limit === 'seconds' ? 'time' : finding?.kind,
    })
  }

  async #appendFailure(error: unknown): Promise<void> {
    const { id, deps, state, appendPatiently, closing } = this.#context
    // The conversation was deleted during the run: there is no log to write to.
    if (error instanceof Problem && error.code === 'not_found') {
      state.status = 'deleting'
      return
    }
    if (deps.onRunAbandoned !== undefined && isStorageFailure(error) && error.code === 'unavailable') {
      deps.onRunAbandoned(id)
      throw error
    }
    const code = errorCode(error)
    const detail = errorText(error)
    deps.logLine('error', 'a run failed', { conversation: id, code })
    for (;;) {
      try {
        return await appendPatiently((now) => (now.status === 'running' ? failureEvents(code, detail) : []))
      } catch (error) {
        if (!isStorageFailure(error) || closing.signal.aborted) throw error
        // Throws when the conversation closes: the next start closes the run.
        await deps.clock.sleep(storageRetryMs, { signal: closing.signal })
      }
    }
  }
}

/** The code of a ConversationErrorEvent whose cause is not a model (wire 3.5). */
function errorCode(error: unknown): string {
  if (error instanceof McpStartError || error instanceof PluginLoadError || error instanceof AcpError)
    return error.code
  if (isStorageFailure(error)) return 'StorageError'
  if (error instanceof Problem) return error.code === 'storage_full' ? 'StorageError' : 'InvalidSettings'
  return error instanceof Error ? error.name : 'Error'
}
