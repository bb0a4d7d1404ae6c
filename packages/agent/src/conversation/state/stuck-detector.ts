import { hash } from 'node:crypto'
import type { StuckThresholds } from '@slipway/protocol'
import {
  isResult,
  isUserMessage,
  type LogEvent,
  type LogEventOf,
  type ResultEvent,
} from '../view/log-event.ts'

/** Most steps in memory, so the largest useful threshold. */
const maxSteps = 64

type ActionEvent = LogEventOf<'ActionEvent'>

interface ActionRecord {
  readonly id: string
  readonly callId: string
  /** Equal exactly when source, thought, tool and action are. */
  readonly action: () => string
  /** Equal exactly when tool and observation, error text or rejection are; undefined until there is one. */
  result: (() => string) | undefined
  isError: boolean
}

/**
 * Detects an agent that repeats itself since the user's latest message. Polling is no repetition: the same
 * action with another result each time.
 */
export class StuckDetector {
  #steps: ActionRecord[] = []
  /** Agent messages in a row, without an action between them. */
  #messages = 0
  /** The agent got a message since the last result. */
  #isNudged = false

  add(event: LogEvent): void {
    if (event.kind === 'MessageEvent') this.#message(event)
    else if (event.kind === 'ActionEvent') this.#act(event)
    else if (isResult(event)) this.#addResult(event)
  }

  /**
   * `stuck`: a pattern has reached its threshold (`alternating_pattern`: at least 4 steps, and at least two
   * rounds of a longer cycle). `nudge`: once more is `stuck`, and there was no message about it: the same
   * action
   * has failed `action_error` times, or had the same result one time less than `action_observation`.
   */
  detect(thresholds: StuckThresholds): 'no' | 'nudge' | 'stuck' {
    const { action_observation, action_error, monologue, alternating_pattern } = thresholds
    const steps = this.#steps.filter(({ result }) => result !== undefined)
    const errors = runLength(steps, (step, last) => step.isError && step.action() === last.action())
    const repeats = runLength(steps, (step, last) => !step.isError && isSameRecord(step, last))
    if (this.#messages >= monologue || repeats >= action_observation || errors > action_error) return 'stuck'
    const isCycle = (period: number) =>
      cycleLength(steps, period) >= Math.max(4, alternating_pattern, 2 * period)
    if ([2, 3, 4].some(isCycle)) return 'stuck'
    const isLastRepeat = repeats > 1 && repeats === action_observation - 1 && action_observation <= maxSteps
    return (errors === action_error || isLastRepeat) && !this.#isNudged ? 'nudge' : 'no'
  }

  #message(event: LogEventOf<'MessageEvent'>): void {
    if (isUserMessage(event)) {
      this.#steps = []
      this.#messages = 0
      this.#isNudged = false
    } else if (event.source === 'agent') this.#messages++
    else this.#isNudged = true
  }

  #act(event: ActionEvent): void {
    const { id, tool_call_id: callId } = event
    const action = lazy(() => actionFingerprint(event))
    this.#steps.push({ id, callId, action, result: undefined, isError: false })
    if (this.#steps.length > maxSteps) this.#steps.shift()
    this.#messages = 0
  }

  #addResult(event: ResultEvent): void {
    const isOwn = ({ id, callId }: ActionRecord) =>
      event.kind === 'AgentErrorEvent' ? callId === event.tool_call_id : id === event.action_id
    const step = this.#steps.find((one) => one.result === undefined && isOwn(one))
    this.#messages = 0
    this.#isNudged = false
    if (step === undefined) return
    step.isError = event.kind === 'AgentErrorEvent'
    step.result = lazy(() => resultFingerprint(event))
  }
}

/** Number of steps at the end that are like the last one. */
function runLength(
  steps: readonly ActionRecord[],
  isLike: (step: ActionRecord, last: ActionRecord) => boolean,
): number {
  const last = steps.at(-1)
  if (last === undefined) return 0
  const other = steps.findLastIndex((step) => !isLike(step, last))
  return steps.length - 1 - other
}

/** Number of steps at the end that repeat the last `period` ones, which are more than one action. */
function cycleLength(steps: readonly ActionRecord[], period: number): number {
  const actions = new Set(steps.slice(-period).map(({ action }) => action()))
  if (steps.length < period || actions.size === 1) return 0
  let length = period
  while (length < steps.length) {
    const [step, next] = [steps.at(-1 - length), steps.at(period - 1 - length)]
    if (step === undefined || next === undefined || !isSameRecord(step, next)) break
    length++
  }
  return length
}

function isSameRecord(a: ActionRecord, b: ActionRecord): boolean {
  return a.action() === b.action() && a.result?.() === b.result?.()
}

/** Computes a fingerprint on first use, then releases the event. */
function lazy(make: () => string): () => string {
  let pending: (() => string) | undefined = make
  let value = ''
  return () => {
    if (pending !== undefined) value = pending()
    pending = undefined
    return value
  }
}

function actionFingerprint({ source, thought, tool_name, tool_call, action }: ActionEvent): string {
  return fingerprint([source ?? 'agent', thought, tool_name, action ?? tool_call?.arguments])
}

function resultFingerprint(event: ResultEvent): string {
  if (event.kind === 'AgentErrorEvent') return fingerprint([event.error])
  if (event.kind === 'ObservationEvent') return fingerprint([event.tool_name, event.observation])
  return fingerprint([event.tool_name, event.rejection_reason, event.rejection_source])
}

/** Members that differ between otherwise equal results. */
const volatileMembers: ReadonlySet<string> = new Set(['pid', 'full_output_save_dir'])
/**
 * The note of the terminal names the directory when it is another one than before; a member has it always.
 */
const directoryNote = /^(\[Exit code -?\d+)\. Working directory: .*\]$/m

function fingerprint(value: unknown): string {
  const text = JSON.stringify(value, (key, inner) => {
    if (volatileMembers.has(key)) return undefined
    return typeof inner === 'string' && inner.startsWith('[Exit code ')
      ? inner.replace(directoryNote, '$1]')
      : inner
  })
  return hash('sha1', text)
}
