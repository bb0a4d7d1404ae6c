import { type EventFilter, messageTexts, Problem } from '@slipway/protocol'
import { asRecord, parseJson } from '@slipway/shared/json'
import type { EventLog, PagedEvent } from '../event-log/event-log.ts'
import { foldCase } from '../text/case-folding.ts'

const hitsPerConversation = 3
const conversationsAtOnce = 10
const defaultBudgetMs = 50
/** Of a snippet, before and after the hit, in UTF-16 code units. */
const contextLength = 80

/** Conversations in the order of the search. */
interface ConversationList {
  readonly items: readonly { readonly id: string; readonly title: string | null }[]
  readonly next_page_id: string | null
}

interface TextSearch {
  readonly body: string
  readonly timestamp__gte?: EventFilter['timestamp__gte']
  readonly timestamp__lt?: EventFilter['timestamp__lt']
  readonly page_id?: string | undefined
  /** Most conversations of a page. */
  readonly limit: number
}

/**
 * A page of the conversations whose messages contain a text, with their newest hits. The log's own search
 * decides, so the meaning is the same. Stops when the page is full or the time is up, and says where to go
 * on.
 */
export async function searchTexts(
  log: Pick<EventLog, 'search' | 'get'>,
  list: (query: {
    readonly page_id: string | undefined
    readonly limit: number
  }) => Promise<ConversationList>,
  { limit, page_id, ...search }: TextSearch,
  { budgetMs = defaultBudgetMs } = {},
) {
  const deadline = performance.now() + budgetMs
  const atOnce = Math.min(limit, conversationsAtOnce)
  const items: NonNullable<Awaited<ReturnType<typeof searchOne>>>[] = []
  let next = page_id
  do {
    const page = await list({ page_id: next, limit: atOnce })
    const found = await Promise.all(page.items.map((conversation) => searchOne(log, conversation, search)))
    items.push(...found.filter((hits) => hits !== undefined))
    next = page.next_page_id ?? undefined
  } while (next !== undefined && items.length + atOnce <= limit && performance.now() < deadline)
  return { items, next_page_id: next ?? null }
}

async function searchOne(
  log: Pick<EventLog, 'search'>,
  { id, title }: ConversationList['items'][number],
  search: Pick<TextSearch, 'body' | 'timestamp__gte' | 'timestamp__lt'>,
) {
  try {
    const query = { ...search, limit: hitsPerConversation, sort_order: 'TIMESTAMP_DESC' } as const
    const { items } = await log.search(id, query)
    return items.length === 0
      ? undefined
      : { conversation_id: id, title, hits: items.map((event) => toHit(event, search.body)) }
  } catch (error) {
    // Removed meanwhile, or without a log yet.
    if (error instanceof Problem && error.code === 'not_found') return undefined
    throw error
  }
}

function toHit({ position, bytes }: PagedEvent, body: string) {
  const event = asRecord(parseJson(bytes.toString()))
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  const found = messageTexts(event).map((part) => snippet(part, body))
  const best = found.find((part) => part !== undefined) ?? { text: '', match: [0, 0] }
  const { id, timestamp, source } = event
  return { position, event_id: text(id), timestamp: text(timestamp), source: text(source), ...best }
}

/** The part of a text around the first hit of a needle; undefined without one. */
export function snippet(text: string, needle: string): { text: string; match: [number, number] } | undefined {
  const folded = foldCase(text)
  const foldedNeedle = foldCase(needle)
  const at = folded.indexOf(foldedNeedle)
  if (at < 0) return undefined
  // Folding keeps the number of code points, and nearly always their lengths.
  const isAligned = folded.length === text.length
  const begin = isAligned ? at : unitsOf(text, [...folded.slice(0, at)].length)
  const end = isAligned
    ? at + foldedNeedle.length
    : begin + unitsOf(text.slice(begin), [...foldedNeedle].length)
  const before = text.slice(Math.max(0, begin - contextLength), begin).replace(/^[\udc00-\udfff]/, '')
  const hit = text.slice(begin, end)
  const after = text.slice(end, end + contextLength).replace(/[\ud800-\udbff]$/, '')
  return { text: before + hit + after, match: [before.length, before.length + hit.length] }
}

/** The UTF-16 code units of the first code points of a text. */
function unitsOf(text: string, points: number): number {
  return [...text].slice(0, points).join('').length
}
