import type { Message, MessageToolCall } from '@slipway/protocol'
import { type Block, blocksOf, member, resultBlocks, textBlock } from './content-blocks.ts'
import type { LogEventOf, ResultEvent, ViewEvent } from './log-event.ts'
import { type Batch, type Call, type Single, type Unit, unitsOf } from './view-units.ts'

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
    { readonly calls: readonly Call[]; readonly messages: Message[] }
  >()
  readonly #marked = new WeakMap<Message, Message>()

  constructor(maxMessageChars: number) {
    this.maxMessageChars = maxMessageChars
  }

  messages(events: readonly ViewEvent[]): Message[] {
    const system: Message[] = []
    const messages: Message[] = []
    for (const unit of unitsOf(events)) {
      const isSystem = unit.kind === 'single' && unit.event.kind === 'SystemPromptEvent'
      for (const message of this.messagesOf(unit)) (isSystem ? system : messages).push(message)
    }
    const last = messages.findLastIndex(({ role }) => role === 'user' || role === 'tool')
    const message = messages[last]
    if (message !== undefined) messages[last] = this.#mark(message)
    return [...system, ...messages]
  }

  /** What a unit is to the model, none to several messages, without the mark of the last one. */
  messagesOf(unit: Unit): readonly Message[] {
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
    if (known !== undefined && isSame(known.calls, calls)) return known.messages
    const messages = batchMessages(calls, this.maxMessageChars)
    this.#batches.set(key, { calls, messages })
    return messages
  }

  #mark(message: Message): Message {
    const known = this.#marked.get(message)
    if (known !== undefined) return known
    const content = message.content.with(-1, {
      ...(message.content.at(-1) ?? textBlock('')),
      cache_prompt: true,
    })
    const marked = { ...message, content }
    this.#marked.set(message, marked)
    return marked
  }
}

function isSame(a: readonly Call[], b: readonly Call[]): boolean {
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
      return messageMessages(event, max)
    case 'CondensationSummaryEvent':
      return [userMessage(blocksOf([`${summaryHeading}\n\n${event.summary}`], max))]
    default:
      return []
  }
}

const summaryHeading =
  'Earlier parts of this conversation are no longer shown. This is a summary of what happened in them:'

function systemMessages({ system_prompt, dynamic_context }: LogEventOf<'SystemPromptEvent'>): Message[] {
  const fixed = blocksOf([system_prompt], Number.POSITIVE_INFINITY)
  const content = [
    ...fixed.map((block) => ({ ...block, cache_prompt: true })),
    ...blocksOf([dynamic_context], Number.POSITIVE_INFINITY),
  ]
  return content.length === 0 ? [] : [{ role: 'system', content, thinking_blocks: [] }]
}

function messageMessages(event: LogEventOf<'MessageEvent'>, max: number): Message[] {
  const { llm_message, source, extended_content } = event
  const content = blocksOf(member(llm_message, 'content'), max)
  const role = member(llm_message, 'role')
  if (role === 'assistant' || (source === 'agent' && role !== 'user')) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, ...reasoning(llm_message) }]
  }
  const all = [...content, ...blocksOf(extended_content, max)]
  return [userMessage(all.length === 0 ? [textBlock('(This message is empty.)')] : all)]
}

function userMessage(content: Block[]): Message {
  return { role: 'user', content, thinking_blocks: [] }
}

interface Answered extends Call {
  readonly result: ResultEvent
}

function batchMessages(calls: readonly Call[], max: number): Message[] {
  const answered = calls.filter((call): call is Answered => call.result !== undefined)
  const first = calls[0]?.action
  const content = blocksOf(first?.thought, max)
  if (answered.length === 0) {
    return content.length === 0 ? [] : [{ role: 'assistant', content, thinking_blocks: [] }]
  }
  const tool_calls = answered.map(({ action }) => callOf(action))
  return [
    { role: 'assistant', content, tool_calls, ...reasoning(first) },
    ...answered.map(
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
function callOf({
  tool_call,
  tool_call_id,
  tool_name,
  action,
  id,
}: LogEventOf<'ActionEvent'>): MessageToolCall {
  const isWhole = ['id', 'name', 'arguments'].every((name) => typeof member(tool_call, name) === 'string')
  if (isWhole) return tool_call
  const args = member(member(tool_call, 'function'), 'arguments')
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
function reasoning(from: unknown): Reasoning {
  const text = member(from, 'reasoning_content')
  const blocks = member(from, 'thinking_blocks')
  const item = member(from, 'responses_reasoning_item')
  return {
    ...(typeof text === 'string' && text !== '' ? { reasoning_content: text } : {}),
    thinking_blocks: Array.isArray(blocks) ? blocks : [],
    ...(typeof item === 'object' && item !== null
      ? { responses_reasoning_item: { summary: [], ...item } }
      : {}),
  }
}
