import { type Instant, parseInstant } from '@slipway/protocol'
import type { EventLog, PagedEvent } from '@slipway/storage'
import { type Branch, readBranch } from '../state/branch.ts'
import { searchEvents } from '../state/search-events.ts'
import { getMember } from '../view/content-blocks.ts'

/** A finish is usually near the end of the log. */
const firstPage = 10

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
  const message = await findNewestMessage(log, { conversation, branch, source: 'agent' })
  const messageEvent: unknown = message && JSON.parse(message.bytes.toString())
  const since = eventInstant(messageEvent)
  const timestamp__gte = message && since
  const query = { kind: 'ActionEvent', sort_order: 'TIMESTAMP_DESC', timestamp__gte } as const
  for await (const { bytes, position } of searchEvents(log, conversation, query, firstPage)) {
    signal?.throwIfAborted()
    const finish = branch.has(position) ? parseFinishEvent(bytes) : undefined
    if (finish === undefined) continue
    const isLater = message === undefined || (eventInstant(finish) - since || position - message.position) > 0
    if (isLater) return finishText(finish)
    break
  }
  return contentText(getMember(getMember(messageEvent, 'llm_message'), 'content'))
}

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
