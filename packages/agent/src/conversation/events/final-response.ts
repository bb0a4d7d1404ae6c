import { type Instant, parseInstant } from '@slipway/protocol'
import type { EventLog, PagedEvent } from '@slipway/storage'
import { type Branch, readBranch } from '../state/branch.ts'
import { searchEvents } from '../state/search-events.ts'
import { getMember } from '../view/content-blocks.ts'

/** A finish is usually near the end of the log. */
const firstPage = 10

interface FoundText {
  readonly instant: Instant
  readonly position: number
  readonly text: string
}

/**
 * The agent's last answer on the active branch: the message of its newest `finish` call (empty for an invalid
 * call) or its newest message, whichever is later; else empty. Reads the log from its end, and no action that
 * is older than the newest message.
 */
export async function finalResponse(
  log: EventLog,
  conversation: string,
  signal?: AbortSignal,
): Promise<string> {
  const branch = await readBranch(log, conversation)
  const message = await findNewestMessageText(log, conversation, branch)
  const finish = await findNewestFinish(log, { conversation, branch, since: message?.instant, signal })
  if (message === undefined || finish === undefined) return (message ?? finish)?.text ?? ''
  const isLater = finish.instant - message.instant || finish.position - message.position
  return isLater > 0 ? finish.text : message.text
}

async function findNewestMessageText(
  log: EventLog,
  conversation: string,
  branch: Branch,
): Promise<FoundText | undefined> {
  const item = await findNewestMessage(log, { conversation, branch, source: 'agent' })
  if (item === undefined) return undefined
  const event: unknown = JSON.parse(item.bytes.toString())
  const text = contentText(getMember(getMember(event, 'llm_message'), 'content'))
  return { instant: eventInstant(event), position: item.position, text }
}

/** The newest message of a source on a branch. */
export async function findNewestMessage(
  log: Pick<EventLog, 'search'>,
  options: {
    readonly conversation: string
    readonly branch: Branch
    readonly source: 'agent' | 'user'
  },
): Promise<PagedEvent | undefined> {
  const { conversation, branch, source } = options
  const query = { kind: 'MessageEvent', source, sort_order: 'TIMESTAMP_DESC' } as const
  for await (const event of searchEvents(log, conversation, query, 1))
    if (branch.has(event.position)) return event
  return undefined
}

async function findNewestFinish(
  log: EventLog,
  options: {
    readonly conversation: string
    readonly branch: Branch
    readonly since: Instant | undefined
    readonly signal: AbortSignal | undefined
  },
): Promise<FoundText | undefined> {
  const { conversation, branch, since, signal } = options
  const query = { kind: 'ActionEvent', sort_order: 'TIMESTAMP_DESC', timestamp__gte: since } as const
  for await (const { bytes, position } of searchEvents(log, conversation, query, firstPage)) {
    signal?.throwIfAborted()
    const event = branch.has(position) ? parseFinishEvent(bytes) : undefined
    if (event !== undefined) return { instant: eventInstant(event), position, text: finishText(event) }
  }
  return undefined
}

/** Parses only events that may be a finish. */
function parseFinishEvent(bytes: Buffer): unknown {
  if (!bytes.includes('"finish"')) return undefined
  const event: unknown = JSON.parse(bytes.toString())
  return getMember(event, 'tool_name') === 'finish' ? event : undefined
}

function finishText(event: unknown): string {
  const message = getMember(getMember(event, 'action'), 'message')
  return typeof message === 'string' ? message : ''
}

/** Other writers store a content as a plain text. */
function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (typeof part === 'string' ? part : (getMember(part, 'text') ?? ''))).join('')
}

/** 0 for an event without a timestamp. */
function eventInstant(event: unknown): Instant {
  const timestamp = getMember(event, 'timestamp')
  return (typeof timestamp === 'string' ? parseInstant(timestamp) : undefined) ?? 0
}
