import type { Message } from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'

/**
 * What a provider wants back and our messages have no place for. It travels as a redacted thinking block
 * whose data is `<owner>:<kind>:<index>:<value>`; the index is that of the text or tool call it belongs to.
 * Data without an owner's prefix is Anthropic's own: base64, in which no colon stands.
 */
interface ProviderMetadata {
  readonly owner: 'anthropic' | 'google' | 'openai' | 'openrouter' | 'bedrock' | 'compatible'
  /**
   * `text`, `call`: a signature or phase of that part; `item`: a reasoning item before that call; `order`: a
   * letter for each part of the message.
   */
  readonly kind: 'text' | 'call' | 'item' | 'end' | 'details' | 'order'
  readonly index: number
  readonly value: string
}

const encodedPattern =
  /^(anthropic|google|openai|openrouter|bedrock|compatible):(text|call|item|end|details|order):(\d+):(.*)$/s
/** Marks Google's reasoning in the signature of a thinking block. */
const googleThoughtPrefix = 'google:thought:'

type ThinkingBlock = Message['thinking_blocks'][number]

export function encodeProviderMetadata(
  owner: ProviderMetadata['owner'],
  kind: ProviderMetadata['kind'],
  index: number,
  value: string,
): ThinkingBlock {
  return { type: 'redacted_thinking', data: `${owner}:${kind}:${index}:${value}` }
}

/** The metadata for a provider in a message. */
export function decodeProviderMetadata(
  message: Message,
  owner: ProviderMetadata['owner'],
): ProviderMetadata[] {
  return message.thinking_blocks.flatMap((block) => {
    const found = block.type === 'redacted_thinking' ? encodedPattern.exec(block.data) : null
    if (found === null || found[1] !== owner) return []
    const [, , kind, index, value = ''] = found
    return [{ owner, kind: kind as ProviderMetadata['kind'], index: Number(index), value }] // the form allows no other kind
  })
}

/** The server that a reply came from, when its pieces go back to no other one. */
export interface PieceOrigin {
  /** Host and port. */
  readonly server: string
  /** The member of its messages that had the reasoning. */
  readonly member?: string | undefined
}

export function encodeOrigin(origin: PieceOrigin): ThinkingBlock {
  return encodeProviderMetadata('compatible', 'details', 0, JSON.stringify(origin))
}

export function decodeOrigin(message: Message): PieceOrigin | undefined {
  const { server, member } =
    parseJsonObject(decodeProviderMetadata(message, 'compatible')[0]?.value ?? '') ?? {}
  if (typeof server !== 'string') return undefined
  return { server, member: typeof member === 'string' ? member : undefined }
}

export function googleThoughtBlock(thinking: string, signature: string): ThinkingBlock {
  return { type: 'thinking', thinking, signature: `${googleThoughtPrefix}${signature}` }
}

/** Google's reasoning in a message, with signatures. */
export function googleThoughts(message: Message): { thinking: string; signature: string }[] {
  return message.thinking_blocks.flatMap((block) =>
    block.type === 'thinking' && block.signature?.startsWith(googleThoughtPrefix)
      ? [{ thinking: block.thinking, signature: block.signature.slice(googleThoughtPrefix.length) }]
      : [],
  )
}

/** Anthropic's own blocks: signed or redacted by it. */
function anthropicBlocks(message: Message): ThinkingBlock[] {
  return message.thinking_blocks.filter((block) =>
    block.type === 'redacted_thinking'
      ? !encodedPattern.test(block.data)
      : Boolean(block.signature) && !block.signature?.startsWith(googleThoughtPrefix),
  )
}

/** A thought of Claude, or one that it hides: as its own interface sends it, or as Bedrock does. */
type ClaudeBlock =
  | { readonly kind: 'thinking'; readonly text: string; readonly signature: string }
  | { readonly kind: 'hidden' | 'bedrock'; readonly data: string }

/** A hidden thought goes back to the interface that it came from. */
export function isSendable(kind: ClaudeBlock['kind'], api: string): boolean {
  return kind === 'thinking' || (kind === 'bedrock') === (api === 'bedrock')
}

/** Claude's thoughts in the order in which they came. */
export function claudeBlocks(message: Message): ClaudeBlock[] {
  const own = new Set(anthropicBlocks(message))
  return message.thinking_blocks.flatMap((block): ClaudeBlock[] => {
    if (own.has(block)) {
      if (block.type !== 'thinking') return [{ kind: 'hidden', data: block.data }]
      return [{ kind: 'thinking', text: block.thinking, signature: block.signature ?? '' }]
    }
    const [, owner, , , data = ''] =
      block.type === 'redacted_thinking' ? (encodedPattern.exec(block.data) ?? []) : []
    return owner === 'bedrock' ? [{ kind: 'bedrock', data }] : []
  })
}

/** The blocks of an answer of which only some calls are shown, by their former indexes. */
export function withSomeCalls(blocks: Message['thinking_blocks'], kept: readonly number[]): ThinkingBlock[] {
  return blocks.flatMap((block) => {
    const found = block.type === 'redacted_thinking' ? encodedPattern.exec(block.data) : null
    if (found === null) return [block]
    const [, owner, kind, index, value = ''] = found
    const renumber = (at: number) =>
      at < 0 ? [] : [encodeProviderMetadata(owner as 'google', kind as 'call', at, value)] // as the pattern says
    if (kind === 'call') return renumber(kept.indexOf(Number(index)))
    if (kind === 'item') return renumber(kept.findIndex((one) => one >= Number(index)))
    if (kind !== 'order') return [block]
    let call = 0
    const letters = [...value].filter((letter) => letter !== 'c' || kept.includes(call++))
    return [encodeProviderMetadata('anthropic', 'order', 0, letters.join(''))]
  })
}
