import type { Message, MessageToolCall } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { modelCapabilities } from '../capabilities/capabilities.ts'
import { providerOptionsKey } from '../request/prompt.ts'
import { encodeOrigin, encodeProviderMetadata, googleThoughtBlock } from '../request/provider-metadata.ts'
import type { SdkMetadata } from '../request/sdk-types.ts'
import { type ModelRoute, serverOf } from '../route.ts'
import type { ReceivedCall, ResponseAccumulator, ResponsePart } from './accumulator.ts'

type ThinkingBlock = Message['thinking_blocks'][number]
type ReasoningItem = NonNullable<Message['responses_reasoning_item']>

/**
 * The message of a response, with everything that has to go back. `usedIds`: ids of earlier calls; `names`:
 * of the tools of the request, in the form that the provider was told.
 */
export function assistantMessage(
  response: ResponseAccumulator,
  route: ModelRoute,
  usedIds: ReadonlySet<string>,
  names: ReadonlyMap<string, string>,
): Message {
  const texts = response.parts.filter((part) => part.type === 'text' && !isBlank(part))
  const reasoningParts = response.parts.filter(({ type }) => type === 'reasoning')
  const thinking = reasoningParts.map(({ text }) => text).filter((text) => text !== '')
  // Plain reasoning goes back exactly as received.
  const reasoning = thinking.join(route.api === 'compatible' ? '' : '\n\n')
  const items = route.api === 'responses' ? reasoningItems(reasoningParts, route) : []
  const [first] = items
  return {
    role: 'assistant',
    content: texts.map(({ text }, index) => ({
      type: 'text',
      text: index === texts.length - 1 ? text + sourceList(response) : text,
      cache_prompt: false,
    })),
    ...(response.calls.length > 0 ? { tool_calls: toolCalls(response.calls, route, usedIds, names) } : {}),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    thinking_blocks: [
      ...thinkingBlocks(reasoningParts, route),
      ...orderBlocks(response, route),
      ...signatureBlocks(response, texts, route),
      ...items
        .slice(1)
        .map(({ item, callsBefore }) =>
          encodeProviderMetadata('openai', 'item', callsBefore, JSON.stringify(item)),
        ),
      ...openRouterBlocks(response),
      ...originBlocks(response, route),
    ],
    ...(first === undefined ? {} : { responses_reasoning_item: first.item }),
  }
}

/** Providers refuse blank texts, and the places of the others are counted without them. */
function isBlank({ text }: ResponsePart): boolean {
  return text.trim() === ''
}

const maxSources = 20

/** The cited pages, in the last text: a text alone would have no place in the provider's order of parts. */
function sourceList({ sources }: ResponseAccumulator): string {
  const found = [...sources].filter(([url]) => /^https?:\/\/\S+$/.test(url)).slice(0, maxSources)
  if (found.length === 0) return ''
  const lines = found.map(([url, title]) => `- ${firstChars(title.replaceAll(/\s+/g, ' '), 200)}: ${url}`)
  return `\n\nSources:\n${lines.join('\n')}`
}

/** Makes call ids unique: some servers start from the same id in every reply. */
function toolCalls(
  calls: readonly ReceivedCall[],
  route: ModelRoute,
  usedIds: ReadonlySet<string>,
  names: ReadonlyMap<string, string>,
): MessageToolCall[] {
  const origin = route.api === 'responses' ? 'responses' : 'completion'
  return calls.map(({ id, name, input }) => {
    return {
      id: usedIds.has(id) ? `${id}-${crypto.randomUUID().slice(0, 8)}` : id,
      name: names.get(name) ?? name,
      arguments: input,
      origin,
    }
  })
}

function thinkingBlocks(reasoningParts: readonly ResponsePart[], route: ModelRoute): ThinkingBlock[] {
  if (route.api !== 'anthropic' && route.api !== 'bedrock' && route.api !== 'google') return []
  return reasoningParts.flatMap((piece): ThinkingBlock[] => {
    const { signature, redactedData, redactedContent, thoughtSignature } = ownMetadata(piece.metadata, route)
    if (typeof redactedData === 'string') return [{ type: 'redacted_thinking', data: redactedData }]
    if (typeof redactedContent === 'string')
      return [encodeProviderMetadata('bedrock', 'details', 0, redactedContent)]
    if (typeof thoughtSignature === 'string') return [googleThoughtBlock(piece.text, thoughtSignature)]
    if (typeof signature === 'string') return [{ type: 'thinking', thinking: piece.text, signature }]
    return []
  })
}

/** Claude's order of thoughts (r), texts (t) and calls (c), where it is not this one. */
function orderBlocks({ parts, calls }: ResponseAccumulator, route: ModelRoute): ThinkingBlock[] {
  if (route.api !== 'anthropic' && route.api !== 'bedrock') return []
  let order = ''
  let callCount = 0
  for (const part of parts) {
    for (; callCount < Math.min(part.callsBefore, calls.length); callCount++) order += 'c'
    if (part.type === 'text') order += isBlank(part) ? '' : 't'
    else order += thinkingBlocks([part], route).length > 0 ? 'r' : ''
  }
  order += 'c'.repeat(calls.length - callCount)
  return /^r*t*c*$/.test(order) ? [] : [encodeProviderMetadata('anthropic', 'order', 0, order)]
}

/** Google's signatures of texts and calls, OpenAI's phases of texts. */
function signatureBlocks(
  response: ResponseAccumulator,
  texts: readonly ResponsePart[],
  route: ModelRoute,
): ThinkingBlock[] {
  if (route.api === 'responses') {
    return texts.flatMap((piece, index) => {
      const { phase } = ownMetadata(piece.metadata, route)
      return typeof phase === 'string' ? [encodeProviderMetadata('openai', 'text', index, phase)] : []
    })
  }
  const google = (
    kind: 'text' | 'call' | 'end',
    index: number,
    metadata: SdkMetadata,
    other?: string,
  ): ThinkingBlock[] => {
    const { thoughtSignature = other } = ownMetadata(metadata, route)
    if (typeof thoughtSignature !== 'string') return []
    return [encodeProviderMetadata('google', kind, index, thoughtSignature)]
  }
  const ends = response.parts.filter((part) => part.type === 'text' && isBlank(part))
  return [
    ...texts.flatMap(({ metadata }, index) => google('text', index, metadata)),
    ...response.calls.flatMap(({ metadata }, index) =>
      google('call', index, metadata, response.callSignatures.get(index)),
    ),
    ...ends.flatMap(({ metadata }) => google('end', 0, metadata)),
  ]
}

/** The reasoning items of a response, each with the number of tool calls before it. */
function reasoningItems(reasoningParts: readonly ResponsePart[], route: ModelRoute) {
  const items = new Map<string, { item: ReasoningItem; callsBefore: number }>()
  for (const { text, metadata, callsBefore } of reasoningParts) {
    const { itemId, reasoningEncryptedContent: encrypted } = ownMetadata(metadata, route)
    if (typeof itemId !== 'string') continue
    const known = items.get(itemId) ?? { item: { id: itemId, summary: [] }, callsBefore }
    items.set(itemId, known)
    if (text !== '') known.item.summary.push(text)
    if (typeof encrypted === 'string') known.item.encrypted_content = encrypted
  }
  return [...items.values()]
}

function openRouterBlocks({ reasoningDetails }: ResponseAccumulator): ThinkingBlock[] {
  if (reasoningDetails.length === 0) return []
  return [encodeProviderMetadata('openrouter', 'details', 0, JSON.stringify({ details: reasoningDetails }))]
}

/** Pieces of a compatible server go back to it alone: another one may refuse them. */
function originBlocks(response: ResponseAccumulator, route: ModelRoute): ThinkingBlock[] {
  const server = serverOf(route)
  if (route.api !== 'compatible' || server === undefined) return []
  const { reasoning } = modelCapabilities(route)
  const member = reasoning === 'same' ? response.reasoningMember : undefined
  const hasSignatures =
    response.callSignatures.size > 0 ||
    [...response.parts, ...response.calls].some(
      ({ metadata }) => 'thoughtSignature' in ownMetadata(metadata, route),
    )
  return member === undefined && !hasSignatures ? [] : [encodeOrigin({ server, member })]
}

function ownMetadata(metadata: SdkMetadata, route: ModelRoute): Record<string, unknown> {
  return metadata[providerOptionsKey(route)] ?? {}
}
