import { hash } from 'node:crypto'
import type { StuckThresholds } from '@slipway/protocol'
import {
  isResult,
  isUserMessage,
  type LogEvent,
  type LogEventOf,
  type ResultEvent,
} from '../view/log-event.ts'

/** Steps that are remembered: thresholds up to this are honoured. */
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
 * What an agent has done since the user's latest message, as far as it takes to see that it goes round in circles. Only
 * actions, their results and messages count. Polling is no circle: the same action with another result each time.
 */
export class StuckDetector {
  #steps: ActionRecord[] = []
  /** Messages of the agent in a row, with nothing done between them. */
  #messages = 0
  /** Something was said to the agent since the last result. */
  #isNudged = false

  add(event: LogEvent): void {
    if (event.kind === 'MessageEvent') this.#message(event)
    else if (event.kind === 'ActionEvent') this.#act(event)
    else if (isResult(event)) this.#addResult(event)
  }

  /**
   * `stuck`: a pattern has come to its threshold (four of the thresholds' members; `alternating_pattern` counts from 4).
   * `nudge`: the same action has failed `action_error` times, and nothing was said to the agent about it yet; with one
   * failure more it is stuck.
   */
  detect(thresholds: StuckThresholds): 'no' | 'nudge' | 'stuck' {
    const { action_observation, action_error, monologue, alternating_pattern } = thresholds
    const steps = this.#steps.filter(({ result }) => result !== undefined)
    const errors = runLength(steps, (step, last) => step.isError && step.action() === last.action())
    const repeats = runLength(steps, (step, last) => !step.isError && isSameRecord(step, last))
    if (this.#messages >= monologue || repeats >= action_observation || errors > action_error) return 'stuck'
    if (alternation(steps) >= Math.max(4, alternating_pattern)) return 'stuck'
    return errors === action_error && !this.#isNudged ? 'nudge' : 'no'
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

/** How many steps at the end are like the last one. */
function runLength(
  steps: readonly ActionRecord[],
  isLike: (step: ActionRecord, last: ActionRecord) => boolean,
): number {
  const last = steps.at(-1)
  if (last === undefined) return 0
  const other = steps.findLastIndex((step) => !isLike(step, last))
  return steps.length - 1 - other
}

/** How many steps at the end alternate between two different actions, each with its own result. */
function alternation(steps: readonly ActionRecord[]): number {
  const [last, before] = [steps.at(-1), steps.at(-2)]
  if (last === undefined || before === undefined || last.action() === before.action()) return 0
  let length = 2
  while (length < steps.length) {
    const [step, counterpart] = [steps.at(-1 - length), length % 2 === 0 ? last : before]
    if (step === undefined || !isSameRecord(step, counterpart)) break
    length++
  }
  return length
}

function isSameRecord(a: ActionRecord, b: ActionRecord): boolean {
  return a.action() === b.action() && a.result?.() === b.result?.()
}

/** Most fingerprints are never asked for; the event is let go once its own is known. */
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
  switch (event.kind) {
    case 'ObservationEvent':
      return fingerprint([event.tool_name, event.observation])
    case 'AgentErrorEvent':
      return fingerprint([event.error])
    case 'UserRejectObservation':
      return fingerprint([event.tool_name, event.rejection_reason, event.rejection_source])
  }
}

/** Members that differ from one time to the next though nothing else does. */
const volatileMembers: ReadonlySet<string> = new Set(['pid', 'full_output_save_dir'])

function fingerprint(value: unknown): string {
  return hash(
    'sha1',
    JSON.stringify(value, (key, inner) => (volatileMembers.has(key) ? undefined : inner)),
  )
}
