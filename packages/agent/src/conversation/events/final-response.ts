import { setImmediate } from 'node:timers/promises'
import { type Instant, parseInstant } from '@slipway/protocol'
import type { EventLog, PagedEvent } from '@slipway/storage'
import { type Branch, readBranch } from '../state/branch.ts'
import { getMember } from '../view/content-blocks.ts'

/** The first page is small: what is looked for stands near the end of a finished conversation. */
const firstPage = 10
const laterPages = 100

interface FoundText {
  readonly instant: Instant
  readonly position: number
  readonly text: string
}

/**
 * What the agent said last: the message of its newest `finish` call (empty when that call could not be executed) or its
 * newest message, whichever came later; empty when there is neither. A new question does not change it. The newest
 * events are read first, and none that is older than the newest message. Only the active branch counts.
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
  const filter = { kind: 'MessageEvent', source, sort_order: 'TIMESTAMP_DESC' } as const
  let page_id: string | undefined
  for (let limit = 1; ; limit = laterPages) {
    const page = await log.search(conversation, { ...filter, limit, page_id })
    const found = page.items.find(({ position }) => branch.has(position))
    if (found !== undefined || page.next_page_id === null) return found
    page_id = page.next_page_id
    await setImmediate()
  }
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
  const filter = { kind: 'ActionEvent', sort_order: 'TIMESTAMP_DESC', timestamp__gte: since } as const
  let page_id: string | undefined
  for (let limit = firstPage; ; limit = laterPages) {
    const page = await log.search(conversation, { ...filter, limit, page_id })
    for (const { bytes, position } of page.items) {
      const event = branch.has(position) ? parseFinishEvent(bytes) : undefined
      if (event !== undefined) return { instant: eventInstant(event), position, text: finishText(event) }
    }
    if (page.next_page_id === null) return undefined
    page_id = page.next_page_id
    // A long log without a finish is a long way: others may have their turn.
    await setImmediate()
    signal?.throwIfAborted()
  }
}

/** Most actions are told from a finish without being parsed. */
function parseFinishEvent(bytes: Buffer): unknown {
  if (!bytes.includes('"finish"')) return undefined
  const event: unknown = JSON.parse(bytes.toString())
  return getMember(event, 'tool_name') === 'finish' ? event : undefined
}

function finishText(event: unknown): string {
  const message = getMember(getMember(event, 'action'), 'message')
  return typeof message === 'string' ? message : ''
}

/** A content may be a plain text in events of other writers. */
function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (typeof part === 'string' ? part : (getMember(part, 'text') ?? ''))).join('')
}

/** An event without a time of its own is as old as can be. */
function eventInstant(event: unknown): Instant {
  const timestamp = getMember(event, 'timestamp')
  return (typeof timestamp === 'string' ? parseInstant(timestamp) : undefined) ?? 0
}
