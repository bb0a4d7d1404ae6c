/**
 * Responses as views of the log.
 *
 * Idea: a response begins with a state update of the key `response`, whose value has what the request said;
 * the message of the user and the events of the run follow. It ends with the status that ends the run, or
 * where something else begins. So reading is enough to say what a response is, also after a kill of the
 * server that made it.
 *
 * Invariants:
 * - Nothing of a response is stored elsewhere: an import of the log has it, and a condensation, which hides
 *   events from the model alone, changes nothing of it.
 * - Marks that come later, of a deletion or a cancellation, have ids that follow from that of the response
 *   (`markId`): they are found without a search.
 *
 * If you change this: ids that clients keep name something else, or nothing.
 */

import type { UsageStats } from '@slipway/agent'
import {
  clientCallId,
  conversationId,
  type EventPlace,
  type GatewayUsage,
  itemId,
  leafEventIdKey,
} from '@slipway/protocol'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import type { ConversationRecord, Storage, StoredEvent } from '@slipway/storage'
import { deriveEventId } from '../../core/conversations/lifecycle/send-message.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Key of the state update with which a response begins. */
export const responseKey = 'response'

/** What the request of a response said, in the form of its resource. */
export interface ResponseFacts {
  readonly members: JsonObject
  /** The input as it came. */
  readonly input: unknown
  /** The tokens of the conversation before it. */
  readonly used: TokenCounts
  /** System messages of it and of those that it builds on. */
  readonly standing: string | undefined
  /** Texts on the way are not the answer: it has a schema. */
  readonly isStructured: boolean
}

export interface OutputItem {
  readonly id: string
  readonly type: 'message' | 'function_call'
  readonly [member: string]: unknown
}

/** Prompt, completion, cached and reasoning tokens. */
export type TokenCounts = readonly [number, number, number, number]

type TurnStatus = 'open' | 'finished' | 'error' | 'stuck' | 'paused' | 'waiting_for_confirmation'

/** The events of a run. */
export interface TurnView {
  readonly items: readonly OutputItem[]
  /** How its last status was; `open` while there is none. */
  readonly status: TurnStatus
  readonly error: { readonly code: string; readonly message: string } | undefined
  /** Its last event. */
  readonly end: StoredEvent | undefined
  readonly isOver: boolean
  /** Nothing was said after it. */
  readonly isLast: boolean
  /** The tokens of the conversation when the next response began. */
  readonly usedByNext: TokenCounts | undefined
}

export interface ResponseView extends TurnView, EventPlace {
  readonly facts: ResponseFacts
  readonly start: StoredEvent
  readonly record: ConversationRecord
  readonly isCancelled: boolean
}

const batchSize = 200
const endStatuses: readonly unknown[] = ['finished', 'error', 'stuck']

/** The id of a mark that says what became of a response. */
export function markId({ conversation, event }: EventPlace, what: 'cancelled' | 'deleted'): string {
  return deriveEventId(conversation, `response_${what}`, event)
}

/** Undefined for an unknown or deleted response. */
export async function readResponse(storage: Storage, place: EventPlace): Promise<ResponseView | undefined> {
  const { conversation, event } = place
  const [record] = conversationId.safeParse(conversation).success
    ? await storage.conversations.get([conversation])
    : []
  if (record === undefined) return undefined
  const ids = [event, markId(place, 'deleted'), markId(place, 'cancelled')]
  const [start, deleted, cancelled] = await storage.log.get(conversation, ids)
  const facts = start && readFacts(parse(start))
  if (start === undefined || facts === undefined || deleted !== undefined) return undefined
  const turn = await readTurn(storage, conversation, { after: start.position, ...facts })
  return { ...turn, ...place, facts, start, record, isCancelled: cancelled !== undefined }
}

/** The events after a position, to the end of their run or to where something else begins. */
export async function readTurn(
  { log }: Pick<Storage, 'log'>,
  conversation: string,
  options: { readonly after: number; readonly isStructured?: boolean },
): Promise<TurnView> {
  const items: OutputItem[] = []
  let status: TurnStatus = 'open'
  let error: TurnView['error']
  let end: StoredEvent | undefined
  const result = (isLast: boolean, next?: ResponseFacts): TurnView => {
    const isOver = endStatuses.includes(status)
    return { items, status, error, end, isOver, isLast, usedByNext: next?.used }
  }
  for (let position = options.after; ; ) {
    const events = await log.read(conversation, position, batchSize)
    for (const stored of events) {
      const event = parse(stored)
      const { kind, key, value } = event
      const isMove = kind === 'ConversationStateUpdateEvent' && key === leafEventIdKey
      const next = readFacts(event)
      if (next !== undefined || isMove) return result(false, next)
      // It follows the status that it explains.
      if (kind === 'ConversationErrorEvent')
        error = { code: String(event.code), message: String(event.detail ?? event.code) }
      if (endStatuses.includes(status)) {
        if (kind === 'MessageEvent' || kind === 'ActionEvent') return result(false)
        continue
      }
      end = stored
      items.push(...itemsOf(stored, { conversation, isStructured: options.isStructured }))
      if (kind === 'ConversationStateUpdateEvent' && key === 'execution_status') status = toStatus(value)
    }
    const last = events.at(-1)
    if (last === undefined) return result(true)
    position = last.position
  }
}

function toStatus(value: unknown): TurnStatus {
  return ['finished', 'error', 'stuck', 'paused', 'waiting_for_confirmation'].includes(String(value))
    ? (value as TurnStatus) // one of the list
    : 'open'
}

/** What an event shows of the answer. */
export function itemsOf(
  stored: StoredEvent,
  {
    conversation,
    isStructured = false,
  }: { readonly conversation: string; readonly isStructured?: boolean | undefined },
): OutputItem[] {
  const event = parse(stored)
  const place = { conversation, event: stored.id }
  if (event.kind === 'MessageEvent' && event.source === 'agent') {
    const text = contentText(Object(event.llm_message).content)
    const isShown = text.trim() !== '' && (!isStructured || parseJsonObject(text) !== undefined)
    return isShown ? [messageItem(itemId('msg', place), text)] : []
  }
  if (event.kind !== 'ActionEvent') return []
  const thought = contentText(event.thought)
  const before = thought.trim() === '' || isStructured ? [] : [messageItem(itemId('msg', place), thought)]
  const { kind: _, ...action } = Object(event.action)
  const kind = String(Object(event.action).kind)
  if (kind === 'FinishAction')
    return [...before, messageItem(itemId('msg', place, true), String(action.message ?? ''))]
  if (!kind.startsWith('ClientAction_')) return before
  const call = {
    type: 'function_call',
    ...{ id: itemId('fc', place), status: 'completed', name: String(event.tool_name) },
    call_id: clientCallId({ conversation, position: stored.position }),
    arguments: JSON.stringify({ ...action, ...ownKind(event.tool_call) }),
  } as const
  return [...before, call]
}

/** An argument of this name is not in the action, which has a kind. */
function ownKind(toolCall: unknown): object {
  const { kind } = parseJsonObject(String(Object(toolCall).arguments)) ?? {}
  return kind === undefined ? {} : { kind }
}

export function messageItem(id: string, text: string): OutputItem {
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }]
  return { type: 'message', id, status: 'completed', role: 'assistant', content }
}

/** The text of a message item; undefined for a call. */
export function itemText({ type, content }: OutputItem): string | undefined {
  return type === 'message' && Array.isArray(content) ? String(content[0]?.text) : undefined
}

/** The event of a client's call, with the name of its tool. */
export async function findClientCall(
  { log }: Storage,
  { conversation, position }: { readonly conversation: string; readonly position: number },
): Promise<StoredEvent | undefined> {
  const [stored] = position < 1 ? [] : await log.read(conversation, position - 1, 1)
  const isCall =
    stored !== undefined && itemsOf(stored, { conversation }).some(({ type }) => type === 'function_call')
  return isCall ? stored : undefined
}

export function parse({ bytes }: Pick<StoredEvent, 'bytes'>): JsonObject {
  return JSON.parse(bytes.toString())
}

/** What a mark of the beginning of a response says; undefined for any other event. */
export function readFacts({ kind, key, value }: JsonObject): ResponseFacts | undefined {
  if (kind !== 'ConversationStateUpdateEvent' || key !== responseKey || !isRecord(value)) return undefined
  const { members, input, used, standing, isStructured } = value
  const counts = Array.isArray(used) ? used.map(Number) : []
  const [prompt = 0, completion = 0, cached = 0, reasoning = 0] = counts
  return {
    members: isRecord(members) ? members : {},
    input,
    used: [prompt, completion, cached, reasoning],
    standing: typeof standing === 'string' ? standing : undefined,
    isStructured: isStructured === true,
  }
}

/** The tokens of a conversation so far, without what its user has not asked for, such as a title. */
export function countTokens(stats: UsageStats): TokenCounts {
  const usages = Object.entries(stats.toJSON().usage_to_metrics)
    .filter(([id]) => id !== 'title')
    .map(([, { accumulated_token_usage }]) => accumulated_token_usage)
  const sum = (name: 'prompt_tokens' | 'completion_tokens' | 'cache_read_tokens' | 'reasoning_tokens') =>
    usages.reduce((total, usage) => total + (usage?.[name] ?? 0), 0)
  return [sum('prompt_tokens'), sum('completion_tokens'), sum('cache_read_tokens'), sum('reasoning_tokens')]
}

export function usageBetween(before: TokenCounts, after: TokenCounts): GatewayUsage {
  const [prompt = 0, completion = 0, cached = 0, reasoning = 0] = after.map((count, at) =>
    Math.max(0, count - (before[at] ?? 0)),
  )
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}

/** Other writers store a content as a plain text. */
function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) => (typeof part === 'string' ? part : (Object(part).text ?? '')))
    .join('')
}
