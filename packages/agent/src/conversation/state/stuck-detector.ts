import { hash } from 'node:crypto'
import type { StuckThresholds } from '@slipway/protocol'
import { getMember } from '../view/content-blocks.ts'
import {
  isResult,
  isUserMessage,
  type LogEvent,
  type LogEventOf,
  type ResultEvent,
} from '../view/log-event.ts'

/** Lengths of cycles of several actions. */
const cyclePeriods = [2, 3, 4, 5, 6]
/** Most steps in memory, so the largest useful threshold. */
const maxSteps = 64

type ActionEvent = LogEventOf<'ActionEvent'>

/** A call that takes so long and does not fail is a wait. */
const minWaitMs = 10_000
/** A call that starts nothing and reads what a running program wrote is one after a shorter time. */
const minReadMs = 1_000
/** Calls that waited for so long and brought nothing new are for the user to judge. */
const maxSilenceMs = 3_600_000

interface ActionRecord {
  readonly id: string
  /** Of its event, in milliseconds; NaN when the event does not tell. */
  readonly madeAt: number
  readonly callId: string
  /** It reads what a program writes, and does nothing else. */
  readonly startsNothing: boolean
  /** Equal exactly when source, thought, tool and action are. */
  readonly action: () => string
  /** Equal exactly when tool and observation, error text or rejection are; undefined until there is one. */
  result: (() => string) | undefined
  isError: boolean
}

/**
 * Detects an agent that repeats itself since the user's latest message. Polling is no repetition: the same
 * action with another result each time, or a wait: a call that takes ten seconds and does not fail, or one that
 * starts nothing and reads what a running program wrote. What came before a wait is not counted, because the
 * world has had time to change. The limits of cost, steps and time bound waits, and the user is asked when an
 * hour of them has brought nothing new: an hour in which calls ran and did not succeed, without pauses and
 * confirmations.
 */
export class StuckDetector {
  #steps: ActionRecord[] = []
  /** Agent messages in a row, without an action between them. */
  #messages = 0
  /** The agent got a message since the last result. */
  #isNudged = false
  /** When the conversation began to run or continued. */
  #runningSince = Number.NEGATIVE_INFINITY
  /**
   * From the first wait on: what was heard, how long calls brought nothing new, and when the last one ended.
   */
  #silence: { readonly heard: Set<string>; ms: number; countedTo: number } | undefined

  add(event: LogEvent): void {
    if (event.kind === 'MessageEvent') this.#message(event)
    else if (event.kind === 'ActionEvent') this.#act(event)
    else if (isResult(event)) this.#addResult(event)
    else if (isRunning(event)) this.#runningSince = timeOf(event)
  }

  /**
   * `stuck`: a pattern has reached its threshold (`alternating_pattern`: at least 4 steps, and at least two
   * rounds of a longer cycle). `nudge`: once more is `stuck`, and there was no message about it. `silent`: an
   * hour of waits has brought nothing new.
   */
  detect(thresholds: StuckThresholds): 'no' | 'nudge' | 'stuck' | 'silent' {
    if (this.#silence !== undefined && this.#silence.ms >= maxSilenceMs) return 'silent'
    const { action_observation, action_error, monologue, alternating_pattern } = thresholds
    const steps = this.#steps.filter(({ result }) => result !== undefined)
    const errors = runLength(steps, (step, last) => step.isError && step.action() === last.action())
    const repeats = runLength(steps, (step, last) => !step.isError && isSameRecord(step, last))
    if (this.#messages >= monologue || repeats >= action_observation || errors > action_error) return 'stuck'
    const missing = cyclePeriods.map(
      (period) => Math.max(4, alternating_pattern, 2 * period) - cycleLength(steps, period),
    )
    if (missing.some((count) => count <= 0)) return 'stuck'
    const isLastRepeat = repeats > 1 && repeats === action_observation - 1 && action_observation <= maxSteps
    const isNext = errors === action_error || isLastRepeat || missing.includes(1)
    return isNext && !this.#isNudged ? 'nudge' : 'no'
  }

  #message(event: LogEventOf<'MessageEvent'>): void {
    if (isUserMessage(event)) {
      this.#steps = []
      this.#messages = 0
      this.#isNudged = false
      this.#silence = undefined
    } else if (event.source === 'agent') this.#messages++
    else this.#isNudged = true
  }

  #act(event: ActionEvent): void {
    const { id, tool_call_id: callId } = event
    const action = lazy(() => actionFingerprint(event))
    this.#steps.push({
      id,
      callId,
      madeAt: timeOf(event),
      startsNothing: startsNothing(event),
      action,
      result: undefined,
      isError: false,
    })
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
    // It ran neither before it was confirmed nor during a pause.
    const startedAt = Math.max(step.madeAt, this.#runningSince)
    const isWaiting = isWait(step, event, timeOf(event) - startedAt)
    if (isWaiting || this.#silence !== undefined) this.#hear(event, startedAt)
    if (isWaiting) {
      this.#steps = []
      return
    }
    step.isError = event.kind === 'AgentErrorEvent'
    step.result = lazy(() => resultFingerprint(event))
  }

  #hear(event: ResultEvent, startedAt: number): void {
    const endedAt = timeOf(event)
    const result = resultFingerprint(event)
    this.#silence ??= { heard: new Set(), ms: 0, countedTo: Number.NEGATIVE_INFINITY }
    const { heard, countedTo } = this.#silence
    // Calls that ran side by side count once.
    const ms = endedAt - Math.max(startedAt, countedTo)
    if (ms > 0) this.#silence.countedTo = endedAt
    if (heard.has(result)) {
      if (ms > 0 && exitCodeOf(event) !== 0) this.#silence.ms += ms
      return
    }
    if (heard.size >= maxSteps) heard.clear()
    heard.add(result)
    this.#silence.ms = 0
  }
}

type Members = Readonly<Record<string, unknown>>

function startsNothing({ action }: ActionEvent): boolean {
  const { kind, command, operation, reset }: Members = { ...action }
  if (kind === 'BackgroundTerminalAction') return operation === 'output'
  return kind === 'TerminalAction' && command === '' && reset !== true
}

function isWait(step: ActionRecord, event: ResultEvent, ms: number): boolean {
  if (event.kind !== 'ObservationEvent') return false
  const { is_error, status }: Members = { ...event.observation }
  const exitCode = exitCodeOf(event)
  // -1: it still runs.
  const isFailure = is_error === true || (typeof exitCode === 'number' && exitCode > 0)
  const isRead = step.startsNothing && (exitCode === -1 || status === 'running')
  return !isFailure && ms >= (isRead ? minReadMs : minWaitMs)
}

function exitCodeOf(event: ResultEvent): unknown {
  if (event.kind !== 'ObservationEvent') return undefined
  const { exit_code, metadata }: Members = { ...event.observation }
  return exit_code ?? getMember(metadata, 'exit_code')
}

function isRunning(event: LogEvent): boolean {
  const isStatus = event.kind === 'ConversationStateUpdateEvent' && event.key === 'execution_status'
  return isStatus && event.value === 'running' && !Number.isNaN(timeOf(event))
}

/** Milliseconds; NaN when the event does not tell. */
function timeOf({ timestamp = '' }: LogEvent): number {
  return Date.parse(timestamp)
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
