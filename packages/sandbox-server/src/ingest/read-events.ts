import { invalidInput, Problem, type ValidationIssue } from '@slipway/protocol'
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
}

export async function readEvents(stream: AsyncIterable<Buffer>): Promise<IncomingEvent[]> {
  const elements = new JsonArraySplitter()
  const events: IncomingEvent[] = []
  let sizeBytes = 0
  for await (const chunk of stream) {
    sizeBytes += chunk.length
    for (const bytes of elements.push(chunk)) {
      if (events.length >= maxEvents) throw new Problem('too_large', `More than ${maxEvents} events`)
      events.push(parseEvent(bytes, events.length))
    }
    const isAlone = events.length === 0 || (events.length === 1 && elements.pendingBytes === 0)
    const limit = isAlone ? maxEventBytes : maxBodyBytes
    if (sizeBytes > limit) throw new Problem('too_large', `The body is longer than ${limit} bytes`)
  }
  elements.end()
  return events
}

function parseEvent(bytes: Buffer, index: number): IncomingEvent {
  const line = parseEventLine(bytes)
  if (line.kind === 'issues') throw eventProblem(index, line.issues)
  const { value } = line
  const issues = eventIssues(value, true)
  if (issues.length > 0) throw eventProblem(index, issues)
  const { id, timestamp, kind, source } = value
  const isStats = kind === 'ConversationStateUpdateEvent' && value.key === 'stats'
  return {
    bytes,
    value: { id, timestamp, kind, source },
    status: readExecutionStatus(value),
    metrics: isStats ? parseStatsMetrics(value.value) : undefined,
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
