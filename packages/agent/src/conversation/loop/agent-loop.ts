import { Problem, stuckThresholds } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Answered } from '../../llm/model.ts'
import { PluginFailure } from '../../plugins/extensions.ts'
import type { Secrets } from '../../secrets/secrets.ts'
import { condense, mustCondense, summarizing } from '../condense/condense.ts'
import { failure, stateUpdate, statusUpdate, userMessage } from '../events/event-drafts.ts'
import type { Hint } from '../events/transient-updates.ts'
import type { Pen } from '../events/writer.ts'
import { type Equipment, McpFailure, type Rim, type Settings } from '../runtime/agent-runtime.ts'
import { watched } from '../runtime/instrumentation.ts'
import type { State } from '../state/state.ts'
import type { Stats } from '../state/usage-stats.ts'
import { act } from './execute-actions.ts'
import { afterRound, endGoal, judge, judgeUsage } from './goal.ts'
import { closingText, thoughtOf } from './model-turn.ts'
import { type Move, nextMove } from './step.ts'

const maxRefusals = 3
const nudge =
  'The last calls failed in the same way. Look at the error, then try something else instead of repeating the call.'
const defaultThresholds = stuckThresholds.parse({})

/** What a run works with. */
export interface RunParts {
  readonly pen: Pen
  readonly settings: Settings
  readonly rim: Rim
  readonly stats: Stats
  readonly secrets: Secrets
  /** Whether anybody listens to hints now. */
  isHeard(): boolean
  hint(hint: Hint): void
  /** Opens what the agent works with, once. */
  equip(signal: AbortSignal): Promise<Equipment>
  policy(): Parameters<typeof nextMove>[1]['policy']
  analyzer(): Parameters<typeof thoughtOf>[1]['analyzer']
}

/**
 * The loop of one conversation: while it is running, decide the next move from the state and make it. Everything that it
 * does is written through the pen, so that whoever else writes in between is seen before the next move. It ends when the
 * status is another one, and never rejects: what goes wrong unexpectedly is a ConversationErrorEvent and status error.
 */
export class Run {
  readonly #parts: RunParts
  #steps = 0
  #refusals = 0
  #followUps = 0
  /** The size of the view when condensing it failed softly: it is not tried again before the view has grown. */
  #failedAt = 0
  /** The prompt was too large for the model: without forgetting there is no way on. */
  #hasOverflowed = false

  constructor(parts: RunParts) {
    this.#parts = parts
  }

  /** A new run begins, also while the last step of the one before is still on its way. */
  restart(): void {
    this.#steps = 0
    this.#refusals = 0
    this.#followUps = 0
    this.#failedAt = 0
    this.#hasOverflowed = false
  }

  /** `nextSignal` gives each step the signal that interrupts it. */
  async loop(nextSignal: () => Promise<AbortSignal>): Promise<void> {
    const { pen } = this.#parts
    while (pen.state.status === 'running') {
      const signal = await nextSignal()
      // Aborted from the start: the conversation is closed, and its status may stay as it is when it was deleted.
      if (signal.aborted || pen.state.status !== 'running') return
      try {
        await this.#step(signal)
      } catch (error) {
        if (signal.aborted && pen.state.status !== 'running') return
        await this.#fail(error)
      }
    }
  }

  async #step(signal: AbortSignal): Promise<void> {
    const equipment = await this.#parts.equip(signal)
    if (signal.aborted) return
    const moves: Record<Move, () => Promise<unknown>> = {
      ask: () =>
        this.#write((now) =>
          this.#move(now, equipment) === 'ask' ? [statusUpdate('waiting_for_confirmation')] : [],
        ),
      act: () =>
        act(
          { pen: this.#parts.pen, equipment, limit: equipment.settings.agent.tool_concurrency_limit },
          signal,
        ),
      condense: () => this.condense(equipment, signal),
      conclude: () => this.#conclude(equipment, signal),
      stuck: () =>
        this.#write((now) => (this.#move(now, equipment) === 'stuck' ? [statusUpdate('stuck')] : [])),
      nudge: () =>
        this.#write((now) =>
          this.#move(now, equipment) === 'nudge' ? [userMessage('environment', nudge)] : [],
        ),
      limit: () => this.#write((now) => (this.#move(now, equipment) === 'limit' ? this.#limitReached() : [])),
      think: () => this.#think(equipment, signal),
    }
    await moves[this.#move(this.#parts.pen.state, equipment)]()
  }

  #move(state: State, equipment: Equipment): Move {
    const { settings, policy } = this.#parts
    return nextMove(state, {
      policy: policy(),
      tools: equipment.tools,
      thresholds: settings.stuck_detection
        ? (settings.stuck_detection_thresholds ?? defaultThresholds)
        : undefined,
      stepsLeft: settings.max_iterations - this.#steps,
      mustCondense: this.#mustCondense(state, equipment) !== 'no',
    })
  }

  #mustCondense(state: State, equipment: Equipment): 'no' | 'soft' | 'hard' {
    const condenser = summarizing(equipment.settings.agent.condenser)
    if (condenser === undefined) return 'no'
    const about = { view: state.view, condenser, model: equipment.model }
    const need = mustCondense({ ...about, isRequested: this.#hasOverflowed && state.isCondensationRequested })
    if (need === 'hard') return 'hard'
    // Somebody asked for it, or it would be as well: when it cannot be done the run goes on without.
    const isWished = need === 'soft' || state.isCondensationRequested
    return isWished && state.view.size > this.#failedAt ? 'soft' : 'no'
  }

  #write(decide: (now: State) => readonly EventDraft[]) {
    return this.#parts.pen.write((now) => ({ events: decide(now) }), { isPatient: true })
  }

  #limitReached() {
    const { max_iterations } = this.#parts.settings
    return failure('MaxIterationsReached', `Agent reached maximum iterations limit (${max_iterations}).`)
  }

  /** Asks the model once and writes what its answer comes to. */
  async #think(equipment: Equipment, signal: AbortSignal): Promise<void> {
    const { pen, secrets } = this.#parts
    this.#steps++
    const seen = pen.state.position
    const isAsked = equipment.model.llm.stream
    const [text, thoughts] = [secrets.stream(), secrets.stream()]
    const say = (content: string) => content !== '' && this.#parts.hint({ kind: 'delta', isAsked, content })
    const muse = (reasoning_content: string) =>
      reasoning_content !== '' && this.#parts.hint({ kind: 'delta', isAsked, reasoning_content })
    const answer = await equipment.model.respond(
      {
        messages: pen.state.view.messages(equipment.model.llm.max_message_chars),
        tools: equipment.modelTools,
        onDelta: ({ content, reasoning_content }) => {
          if (!this.#parts.isHeard()) return
          if (reasoning_content !== undefined) muse(thoughts.add(reasoning_content))
          if (content === undefined) return
          muse(thoughts.end())
          say(text.add(content))
        },
      },
      signal,
    )
    muse(thoughts.end())
    say(text.end())
    if (answer.kind === 'aborted') return
    if (answer.kind === 'failure') await this.#modelFailed(answer, equipment)
    else await this.#take(answer, { equipment, seen }, signal)
  }

  async #take(
    answer: Answered,
    { equipment, seen }: { readonly equipment: Equipment; readonly seen: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { pen, analyzer, rim, stats, secrets } = this.#parts
    const mask = (text: string) => secrets.mask(text)
    const thought = await thoughtOf(answer, { tools: equipment.tools, analyzer: analyzer(), mask })
    const said = await this.#judged(thought.events, { answer, equipment }, signal)
    stats.add(answer, answer.usageId, rim.now())
    this.#hasOverflowed = false
    this.#refusals = thought.kind === 'refusal' ? this.#refusals + 1 : 0
    await pen.write(
      (now) => {
        const record = { stats: JSON.stringify(stats) }
        // An answer that came after the interruption is dropped; what it has used is not.
        if (signal.aborted) return { events: [], record }
        const late = now.inputs.filter(({ position }) => position > seen)
        const events = [...said, ...late.map(({ id }) => stateUpdate('last_user_message_id', id))]
        return { events: [...events, ...this.#refused()], record }
      },
      { isPatient: true },
    )
    this.#parts.hint({ kind: 'stats', value: stats.snapshot() })
  }

  /** The events of an answer with what the critic says of it: about what would end the run, or about all. */
  async #judged(
    events: readonly EventDraft[],
    { answer, equipment }: { readonly answer: Answered; readonly equipment: Equipment },
    signal: AbortSignal,
  ): Promise<readonly EventDraft[]> {
    const { criticise, workspace, settings } = equipment
    const isAll = settings.agent.critic?.mode === 'all_actions'
    const message = closingText(answer)
    if (criticise === undefined || (message === undefined && !isAll)) return events
    const whole = [...this.#parts.pen.state.view.events, ...events]
    const critic_result = await criticise({ events: whole, message: message ?? '', workspace }, signal)
    return events.map((event) => (isJudged(event, isAll) ? { ...event, critic_result } : event))
  }

  #refused() {
    if (this.#refusals < maxRefusals) return []
    return failure(
      'LLMContentPolicyViolationError',
      'The provider refused to answer several times by its content policy. Change the task, then run again.',
    )
  }

  async #modelFailed(
    { code, detail }: { readonly code: string; readonly detail: string },
    equipment: Equipment,
  ): Promise<void> {
    const canForget =
      code === 'LLMContextWindowExceedError' || code === 'LLMMalformedConversationHistoryError'
    const hasCondenser = summarizing(equipment.settings.agent.condenser) !== undefined
    if (canForget) this.#hasOverflowed = true
    await this.#write((now) => {
      if (now.status !== 'running') return []
      return canForget && hasCondenser
        ? [{ kind: 'CondensationRequest', source: 'environment' }]
        : failure(code, detail)
    })
  }

  /** Forgets a part of the history; a failure that leaves no way on ends the run. */
  async condense(
    equipment: Equipment,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'done' } | { readonly kind: 'failed'; readonly detail: string }> {
    const { pen, stats, rim } = this.#parts
    const condenser = summarizing(equipment.settings.agent.condenser)
    if (condenser === undefined) return { kind: 'failed', detail: 'There is no condenser.' }
    const { view } = pen.state
    const isHard = this.#mustCondense(pen.state, equipment) === 'hard'
    const model = condenser.llm === undefined ? equipment.model : equipment.openModel(condenser.llm)
    const isWanted = isHard || pen.state.isCondensationRequested
    const about = { view, condenser, model, reader: equipment.model, isHard: isWanted }
    const summarise = () => condense(about, signal)
    const result = await watched(rim.watch, { kind: 'condensation' }, summarise, ({ kind }) => ({
      outcome: kind === 'condensation' ? 'ok' : kind,
      isFailure: kind === 'failure',
    }))
    if (result.kind === 'aborted') return { kind: 'failed', detail: 'It was interrupted.' }
    for (const answer of result.answers)
      stats.add(answer, condenserUsage(model.llm.usage_id, equipment), rim.now())
    const record = { stats: JSON.stringify(stats) }
    if (result.kind === 'condensation') {
      await pen.write(
        (now) =>
          signal.aborted ? { events: [], record } : { events: stillThere(now, result.draft), record },
        {
          isPatient: true,
        },
      )
      return { kind: 'done' }
    }
    if (!isHard) this.#failedAt = view.size
    const events = isHard ? failure(result.code, result.detail) : []
    await pen.write((now) => ({ events: now.status === 'running' ? events : [], record }), {
      isPatient: true,
    })
    return { kind: 'failed', detail: result.detail }
  }

  /** Nothing waits any more: a critic or a stop hook may send the agent on, otherwise the run is over. */
  async #conclude(equipment: Equipment, signal: AbortSignal): Promise<void> {
    const { state } = this.#parts.pen
    if (state.hasMessage && state.blocked.size === 0) {
      const further = await this.#further(equipment, signal)
      if (signal.aborted) return
      if (further.length > 0) {
        await this.#write((now) => (isOver(now) ? further : []))
        return
      }
      if (state.goal?.active) return await this.#judge(equipment, signal)
    }
    await this.#write((now) => (isOver(now) ? [statusUpdate(now.hasMessage ? 'finished' : 'idle')] : []))
  }

  /** What a critic or a stop hook says that the agent is to go on with. */
  async #further(equipment: Equipment, signal: AbortSignal): Promise<readonly EventDraft[]> {
    const refinement = this.#refinement(equipment, this.#parts.pen.state)
    if (refinement !== undefined) return [refinement]
    const verdict = await equipment.hook('stop', {}, signal)
    if (verdict.isBlocked) {
      const text = `[Stop hook feedback] ${verdict.reason ?? 'Go on with the task.'}`
      return [...verdict.events, userMessage('environment', text)]
    }
    if (verdict.events.length > 0) await this.#write(() => verdict.events)
    return []
  }

  /** A round of a pursuit is over: the model says whether the goal is reached. */
  async #judge(equipment: Equipment, signal: AbortSignal): Promise<void> {
    const { pen, stats, rim } = this.#parts
    const { goal } = pen.state
    if (goal === undefined) return
    const judged = await judge({ state: pen.state, equipment, goal }, signal)
    if (judged !== undefined) {
      stats.add(judged.answer, judgeUsage, rim.now())
    } else if (signal.aborted) return
    const record = { stats: JSON.stringify(stats) }
    await pen.write(
      (now) => {
        if (signal.aborted || !isOver(now) || !now.goal?.active) return { events: [], record }
        const round = judged === undefined ? endGoal(now) : afterRound(now.goal, judged.verdict)
        const isFurther = round.length > 1
        return { events: isFurther ? round : [...round, statusUpdate('finished')], record }
      },
      { isPatient: true },
    )
    this.#parts.hint({ kind: 'stats', value: stats.snapshot() })
    // Each round has as many steps as a run.
    this.#steps = 0
  }

  #refinement(equipment: Equipment, state: State) {
    const refinement = equipment.settings.agent.critic?.iterative_refinement
    const last = state.view.events.findLast(
      ({ kind, source }) => kind === 'ActionEvent' || (kind === 'MessageEvent' && source === 'agent'),
    )
    if (refinement === undefined || last === undefined || !('critic_result' in last)) return undefined
    const score = last.critic_result?.score
    if (score === undefined || score >= refinement.success_threshold) return undefined
    if (this.#followUps >= refinement.max_iterations) return undefined
    this.#followUps++
    const reason = last.critic_result?.message
    const text = `A review of the result gave ${Math.round(score * 100)} of 100 points. Check what is missing or wrong and complete the task.`
    return userMessage('user', reason === null || reason === undefined ? text : `${text}\n\n${reason}`)
  }

  async #fail(error: unknown): Promise<void> {
    const { rim, pen } = this.#parts
    // The conversation was deleted under the run: there is no log to write to.
    if (error instanceof Problem && error.code === 'not_found') {
      pen.state.status = 'deleting'
      return
    }
    const code = codeOf(error)
    const detail = error instanceof Error ? error.message : String(error)
    rim.logLine('error', 'a run failed', { conversation: pen.conversation, code })
    await this.#write((now) => (now.status === 'running' ? failure(code, detail) : []))
  }
}

/** Nothing waits any more, and nobody has stopped it. */
function isOver(now: State): boolean {
  return !now.isAwaiting && now.wanted().length === 0 && now.status === 'running'
}

/** What a ConversationErrorEvent is called that no model has caused (wire 3.5). */
function codeOf(error: unknown): string {
  if (error instanceof McpFailure || error instanceof PluginFailure) return error.code
  if (error instanceof Problem) return 'InvalidSettings'
  return error instanceof Error ? error.name : 'Error'
}

function isJudged({ kind, source, action }: EventDraft, isAll: boolean): boolean {
  if (kind === 'MessageEvent') return source === 'agent'
  const isFinish = typeof action === 'object' && Reflect.get(action ?? {}, 'kind') === 'FinishAction'
  return kind === 'ActionEvent' && (isAll || isFinish)
}

/** A condenser that shares the agent's model counts as a use of its own. */
function condenserUsage(usageId: string, equipment: Equipment): string {
  return usageId === equipment.model.llm.usage_id ? 'condenser' : usageId
}

/** A condensation that was made while others wrote: it is kept only when all that it forgets is still there. */
function stillThere(now: State, draft: EventDraft): readonly EventDraft[] {
  const ids = draft.forgotten_event_ids
  return Array.isArray(ids) && ids.every((id) => now.view.has(String(id))) ? [draft] : []
}
