import { setImmediate } from 'node:timers/promises'
import { agentServerRoutes, invalidInput, Problem, parseOrThrow } from '@slipway/protocol'
import { definedMembers, isRecord, parseJson } from '@slipway/shared/json'
import { firstChars, lastChars } from '@slipway/shared/text'
import type { PagedEvent, Storage } from '@slipway/storage'

/** Results of tools in all logs: no index has them, so the work of one answer is bounded. */

export interface OutputSearch {
  readonly text: string | undefined
  readonly failed: boolean
  readonly tool: string | undefined
  readonly since: string | undefined
  readonly until: string | undefined
  readonly status: string | undefined
  readonly tags: readonly string[] | undefined
  /** Only this one. */
  readonly conversation: string | undefined
  readonly limit: number
  readonly cursor: string | undefined
}

/** Where a search continues: a page of conversations, one of them, and a page of its events. */
interface Place {
  readonly page?: string | undefined
  readonly index: number
  readonly events?: string | undefined
}

const budgetMs = 1_000
const pageSize = 50
const snippetLength = 160
const kinds = ['ObservationEvent', 'AgentErrorEvent']

/** The newest first of each conversation, the last changed conversation first. */
export async function searchOutputs(
  { log, conversations }: Pick<Storage, 'log' | 'conversations'>,
  search: OutputSearch,
  signal: AbortSignal,
) {
  const deadline = performance.now() + budgetMs
  const hits: unknown[] = []
  let place: Place | undefined = readCursor(search.cursor)
  const answer = () => ({ hits, next_cursor: place === undefined ? null : writeCursor(place) })
  while (place !== undefined) {
    const list = await listConversations(conversations, search, place.page)
    const { page }: Place = place
    for (let index = place.index; index < list.items.length; index++) {
      const { id, title } = list.items[index] as (typeof list.items)[number]
      let events: string | undefined = index === place.index ? place.events : undefined
      do {
        // Reads of a local log do not wait, so other requests would.
        await setImmediate()
        signal.throwIfAborted()
        const found = await searchPage(log, id, search, events)
        hits.push(...found.hits.map((hit) => ({ conversation_id: id, title, ...hit })))
        events = found.next
        place = events === undefined ? { page, index: index + 1 } : { page, index, events }
        if (hits.length >= search.limit || performance.now() >= deadline) return answer()
      } while (events !== undefined)
    }
    place = list.next_page_id === null ? undefined : { page: list.next_page_id, index: 0 }
    if (performance.now() >= deadline) return answer()
  }
  return answer()
}

async function listConversations(
  conversations: Storage['conversations'],
  { conversation, status, tags }: OutputSearch,
  page_id: string | undefined,
) {
  if (conversation !== undefined) {
    const [record] = await conversations.get([conversation])
    return { items: record === undefined ? [] : [record], next_page_id: null }
  }
  const { query } = agentServerRoutes.searchConversations
  const given = { status, tag: tags, page_id, limit: String(pageSize), sort_order: 'UPDATED_AT_DESC' }
  const { tag, ...rest } = parseOrThrow(query, definedMembers(given), ['query'])
  return await conversations.search({ ...rest, tags: tag })
}

/** Matching events of one page; their number may exceed the limit of hits by those of the page. */
async function searchPage(
  log: Storage['log'],
  id: string,
  { text, failed, tool, since, until, limit }: OutputSearch,
  page_id: string | undefined,
) {
  const times = { timestamp__gte: since, timestamp__lt: until }
  const given = { ...times, page_id, limit: String(pageSize), sort_order: 'TIMESTAMP_DESC' }
  const query = parseOrThrow(agentServerRoutes.searchEvents.query, definedMembers(given), ['query'])
  try {
    const page = await log.search(id, query)
    const hits = page.items.flatMap((event) => matchOutput(event, { text, failed, tool }) ?? [])
    return { hits: hits.slice(0, Math.max(limit, pageSize)), next: page.next_page_id ?? undefined }
  } catch (error) {
    // Removed meanwhile, or without a log yet.
    if (error instanceof Problem && error.code === 'not_found') return { hits: [], next: undefined }
    throw error
  }
}

/** Undefined when it is no result, or does not match. */
export function matchOutput(
  { position, bytes }: Pick<PagedEvent, 'position' | 'bytes'>,
  { text, failed, tool }: Pick<OutputSearch, 'text' | 'failed' | 'tool'>,
) {
  const event = parseJson(bytes.toString())
  if (!isRecord(event) || !kinds.includes(String(event.kind))) return undefined
  const observation = isRecord(event.observation) ? event.observation : {}
  const { command, exit_code, is_error } = observation
  const exitCode = typeof exit_code === 'number' && exit_code >= 0 ? exit_code : null
  const isFailed = event.kind === 'AgentErrorEvent' || is_error === true || (exitCode ?? 0) > 0
  if (failed && !isFailed) return undefined
  if (tool !== undefined && event.tool_name !== tool) return undefined
  const output = event.kind === 'AgentErrorEvent' ? String(event.error ?? '') : textOf(observation.content)
  const title = typeof command === 'string' ? command : ''
  const found = text === undefined ? undefined : snippetAround(output, text)
  if (text !== undefined && found === undefined && !title.toLowerCase().includes(text.toLowerCase()))
    return undefined
  return {
    ...{ position, timestamp: String(event.timestamp ?? ''), tool: String(event.tool_name ?? '') },
    ...{ command: firstChars(title, 300), exit_code: exitCode, is_error: isFailed },
    snippet: found ?? lastChars(output.trim(), snippetLength),
  }
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : ''
  return content.map((part) => (isRecord(part) && typeof part.text === 'string' ? part.text : '')).join('\n')
}

/** The part of a text around a needle, in any case; undefined without one. */
export function snippetAround(text: string, needle: string): string | undefined {
  const at = text.toLowerCase().indexOf(needle.toLowerCase())
  if (at < 0) return undefined
  const begin = lastChars(text.slice(0, at), snippetLength / 2)
  return begin + firstChars(text.slice(at), needle.length + snippetLength / 2)
}

function writeCursor(place: Place): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url')
}

function readCursor(cursor: string | undefined): Place {
  if (cursor === undefined) return { index: 0 }
  const place = parseJson(Buffer.from(cursor, 'base64url').toString())
  const isText = (value: unknown) => value === undefined || typeof value === 'string'
  if (isRecord(place) && Number.isSafeInteger(place.index) && isText(place.page) && isText(place.events))
    return {
      page: place.page as string,
      index: Math.max(0, Number(place.index)),
      events: place.events as string,
    }
  throw invalidInput(['cursor'], 'The cursor is not one of this server')
}
