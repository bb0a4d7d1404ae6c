import type { Message, MessageToolCall } from '@slipway/protocol'
import { type ContentBlock, getMember, resultBlocks, textBlock, toBlocks } from './content-blocks.ts'
import type { LogEventOf, ResultEvent, ViewEvent } from './log-event.ts'
import { type Batch, type CallWithResult, groupUnits, type Single, type ViewUnit } from './view-units.ts'

export const defaultMaxMessageChars = 30_000

/**
 * Events as messages to a model.
 *
 * - The system prompt comes first, in one message of up to two blocks; the first is marked to be cached. So is the last
 *   block of the last message of role user or tool; no other block is marked.
 * - The calls of one answer are one assistant message, exactly as they came, with the thought and the reasoning of its
 *   first action. The results follow in the order of the calls; messages that stand between come after the results.
 * - A call without a result and a result without its call are left out, so that pairs are always whole. An answer that
 *   loses all its calls keeps its thought as a text; its reasoning goes, since providers take it only with its calls.
 * - A message without text or image: the agent's is left out, a user's says that it is empty.
 * - Texts of messages and results are cut in the middle to `maxMessageChars`. The system prompt, reasoning and the
 *   arguments of calls are never cut.
 *
 * What an event or a batch became is kept for as long as the event is: a message is the same object each time.
 */
export class Projection {
  readonly maxMessageChars: number
  readonly #singles = new WeakMap<ViewEvent, readonly Message[]>()
  readonly #batches = new WeakMap<
    ViewEvent,
    { readonly calls: readonly CallWithResult[]; readonly messages: Message[] }
  >()
  readonly #markedMessages = new WeakMap<Message, Message>()

  constructor(maxMessageChars: number) {
    this.maxMessageChars = maxMessageChars
  }

  messages(events: readonly ViewEvent[]): Message[] {
    const system: Message[] = []
    const messages: Message[] = []
    for (const unit of groupUnits(events)) {
      const isSystem = unit.kind === 'single' && unit.event.kind === 'SystemPromptEvent'
      for (const message of this.messagesOf(unit)) (isSystem ? system : messages).push(message)
    }
    const last = messages.findLastIndex(({ role }) => role === 'user' || role === 'tool')
    const message = messages[last]
    if (message !== undefined) messages[last] = this.#markForCaching(message)
    return [...system, ...messages]
  }

  /** What a unit is to the model, none to several messages, without the mark of the last one. */
  messagesOf(unit: ViewUnit): readonly Message[] {
    if (unit.kind === 'batch') return this.#batch(unit)
    const known = this.#singles.get(unit.event)
    if (known !== undefined) return known
    const messages = singleMessages(unit, this.maxMessageChars)
    this.#singles.set(unit.event, messages)
    return messages
  }

  #batch({ calls }: Batch): readonly Message[] {
    const key = calls[0]?.action
    if (key === undefined) return []
    const known = this.#batches.get(key)
    if (known !== undefined && isSameCalls(known.calls, calls)) return known.messages
    const messages = batchMessages(calls, this.maxMessageChars)
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

function isSameCalls(a: readonly CallWithResult[], b: readonly CallWithResult[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ action, result }, index) => action === b[index]?.action && result === b[index]?.result)
  )
}

function singleMessages({ event }: Single, max: number): Message[] {
  switch (event.kind) {
    case 'SystemPromptEvent':
      return systemMessages(event)
    case 'MessageEvent':
      return messageEventMessages(event, max)
    case 'CondensationSummaryEvent':
      return [userMessage(toBlocks([`${summaryHeading}\n\n${event.summary}`], max))]
    default:
      return []
  }
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

function messageEventMessages(event: LogEventOf<'MessageEvent'>, max: number): Message[] {
  const { llm_message, source, extended_content } = event
  const content = toBlocks(getMember(llm_message, 'content'), max)
  const role = getMember(llm_message, 'role')
  if (role === 'assistant' || (source === 'agent' && role !== 'user')) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, ...reasoningMembers(llm_message) }]
  }
  const all = [...content, ...toBlocks(extended_content, max)]
  return [userMessage(all.length === 0 ? [textBlock('(This message is empty.)')] : all)]
}

function userMessage(content: ContentBlock[]): Message {
  return { role: 'user', content, thinking_blocks: [] }
}

interface AnsweredCall extends CallWithResult {
  readonly result: ResultEvent
}

function batchMessages(calls: readonly CallWithResult[], max: number): Message[] {
  const answeredCalls = calls.filter((call): call is AnsweredCall => call.result !== undefined)
  const first = calls[0]?.action
  const content = toBlocks(first?.thought, max)
  if (answeredCalls.length === 0) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, thinking_blocks: [] }]
  }
  const tool_calls = answeredCalls.map(({ action }) => toolCallFromAction(action))
  return [
    { role: 'assistant', content, tool_calls, ...reasoningMembers(first) },
    ...answeredCalls.map(
      ({ result }, index): Message => ({
        role: 'tool',
        content: resultBlocks(result, max),
        tool_call_id: tool_calls[index]?.id ?? null,
        name: tool_calls[index]?.name ?? null,
        thinking_blocks: [],
      }),
    ),
  ]
}

/** The call as the model made it. Logs of other writers may hold another shape of it. */
function toolCallFromAction({
  tool_call,
  tool_call_id,
  tool_name,
  action,
  id,
}: LogEventOf<'ActionEvent'>): MessageToolCall {
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

/** What was thought before goes back exactly as it came. */
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
