import { invalidInput, Problem, type ValidationIssue } from '@slipway/protocol'
import type { ByteLease } from '@slipway/shared/async'
import { eventIssues, parseEventLine, readExecutionStatus } from '@slipway/storage'
import { parseStatsMetrics, type UsageMetrics } from '../conversations/records/usage-metrics.ts'
import { JsonArraySplitter } from './json-array-splitter.ts'

const mebibyte = 1024 * 1024
const maxBodyBytes = 8 * mebibyte
/** A larger event than a body may be is sent alone. */
const maxEventBytes = 64 * mebibyte
const maxEvents = 10_000

/** A received event: its bytes, and what the control plane reads from it. */
export interface IncomingEvent {
  readonly bytes: Buffer
  /** The members that the log reads. */
  readonly value: Record<string, unknown>
  readonly status: string | undefined
  readonly metrics: UsageMetrics | undefined
  /** An object of it has a name twice; `value` has the last one. */
  readonly hasDuplicate: boolean
}

/** A body of events as it arrives. */
export interface EventBody {
  /** Unpacked. */
  readonly stream: AsyncIterable<Buffer>
  /** Few bytes may become many: then even a single event may not be longer than a body of several. */
  readonly isCompressed: boolean
  /** Its declared length; 0 when unknown. */
  readonly length: number
}

/** Takes a lease of the bytes, at once where their number is known. Problems: `invalid`, `too_large`. */
export async function readEvents(
  { stream, isCompressed, length }: EventBody,
  lease: Pick<ByteLease, 'add'>,
): Promise<IncomingEvent[]> {
  if (length > maxEventBytes) throw tooLargeProblem(maxEventBytes)
  let leasedBytes = isCompressed ? maxBodyBytes : length
  await lease.add(leasedBytes)
  const elements = new JsonArraySplitter()
  const events: IncomingEvent[] = []
  let sizeBytes = 0
  for await (const chunk of stream) {
    sizeBytes += chunk.length
    if (sizeBytes > leasedBytes) {
      await lease.add(sizeBytes - leasedBytes)
      leasedBytes = sizeBytes
    }
    for (const bytes of elements.push(chunk)) {
      if (events.length >= maxEvents) throw new Problem('too_large', `More than ${maxEvents} events`)
      events.push(parseEvent(bytes, events.length))
    }
    const isAlone = events.length === 0 || (events.length === 1 && elements.pendingBytes === 0)
    const limit = isAlone && !isCompressed ? maxEventBytes : maxBodyBytes
    if (sizeBytes > limit) throw tooLargeProblem(limit)
  }
  elements.end()
  return events
}

function tooLargeProblem(limit: number): Problem {
  return new Problem('too_large', `The body is longer than ${limit} bytes`)
}

function parseEvent(bytes: Buffer, index: number): IncomingEvent {
  const line = parseEventLine(bytes)
  if (line.kind === 'issues') throw eventProblem(index, line.issues)
  const { value, hasDuplicate } = line
  const issues = eventIssues(value, true)
  if (issues.length > 0) throw eventProblem(index, issues)
  const { id, timestamp, kind, source } = value
  const isStats = kind === 'ConversationStateUpdateEvent' && value.key === 'stats'
  return {
    bytes,
    value: { id, timestamp, kind, source },
    status: readExecutionStatus(value),
    metrics: isStats ? parseStatsMetrics(value.value) : undefined,
    hasDuplicate,
  }
}

function eventProblem(index: number, issues: readonly ValidationIssue[]): Problem {
  if (issues.length === 0) return invalidInput(['body', index], 'The event is refused')
  return new Problem(
    'invalid',
    `event ${index} is refused`,
    issues.map((issue) => ({ ...issue, loc: ['body', index, ...issue.loc] })),
  )
}
