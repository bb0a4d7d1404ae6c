import { Problem, stuckThresholds } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import { PluginLoadError } from '../../plugins/extensions.ts'
import type { Secrets } from '../../secrets/secrets.ts'
import { condense, condenseNeed, findSummarizingCondenser } from '../condense/condense.ts'
import { failureEvents, stateUpdate, statusUpdate, userMessage } from '../events/event-drafts.ts'
import type { TransientUpdate } from '../events/transient-updates.ts'
import type { ConversationWriter } from '../events/writer.ts'
import {
  type AgentRuntime,
  type ConversationDeps,
  McpFailure,
  type ResolvedSettings,
} from '../runtime/agent-runtime.ts'
import { instrument } from '../runtime/instrumentation.ts'
import type { ConversationState } from '../state/state.ts'
import type { UsageStats } from '../state/usage-stats.ts'
import { executePendingActions } from './execute-actions.ts'
import { endGoalEvents, goalRoundEvents, judgeGoal, judgeUsage } from './goal.ts'
import { eventsFromModelTurn, finalText } from './model-turn.ts'
import { nextStep, type Step } from './step.ts'

const maxRefusals = 3
const nudge =
  'The last calls failed in the same way. Look at the error, then try something else instead of repeating the call.'
const defaultThresholds = stuckThresholds.parse({})

/** What a run works with. */
export interface AgentLoopOptions {
  readonly writer: ConversationWriter
  readonly settings: ResolvedSettings
  readonly deps: ConversationDeps
  readonly stats: UsageStats
  readonly secrets: Secrets
  /** Whether anybody listens to hints now. */
  hasListeners(): boolean
  publish(hint: TransientUpdate): void
  /** Opens what the agent works with, once. */
  prepareRuntime(signal: AbortSignal): Promise<AgentRuntime>
  policy(): Parameters<typeof nextStep>[1]['policy']
  analyzer(): Parameters<typeof eventsFromModelTurn>[1]['analyzer']
}

/**
 * The loop of one conversation: while it is running, decide the next move from the state and make it. Everything that it
 * does is written through the pen, so that whoever else writes in between is seen before the next move. It ends when the
 * status is another one, and never rejects: what goes wrong unexpectedly is a ConversationErrorEvent and status error.
 */
export class AgentLoop {
  readonly #options: AgentLoopOptions
  #steps = 0
  #refusals = 0
  #refinementCount = 0
  /** The size of the view when condensing it failed softly: it is not tried again before the view has grown. */
  #failedCondenseSize = 0
  /** The prompt was too large for the model: without forgetting there is no way on. */
  #hasOverflowed = false

  constructor(parts: AgentLoopOptions) {
    this.#options = parts
  }

  /** A new run begins, also while the last step of the one before is still on its way. */
  reset(): void {
    this.#steps = 0
    this.#refusals = 0
    this.#refinementCount = 0
    this.#failedCondenseSize = 0
    this.#hasOverflowed = false
  }

  /** `nextSignal` gives each step the signal that interrupts it. */
  async run(nextSignal: () => Promise<AbortSignal>): Promise<void> {
    const { writer } = this.#options
    while (writer.state.status === 'running') {
      const signal = await nextSignal()
      // Aborted from the start: the conversation is closed, and its status may stay as it is when it was deleted.
      if (signal.aborted || writer.state.status !== 'running') return
      try {
        await this.#runStep(signal)
      } catch (error) {
        if (signal.aborted && writer.state.status !== 'running') return
        await this.#writeFailure(error)
      }
    }
  }

  async #runStep(signal: AbortSignal): Promise<void> {
    const runtime = await this.#options.prepareRuntime(signal)
    if (signal.aborted) return
    const moves: Record<Step, () => Promise<unknown>> = {
      ask: () =>
        this.#write((now) =>
          this.#nextStep(now, runtime) === 'ask' ? [statusUpdate('waiting_for_confirmation')] : [],
        ),
      act: () =>
        executePendingActions(
          {
            pen: this.#options.writer,
            equipment: runtime,
            limit: runtime.settings.agent.tool_concurrency_limit,
          },
          signal,
        ),
      condense: () => this.condense(runtime, signal),
      conclude: () => this.#conclude(runtime, signal),
      stuck: () =>
        this.#write((now) => (this.#nextStep(now, runtime) === 'stuck' ? [statusUpdate('stuck')] : [])),
      nudge: () =>
        this.#write((now) =>
          this.#nextStep(now, runtime) === 'nudge' ? [userMessage('environment', nudge)] : [],
        ),
      limit: () =>
        this.#write((now) => (this.#nextStep(now, runtime) === 'limit' ? this.#iterationLimitEvents() : [])),
      think: () => this.#callModel(runtime, signal),
    }
    await moves[this.#nextStep(this.#options.writer.state, runtime)]()
  }

  #nextStep(state: ConversationState, runtime: AgentRuntime): Step {
    const { settings, policy } = this.#options
    return nextStep(state, {
      policy: policy(),
      tools: runtime.tools,
      thresholds: settings.stuck_detection
        ? (settings.stuck_detection_thresholds ?? defaultThresholds)
        : undefined,
      stepsLeft: settings.max_iterations - this.#steps,
      mustCondense: this.#condenseNeed(state, runtime) !== 'no',
    })
  }

  #condenseNeed(state: ConversationState, runtime: AgentRuntime): 'no' | 'soft' | 'hard' {
    const condenser = findSummarizingCondenser(runtime.settings.agent.condenser)
    if (condenser === undefined) return 'no'
    const about = { view: state.view, condenser, model: runtime.model }
    const need = condenseNeed({ ...about, isRequested: this.#hasOverflowed && state.isCondensationRequested })
    if (need === 'hard') return 'hard'
    // Somebody asked for it, or it would be as well: when it cannot be done the run goes on without.
    const isDesirable = need === 'soft' || state.isCondensationRequested
    return isDesirable && state.view.size > this.#failedCondenseSize ? 'soft' : 'no'
  }

  #write(decide: (now: ConversationState) => readonly EventDraft[]) {
    return this.#options.writer.write((now) => ({ events: decide(now) }), { isPatient: true })
  }

  #iterationLimitEvents() {
    const { max_iterations } = this.#options.settings
    return failureEvents(
      'MaxIterationsReached',
      `Agent reached maximum iterations limit (${max_iterations}).`,
    )
  }

  /** Asks the model once and writes what its answer comes to. */
  async #callModel(runtime: AgentRuntime, signal: AbortSignal): Promise<void> {
    const { writer, secrets } = this.#options
    this.#steps++
    const positionAtRequest = writer.state.position
    const isStreamRequested = runtime.model.llm.stream
    const [text, reasoningStream] = [secrets.stream(), secrets.stream()]
    const emitText = (content: string) =>
      content !== '' && this.#options.publish({ kind: 'delta', isStreamRequested, content })
    const emitReasoning = (reasoning_content: string) =>
      reasoning_content !== '' &&
      this.#options.publish({ kind: 'delta', isStreamRequested, reasoning_content })
    const answer = await runtime.model.generate(
      {
        messages: writer.state.view.messages(runtime.model.llm.max_message_chars),
        tools: runtime.modelTools,
        onDelta: ({ content, reasoning_content }) => {
          if (!this.#options.hasListeners()) return
          if (reasoning_content !== undefined) emitReasoning(reasoningStream.add(reasoning_content))
          if (content === undefined) return
          emitReasoning(reasoningStream.end())
          emitText(text.add(content))
        },
      },
      signal,
    )
    emitReasoning(reasoningStream.end())
    emitText(text.end())
    if (answer.kind === 'aborted') return
    if (answer.kind === 'failure') await this.#handleModelFailure(answer, runtime)
    else await this.#writeReply(answer, { equipment: runtime, seen: positionAtRequest }, signal)
  }

  async #writeReply(
    answer: ModelReply,
    {
      equipment: runtime,
      seen: positionAtRequest,
    }: { readonly equipment: AgentRuntime; readonly seen: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { writer, analyzer, deps, stats, secrets } = this.#options
    const redact = (text: string) => secrets.redact(text)
    const turn = await eventsFromModelTurn(answer, { tools: runtime.tools, analyzer: analyzer(), redact })
    const judgedEvents = await this.#withCriticResult(turn.events, { answer, equipment: runtime }, signal)
    stats.addReply(answer, answer.usageId, deps.now())
    this.#hasOverflowed = false
    this.#refusals = turn.kind === 'refusal' ? this.#refusals + 1 : 0
    await writer.write(
      (now) => {
        const record = { stats: JSON.stringify(stats) }
        // An answer that came after the interruption is dropped; what it has used is not.
        if (signal.aborted) return { events: [], record }
        const lateInputs = now.inputs.filter(({ position }) => position > positionAtRequest)
        const events = [
          ...judgedEvents,
          ...lateInputs.map(({ id }) => stateUpdate('last_user_message_id', id)),
        ]
        return { events: [...events, ...this.#refusalEvents()], record }
      },
      { isPatient: true },
    )
    this.#options.publish({ kind: 'stats', value: stats.snapshot() })
  }

  /** The events of an answer with what the critic says of it: about what would end the run, or about all. */
  async #withCriticResult(
    events: readonly EventDraft[],
    { answer, equipment: runtime }: { readonly answer: ModelReply; readonly equipment: AgentRuntime },
    signal: AbortSignal,
  ): Promise<readonly EventDraft[]> {
    const { evaluateWithCritic, workspace, settings } = runtime
    const isAll = settings.agent.critic?.mode === 'all_actions'
    const message = finalText(answer)
    if (evaluateWithCritic === undefined || (message === undefined && !isAll)) return events
    const allEvents = [...this.#options.writer.state.view.events, ...events]
    const critic_result = await evaluateWithCritic(
      { events: allEvents, message: message ?? '', workspace },
      signal,
    )
    return events.map((event) => (carriesCriticResult(event, isAll) ? { ...event, critic_result } : event))
  }

  #refusalEvents() {
    if (this.#refusals < maxRefusals) return []
    return failureEvents(
      'LLMContentPolicyViolationError',
      'The provider refused to answer several times by its content policy. Change the task, then run again.',
    )
  }

  async #handleModelFailure(
    { code, detail }: { readonly code: string; readonly detail: string },
    runtime: AgentRuntime,
  ): Promise<void> {
    const canForget =
      code === 'LLMContextWindowExceedError' || code === 'LLMMalformedConversationHistoryError'
    const hasCondenser = findSummarizingCondenser(runtime.settings.agent.condenser) !== undefined
    if (canForget) this.#hasOverflowed = true
    await this.#write((now) => {
      if (now.status !== 'running') return []
      return canForget && hasCondenser
        ? [{ kind: 'CondensationRequest', source: 'environment' }]
        : failureEvents(code, detail)
    })
  }

  /** Forgets a part of the history; a failure that leaves no way on ends the run. */
  async condense(
    runtime: AgentRuntime,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'done' } | { readonly kind: 'failed'; readonly detail: string }> {
    const { writer, stats, deps } = this.#options
    const condenser = findSummarizingCondenser(runtime.settings.agent.condenser)
    if (condenser === undefined) return { kind: 'failed', detail: 'There is no condenser.' }
    const { view } = writer.state
    const isHard = this.#condenseNeed(writer.state, runtime) === 'hard'
    const model = condenser.llm === undefined ? runtime.model : runtime.openModel(condenser.llm)
    const isRequired = isHard || writer.state.isCondensationRequested
    const about = { view, condenser, model, reader: runtime.model, isHard: isRequired }
    const summarise = () => condense(about, signal)
    const result = await instrument(deps.monitor, { kind: 'condensation' }, summarise, ({ kind }) => ({
      outcome: kind === 'condensation' ? 'ok' : kind,
      isFailure: kind === 'failure',
    }))
    if (result.kind === 'aborted') return { kind: 'failed', detail: 'It was interrupted.' }
    for (const answer of result.answers)
      stats.addReply(answer, condenserUsageId(model.llm.usage_id, runtime), deps.now())
    const record = { stats: JSON.stringify(stats) }
    if (result.kind === 'condensation') {
      await writer.write(
        (now) =>
          signal.aborted ? { events: [], record } : { events: dropIfStale(now, result.draft), record },
        {
          isPatient: true,
        },
      )
      return { kind: 'done' }
    }
    if (!isHard) this.#failedCondenseSize = view.size
    const events = isHard ? failureEvents(result.code, result.detail) : []
    await writer.write((now) => ({ events: now.status === 'running' ? events : [], record }), {
      isPatient: true,
    })
    return { kind: 'failed', detail: result.detail }
  }

  /** Nothing waits any more: a critic or a stop hook may send the agent on, otherwise the run is over. */
  async #conclude(runtime: AgentRuntime, signal: AbortSignal): Promise<void> {
    const { state } = this.#options.writer
    if (state.hasMessage && state.blockedMessages.size === 0) {
      const further = await this.#followUpEvents(runtime, signal)
      if (signal.aborted) return
      if (further.length > 0) {
        await this.#write((now) => (isRunComplete(now) ? further : []))
        return
      }
      if (state.goal?.active) return await this.#judge(runtime, signal)
    }
    await this.#write((now) =>
      isRunComplete(now) ? [statusUpdate(now.hasMessage ? 'finished' : 'idle')] : [],
    )
  }

  /** What a critic or a stop hook says that the agent is to go on with. */
  async #followUpEvents(runtime: AgentRuntime, signal: AbortSignal): Promise<readonly EventDraft[]> {
    const refinement = this.#refinementMessage(runtime, this.#options.writer.state)
    if (refinement !== undefined) return [refinement]
    const verdict = await runtime.runHooks('stop', {}, signal)
    if (verdict.isBlocked) {
      const text = `[Stop hook feedback] ${verdict.reason ?? 'Go on with the task.'}`
      return [...verdict.events, userMessage('environment', text)]
    }
    if (verdict.events.length > 0) await this.#write(() => verdict.events)
    return []
  }

  /** A round of a pursuit is over: the model says whether the goal is reached. */
  async #judge(runtime: AgentRuntime, signal: AbortSignal): Promise<void> {
    const { writer, stats, deps } = this.#options
    const { goal } = writer.state
    if (goal === undefined) return
    const judged = await judgeGoal({ state: writer.state, equipment: runtime, goal }, signal)
    if (judged !== undefined) {
      stats.addReply(judged.answer, judgeUsage, deps.now())
    } else if (signal.aborted) return
    const record = { stats: JSON.stringify(stats) }
    await writer.write(
      (now) => {
        if (signal.aborted || !isRunComplete(now) || !now.goal?.active) return { events: [], record }
        const round = judged === undefined ? endGoalEvents(now) : goalRoundEvents(now.goal, judged.verdict)
        const hasNextRound = round.length > 1
        return { events: hasNextRound ? round : [...round, statusUpdate('finished')], record }
      },
      { isPatient: true },
    )
    this.#options.publish({ kind: 'stats', value: stats.snapshot() })
    // Each round has as many steps as a run.
    this.#steps = 0
  }

  #refinementMessage(runtime: AgentRuntime, state: ConversationState) {
    const refinement = runtime.settings.agent.critic?.iterative_refinement
    const last = state.view.events.findLast(
      ({ kind, source }) => kind === 'ActionEvent' || (kind === 'MessageEvent' && source === 'agent'),
    )
    if (refinement === undefined || last === undefined || !('critic_result' in last)) return undefined
    const score = last.critic_result?.score
    if (score === undefined || score >= refinement.success_threshold) return undefined
    if (this.#refinementCount >= refinement.max_iterations) return undefined
    this.#refinementCount++
    const reason = last.critic_result?.message
    const text = `A review of the result gave ${Math.round(score * 100)} of 100 points. Check what is missing or wrong and complete the task.`
    return userMessage('user', reason === null || reason === undefined ? text : `${text}\n\n${reason}`)
  }

  async #writeFailure(error: unknown): Promise<void> {
    const { deps, writer } = this.#options
    // The conversation was deleted under the run: there is no log to write to.
    if (error instanceof Problem && error.code === 'not_found') {
      writer.state.status = 'deleting'
      return
    }
    const code = errorCode(error)
    const detail = error instanceof Error ? error.message : String(error)
    deps.logLine('error', 'a run failed', { conversation: writer.conversation, code })
    await this.#write((now) => (now.status === 'running' ? failureEvents(code, detail) : []))
  }
}

/** Nothing waits any more, and nobody has stopped it. */
function isRunComplete(now: ConversationState): boolean {
  return !now.isAwaiting && now.openActions().length === 0 && now.status === 'running'
}

/** What a ConversationErrorEvent is called that no model has caused (wire 3.5). */
function errorCode(error: unknown): string {
  if (error instanceof McpFailure || error instanceof PluginLoadError) return error.code
  if (error instanceof Problem) return 'InvalidSettings'
  return error instanceof Error ? error.name : 'Error'
}

function carriesCriticResult({ kind, source, action }: EventDraft, isAll: boolean): boolean {
  if (kind === 'MessageEvent') return source === 'agent'
  const isFinish = typeof action === 'object' && Reflect.get(action ?? {}, 'kind') === 'FinishAction'
  return kind === 'ActionEvent' && (isAll || isFinish)
}

/** A condenser that shares the agent's model counts as a use of its own. */
function condenserUsageId(usageId: string, runtime: AgentRuntime): string {
  return usageId === runtime.model.llm.usage_id ? 'condenser' : usageId
}

/** A condensation that was made while others wrote: it is kept only when all that it forgets is still there. */
function dropIfStale(now: ConversationState, draft: EventDraft): readonly EventDraft[] {
  const ids = draft.forgotten_event_ids
  return Array.isArray(ids) && ids.every((id) => now.view.has(String(id))) ? [draft] : []
}
