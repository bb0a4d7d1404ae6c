import { setImmediate } from 'node:timers/promises'
import { agentServerRoutes, type Event, type McpServerToolInput, parseOrThrow } from '@slipway/protocol'
import { actionsDigest, PendingActions } from '@slipway/protocol/confirmation'
import { messageTexts } from '@slipway/protocol/message-texts'
import { definedMembers, isRecord, parseJson } from '@slipway/shared/json'
import type { PagedEvent, Storage } from '@slipway/storage'
import { cutTexts, fitItems, fitMember, maxAnswerLength } from './bounded-json.ts'
import type { Door } from './door.ts'
import { searchOutputs, snippetAround } from './search-outputs.ts'

/** The tools of the scope `read`. Each answer takes bounded time and room. */

const maxEventBytes = 2 * 1024 ** 2
/** Events before a question in which its actions are looked for. */
const maxQuestionEvents = 500
const maxUsage = 500

async function listConversations(
  door: Door,
  { status, tags, limit, cursor }: McpServerToolInput<'list_conversations'>,
  signal: AbortSignal,
) {
  if (door.bound !== undefined) {
    const info = await door.call('getConversation', { params: { conversation_id: door.bound }, signal })
    return { conversations: [describeConversation(info.json)], next_cursor: null }
  }
  const query = { status, tag: tags, limit: String(limit), page_id: cursor, sort_order: 'UPDATED_AT_DESC' }
  const { json } = await door.call('searchConversations', { query, signal })
  const { items, next_page_id } = json as { items: unknown[]; next_page_id: string | null }
  return { ...fitMember('conversations', items.map(describeConversation)), next_cursor: next_page_id }
}

async function search(door: Door, input: McpServerToolInput<'search'>, signal: AbortSignal) {
  const { text, where, failed, tool, since, until, status, tags, limit, cursor } = input
  door.assertMay('read')
  const conversation = input.conversation_id ?? door.bound
  const isOfOutputs = where === 'outputs' || failed || tool !== undefined || text === undefined
  if (isOfOutputs) {
    const record = conversation === undefined ? undefined : await door.getRecord(conversation)
    const found = { text, failed, tool, since, until, status, tags, limit, cursor, conversation: record?.id }
    const { hits, next_cursor } = await searchOutputs(door.storage, found, signal)
    return { ...fitMember('hits', hits), next_cursor }
  }
  if (conversation !== undefined) {
    const { id } = await door.getRecord(conversation)
    const times = { timestamp__gte: since, timestamp__lt: until }
    const given = {
      ...times,
      body: text,
      limit: String(limit),
      page_id: cursor,
      sort_order: 'TIMESTAMP_DESC',
    }
    const query = parseOrThrow(agentServerRoutes.searchEvents.query, definedMembers(given), ['query'])
    const { items, next_page_id } = await door.storage.log.search(id, query)
    const hits = items.map((event) => ({ conversation_id: id, ...toMessageHit(event, text) }))
    return { ...fitMember('hits', hits), next_cursor: next_page_id }
  }
  const times = { timestamp__gte: since, timestamp__lt: until }
  const query = { ...times, body: text, status, tag: tags, limit: String(limit), page_id: cursor }
  const { json } = await door.call('searchConversationTexts', {
    query: { ...query, sort_order: 'UPDATED_AT_DESC' },
    signal,
  })
  const { items, next_page_id } = json as { items: unknown[]; next_page_id: string | null }
  return { ...fitMember('conversations', items), next_cursor: next_page_id }
}

function toMessageHit({ position, bytes }: PagedEvent, needle: string) {
  const event = parseJson(bytes.toString())
  const { id, timestamp, source } = Object(event)
  const texts = isRecord(event) ? messageTexts(event) : []
  const found = texts.map((one) => snippetAround(one, needle)).find((one) => one !== undefined)
  return { position, event_id: id, timestamp, source, snippet: found ?? '' }
}

async function readEvents(door: Door, { conversation_id, first, limit }: McpServerToolInput<'read_events'>) {
  const { id, head } = await door.getRecord(conversation_id)
  const stored = first > head ? [] : await door.storage.log.read(id, first - 1, limit, maxEventBytes)
  const events = stored.map(({ position, bytes }) => ({ position, event: parseJson(bytes.toString()) }))
  const { items: fitted } = fitItems(events)
  const next = first + fitted.length
  return { head, events: fitted, next_first: next > head ? null : next }
}

async function summarizeUsage(
  door: Door,
  { conversation_id = door.bound, since }: McpServerToolInput<'summarize_usage'>,
  signal: AbortSignal,
) {
  door.assertMay('read')
  if (conversation_id !== undefined) {
    const { id } = await door.getRecord(conversation_id)
    const { json } = await door.call('getConversation', { params: { conversation_id: id }, signal })
    return { conversations: 1, is_complete: true, ...addUsage([json]) }
  }
  const infos: unknown[] = []
  let page_id: string | undefined
  do {
    await setImmediate()
    signal.throwIfAborted()
    const query = { limit: '100', page_id, sort_order: 'UPDATED_AT_DESC' }
    const { json } = await door.call('searchConversations', { query, signal })
    const { items, next_page_id } = json as { items: { updated_at: string }[]; next_page_id: string | null }
    const from = since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(since)
    const newer = items.filter(({ updated_at }) => !(Date.parse(updated_at) < from))
    infos.push(...newer)
    page_id = newer.length < items.length ? undefined : (next_page_id ?? undefined)
  } while (page_id !== undefined && infos.length < maxUsage)
  return { conversations: infos.length, is_complete: page_id === undefined, ...addUsage(infos) }
}

async function listQuestions(
  door: Door,
  { limit, cursor }: McpServerToolInput<'list_questions'>,
  signal: AbortSignal,
) {
  door.assertMay('read', 'all')
  const status = 'waiting_for_confirmation'
  const query = { status, limit: String(limit), page_id: cursor, sort_order: 'UPDATED_AT_DESC' }
  const { json } = await door.call('searchConversations', { query, signal })
  const { items, next_page_id } = json as {
    items: { id: string; title: string | null }[]
    next_page_id: string | null
  }
  const questions = await Promise.all(
    items.map(async ({ id, title }) => ({
      conversation_id: id,
      title,
      ...(await readQuestion(door.storage, id)),
    })),
  )
  return { ...fitMember('questions', questions), next_cursor: next_page_id }
}

/** The actions that wait, as far as they are among the last events; a message rejects those before it. */
async function readQuestion({ log }: Pick<Storage, 'log'>, id: string) {
  const events: Event[] = []
  let page_id: string | undefined
  let read = 0
  do {
    const page = await log.search(id, { sort_order: 'TIMESTAMP_DESC', limit: 100, page_id })
    for (const { bytes } of page.items) {
      const event = parseJson(bytes.toString()) as Event
      if (event.kind === 'MessageEvent') return toQuestion(events)
      if ('tool_call_id' in event) events.push(event)
    }
    read += page.items.length
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined && read < maxQuestionEvents)
  return toQuestion(events)
}

/** @param events the newest first. */
function toQuestion(events: readonly Event[]) {
  const pending = new PendingActions<Event>()
  for (const event of events.toReversed()) pending.apply(event)
  const actions = pending.list().map((event) => {
    const { id, tool_name, action, security_risk } = event as Event & Record<string, unknown>
    return { id, tool_name, action, security_risk }
  })
  return { actions, actions_digest: actions.length === 0 ? null : actionsDigest(pending.list()) }
}

async function wait(
  door: Door,
  { conversation_id, timeout_seconds }: McpServerToolInput<'wait'>,
  signal: AbortSignal,
) {
  let record = await door.getRecord(conversation_id)
  const end = new AbortController()
  const timer = door.clock.schedule(timeout_seconds * 1000, () => end.abort())
  try {
    const stop = AbortSignal.any([signal, end.signal])
    const tail = door.storage.log.tail(record.id, record.head, stop)
    if (record.status === 'running')
      for await (const _ of tail) {
        record = await door.getRecord(conversation_id)
        if (record.status !== 'running') break
      }
  } finally {
    timer.cancel()
    end.abort()
  }
  signal.throwIfAborted()
  record = await door.getRecord(conversation_id)
  const { id, head, status } = record
  const { json } = await door.call('finalResponse', { params: { conversation_id: id }, signal })
  const answer = isRecord(json) ? json.response : ''
  return { conversation_id: id, status, head, last_answer: cutTexts(answer, maxAnswerLength / 2) }
}

/** What a list shows of a conversation. */
function describeConversation(info: unknown) {
  const { id, title, execution_status, tags, created_at, updated_at, workspace, parent_conversation_id } =
    Object(info)
  const { working_dir = null } = Object(workspace)
  return {
    ...{ conversation_id: id, title, status: execution_status, tags, created_at, updated_at },
    ...{ working_dir, parent_conversation_id },
  }
}

/** The sums over all models of conversations. */
function addUsage(infos: readonly unknown[]) {
  const sum = { cost: 0, prompt_tokens: 0, completion_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 }
  const number = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : 0)
  for (const info of infos) {
    const { accumulated_cost, accumulated_token_usage } = Object(Object(info).metrics)
    const used = Object(accumulated_token_usage)
    sum.cost += number(accumulated_cost)
    for (const name of [
      'prompt_tokens',
      'completion_tokens',
      'cache_read_tokens',
      'cache_write_tokens',
    ] as const)
      sum[name] += number(used[name])
  }
  return sum
}

export const readTools = {
  list_conversations: listConversations,
  search,
  read_events: readEvents,
  summarize_usage: summarizeUsage,
  list_questions: listQuestions,
  wait,
}
