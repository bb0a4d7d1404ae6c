/**
 * The messages that a model is sent, from the events of a view.
 *
 * Problem: a request is valid only with each call followed by its result, and is cheap only when it begins
 * with the same bytes as the one before, which the provider has in its cache. A long view is asked for at
 * every step.
 *
 * Idea: units of events (`view-units.ts`) become messages, and each message is made once. A WeakMap has it by
 * its event, or by the first action of a turn while that turn has the same calls and results.
 *
 * Invariants:
 * - A message is never changed, and is the same object each time: counts of tokens are kept by it
 *   (`llm/tokens.ts`). A marked message is a copy, made once.
 * - The calls of one turn are one assistant message, as the model made them, with the thought and the
 *   reasoning of the first action. Their results follow in the order of the calls, then the messages that
 *   stood between.
 * - A call without a result and a result without a call are left out. A turn that loses all its calls keeps
 *   its thought, without its reasoning (`batchMessages`).
 * - System prompts come first. They, calls and reasoning are sent whole; other texts are cut to `limits`.
 * - Limits are those of the projection: another limit is another one (`View.messages`), because the cut
 *   messages are kept.
 * - Cache marks: the fixed part of the system prompt, and the ends of the three newest requests. A cache
 *   looks back from a mark by some blocks only (Anthropic: 20), and one step with many calls is longer.
 *
 * The way of a mark: set here; at most four are sent, the first and the last three (`selectCacheMarks` in
 * `llm/request/prompt.ts`), if the server takes marks (`cacheMarks` in `llm/capabilities`) and the settings
 * do not turn them off (`caching_prompt`). One system mark and `markedRequests` are those four.
 *
 * If you change this: a text that differs by one byte, or another order, costs the cached prefix of every
 * conversation with it.
 */

import type { Message, MessageToolCall } from '@slipway/protocol'
import { withSomeCalls } from '../../llm/request/provider-metadata.ts'
import { textTokens } from '../../llm/tokens.ts'
import { textBlock } from '../../tools/core/tool.ts'
import { type ContentBlock, getMember, resultBlocks, shorten, toBlocks } from './content-blocks.ts'
import type { LogEventOf, ResultEvent, ViewEvent } from './log-event.ts'
import type { MessageLimits } from './message-limits.ts'
import { type Batch, type CallWithResult, groupUnits, type Single, type ViewUnit } from './view-units.ts'

/** Events as messages to a model; a message is the same object each time. */
export class Projection {
  readonly limits: MessageLimits
  readonly #singles = new WeakMap<ViewEvent, readonly Message[]>()
  readonly #batches = new WeakMap<
    ViewEvent,
    { readonly calls: readonly CallWithResult[]; readonly messages: Message[] }
  >()
  readonly #markedMessages = new WeakMap<Message, Message>()

  constructor(limits: MessageLimits) {
    this.limits = limits
  }

  messages(events: readonly ViewEvent[]): Message[] {
    const system: Message[] = []
    const messages: Message[] = []
    for (const unit of groupUnits(events)) {
      const isSystem = unit.kind === 'single' && unit.event.kind === 'SystemPromptEvent'
      for (const message of this.messagesOf(unit)) (isSystem ? system : messages).push(message)
    }
    for (const index of requestEnds(messages)) {
      const message = messages[index]
      if (message !== undefined) messages[index] = this.#markForCaching(message)
    }
    return [...system, ...messages]
  }

  /** The messages of a unit, without cache marks. */
  messagesOf(unit: ViewUnit): readonly Message[] {
    if (unit.kind === 'batch') return this.#batch(unit)
    const known = this.#singles.get(unit.event)
    if (known !== undefined) return known
    const messages = singleMessages(unit, this.limits)
    this.#singles.set(unit.event, messages)
    return messages
  }

  #batch({ calls }: Batch): readonly Message[] {
    const key = calls[0]?.action
    if (key === undefined) return []
    const known = this.#batches.get(key)
    if (known !== undefined && isSameCalls(known.calls, calls)) return known.messages
    const messages = batchMessages(calls, this.limits)
    this.#batches.set(key, { calls, messages })
    return messages
  }

  #markForCaching(message: Message): Message {
    const known = this.#markedMessages.get(message)
    if (known !== undefined) return known
    const content = message.content.with(-1, {
      ...(message.content.at(-1) ?? textBlock('')),
      cache_prompt: true,
    })
    const marked = { ...message, content }
    this.#markedMessages.set(message, marked)
    return marked
  }
}

const markedRequests = 3

/**
 * The indexes of the last messages of the newest requests: those that an assistant message follows, and the
 * end.
 */
function requestEnds(messages: readonly Message[]): number[] {
  const ends: number[] = []
  for (let index = messages.length - 1; index >= 0 && ends.length < markedRequests; index--) {
    const isAsking = messages[index]?.role === 'user' || messages[index]?.role === 'tool'
    const next = messages[index + 1]?.role
    if (isAsking && (next === undefined || next === 'assistant')) ends.push(index)
  }
  return ends
}

function isSameCalls(a: readonly CallWithResult[], b: readonly CallWithResult[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ action, result }, index) => action === b[index]?.action && result === b[index]?.result)
  )
}

function singleMessages({ event }: Single, limits: MessageLimits): Message[] {
  if (event.kind === 'SystemPromptEvent') return systemMessages(event)
  if (event.kind === 'MessageEvent') return messageEventMessages(event, limits)
  if (event.kind !== 'CondensationSummaryEvent') return []
  return [userMessage(toBlocks([`${summaryHeading}\n\n${event.summary}`], limits.chars))]
}

const summaryHeading =
  'Earlier parts of this conversation are no longer shown. This is a summary of what happened in them:'

function systemMessages({ system_prompt, dynamic_context }: LogEventOf<'SystemPromptEvent'>): Message[] {
  const fixed = toBlocks([system_prompt], Number.POSITIVE_INFINITY)
  const content = [
    ...fixed.map((block) => ({ ...block, cache_prompt: true })),
    ...toBlocks([dynamic_context], Number.POSITIVE_INFINITY),
  ]
  return content.length === 0 ? [] : [{ role: 'system', content, thinking_blocks: [] }]
}

function messageEventMessages(event: LogEventOf<'MessageEvent'>, limits: MessageLimits): Message[] {
  const { llm_message, source, extended_content } = event
  const content = toBlocks(getMember(llm_message, 'content'), limits.chars)
  const role = getMember(llm_message, 'role')
  if (role === 'assistant' || (source === 'agent' && role !== 'user')) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, ...reasoningMembers(llm_message) }]
  }
  const all = [...content, ...toBlocks(extended_content, limits.chars)]
  return [
    userMessage(all.length === 0 ? [textBlock('(This message is empty.)')] : fitTokens(all, limits.tokens)),
  ]
}

function userMessage(content: ContentBlock[]): Message {
  return { role: 'user', content, thinking_blocks: [] }
}

/** Cuts the texts of one message, each by the same share, when all together are too large. */
function fitTokens(blocks: ContentBlock[], max: number): ContentBlock[] {
  if (max === Number.POSITIVE_INFINITY) return blocks
  const tokens = blocks.reduce((sum, block) => sum + (block.type === 'text' ? textTokens(block.text) : 0), 0)
  if (tokens <= max) return blocks
  const cut = (text: string) => shorten(text, Math.floor((text.length * max) / tokens))
  return blocks.map((block) => (block.type === 'text' ? { ...block, text: cut(block.text) } : block))
}

interface AnsweredCall extends CallWithResult {
  readonly result: ResultEvent
}

function batchMessages(calls: readonly CallWithResult[], { chars, tokens }: MessageLimits): Message[] {
  const answeredCalls = calls.filter((call): call is AnsweredCall => call.result !== undefined)
  const first = calls[0]?.action
  const content = toBlocks(first?.thought, chars)
  if (answeredCalls.length === 0) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, thinking_blocks: [] }]
  }
  const tool_calls = answeredCalls.map(({ action }) => toolCallFromAction(action))
  const reasoning = reasoningMembers(first)
  if (answeredCalls.length < calls.length) {
    const kept = calls.flatMap(({ result }, index) => (result === undefined ? [] : [index]))
    reasoning.thinking_blocks = withSomeCalls(reasoning.thinking_blocks, kept)
  }
  return [
    { role: 'assistant', content, tool_calls, ...reasoning },
    ...answeredCalls.map(
      ({ result }, index): Message => ({
        role: 'tool',
        content: fitTokens(resultBlocks(result, chars), tokens),
        tool_call_id: tool_calls[index]?.id ?? null,
        name: tool_calls[index]?.name ?? null,
        thinking_blocks: [],
      }),
    ),
  ]
}

/** The call as the model made it. Other writers store it in another shape. */
function toolCallFromAction(event: LogEventOf<'ActionEvent'>): MessageToolCall {
  const { tool_call, tool_call_id, tool_name, action, id } = event
  const isWhole = ['id', 'name', 'arguments'].every((name) => typeof getMember(tool_call, name) === 'string')
  if (isWhole) return tool_call
  const args = getMember(getMember(tool_call, 'function'), 'arguments')
  const { kind, ...members } = (action ?? {}) as Record<string, unknown>
  return {
    id: tool_call_id ?? id,
    name: tool_name ?? 'unknown',
    arguments: typeof args === 'string' ? args : JSON.stringify(members),
    origin: 'completion',
  }
}

type Reasoning = Pick<Message, 'reasoning_content' | 'thinking_blocks' | 'responses_reasoning_item'>

/** Reasoning goes back exactly as received. */
function reasoningMembers(from: unknown): Reasoning {
  const text = getMember(from, 'reasoning_content')
  const blocks = getMember(from, 'thinking_blocks')
  const item = getMember(from, 'responses_reasoning_item')
  return {
    ...(typeof text === 'string' && text !== '' ? { reasoning_content: text } : {}),
    thinking_blocks: Array.isArray(blocks) ? blocks : [],
    ...(typeof item === 'object' && item !== null
      ? { responses_reasoning_item: { summary: [], ...item } }
      : {}),
  }
}
