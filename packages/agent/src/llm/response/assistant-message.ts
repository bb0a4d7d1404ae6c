import type { Message, MessageToolCall } from '@slipway/protocol'
import type { Answered } from '../model.ts'
import { optionsKey } from '../request/prompt.ts'
import { carry, googleThoughtBlock } from '../request/provider-metadata.ts'
import type { Metadata } from '../request/sdk-types.ts'
import type { Route } from '../route.ts'
import type { Call, Piece, Received } from './accumulator.ts'

type Block = Message['thinking_blocks'][number]
type Item = NonNullable<Message['responses_reasoning_item']>

/** The message of an answer: everything that has to go back with it is in it. `used`: ids of calls that were before. */
export function answerMessage(received: Received, route: Route, used: ReadonlySet<string>): Message {
  const texts = received.pieces.filter(({ type, text }) => type === 'text' && text !== '')
  const thoughts = received.pieces.filter(({ type }) => type === 'reasoning')
  const thinking = thoughts.map(({ text }) => text).filter((text) => text !== '')
  // What goes back as plain text must be what came, to the letter.
  const reasoning = thinking.join(route.api === 'compatible' ? '' : '\n\n')
  const items = route.api === 'responses' ? reasoningItems(thoughts, route) : []
  const [first] = items
  return {
    role: 'assistant',
    content: texts.map(({ text }) => ({ type: 'text', text, cache_prompt: false })),
    ...(received.calls.length > 0 ? { tool_calls: toolCalls(received.calls, route, used) } : {}),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    thinking_blocks: [
      ...thinkingBlocks(thoughts, route),
      ...signatures(received, texts, route),
      ...items
        .slice(1)
        .map(({ item, callsBefore }) =>
          carry({ owner: 'openai', kind: 'item', index: callsBefore, value: JSON.stringify(item) }),
        ),
      ...details(received),
    ],
    ...(first === undefined ? {} : { responses_reasoning_item: first.item }),
  }
}

/** What ended an answer; undefined when it did not come to its end. */
export function stopOf({ finish, calls }: Received): Answered['stop'] | undefined {
  const reason = finish?.finishReason
  switch (reason?.unified) {
    case 'length':
      return 'length'
    case 'content-filter':
      return 'refusal'
    case 'stop':
    case 'tool-calls':
      return calls.length > 0 ? 'tool_calls' : 'stop'
    case 'other':
      // A reason that the library has no word for ends an answer; none at all does not.
      if (reason.raw === undefined) return undefined
      return calls.length > 0 ? 'tool_calls' : 'stop'
    default:
      return undefined
  }
}

/** Some servers count their calls from the start in every answer; an id that was used before is made one of its own. */
function toolCalls(calls: readonly Call[], route: Route, used: ReadonlySet<string>): MessageToolCall[] {
  const origin = route.api === 'responses' ? 'responses' : 'completion'
  return calls.map(({ id, name, input, metadata }) => {
    const { itemId } = own(metadata, route)
    return {
      id: used.has(id) ? `${id}-${crypto.randomUUID().slice(0, 8)}` : id,
      name,
      arguments: input,
      origin,
      ...(typeof itemId === 'string' && origin === 'responses' ? { responses_item_id: itemId } : {}),
    }
  })
}

function thinkingBlocks(thoughts: readonly Piece[], route: Route): Block[] {
  if (route.api !== 'anthropic' && route.api !== 'bedrock' && route.api !== 'google') return []
  return thoughts.flatMap((piece): Block[] => {
    const { signature, redactedData, redactedContent, thoughtSignature } = own(piece.metadata, route)
    if (typeof redactedData === 'string') return [{ type: 'redacted_thinking', data: redactedData }]
    if (typeof redactedContent === 'string')
      return [carry({ owner: 'bedrock', kind: 'details', index: 0, value: redactedContent })]
    if (typeof thoughtSignature === 'string') return [googleThoughtBlock(piece.text, thoughtSignature)]
    if (typeof signature === 'string') return [{ type: 'thinking', thinking: piece.text, signature }]
    return []
  })
}

/** Signatures of Google's on texts and calls, phases of OpenAI's on texts. */
function signatures(received: Received, texts: readonly Piece[], route: Route): Block[] {
  if (route.api === 'responses') {
    return texts.flatMap((piece, index) => {
      const { phase } = own(piece.metadata, route)
      return typeof phase === 'string' ? [carry({ owner: 'openai', kind: 'text', index, value: phase })] : []
    })
  }
  const google = (kind: 'text' | 'call' | 'end', index: number, metadata: Metadata): Block[] => {
    const { thoughtSignature } = own(metadata, route)
    if (typeof thoughtSignature !== 'string') return []
    return [carry({ owner: 'google', kind, index, value: thoughtSignature })]
  }
  const ends = received.pieces.filter(({ type, text }) => type === 'text' && text === '')
  return [
    ...texts.flatMap(({ metadata }, index) => google('text', index, metadata)),
    ...received.calls.flatMap(({ metadata }, index) => google('call', index, metadata)),
    ...ends.flatMap(({ metadata }) => google('end', 0, metadata)),
  ]
}

/** The reasoning items of an answer, each with the number of tool calls that stood before it. */
function reasoningItems(thoughts: readonly Piece[], route: Route): { item: Item; callsBefore: number }[] {
  const items = new Map<string, { item: Item; callsBefore: number }>()
  for (const { text, metadata, callsBefore } of thoughts) {
    const { itemId, reasoningEncryptedContent: encrypted } = own(metadata, route)
    if (typeof itemId !== 'string') continue
    const known = items.get(itemId) ?? { item: { id: itemId, summary: [] }, callsBefore }
    items.set(itemId, known)
    if (text !== '') known.item.summary.push(text)
    if (typeof encrypted === 'string') known.item.encrypted_content = encrypted
  }
  return [...items.values()]
}

function details({ details }: Received): Block[] {
  if (details.length === 0) return []
  return [carry({ owner: 'openrouter', kind: 'details', index: 0, value: JSON.stringify({ details }) })]
}

function own(metadata: Metadata, route: Route): Record<string, unknown> {
  return metadata[optionsKey(route)] ?? {}
}
