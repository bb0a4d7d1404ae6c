import type { Message } from '@slipway/protocol'

/**
 * What a provider wants back and our messages have no place for. It travels as a redacted thinking block
 * whose data is `<owner>:<kind>:<index>:<value>`; the index is that of the text or tool call it belongs to.
 * Data without an owner's prefix is Anthropic's own: base64, in which no colon stands.
 */
export interface ProviderMetadata {
  readonly owner: 'google' | 'openai' | 'openrouter' | 'bedrock'
  /** `text`, `call`: a signature or phase of that part; `item`: a reasoning item before that call. */
  readonly kind: 'text' | 'call' | 'item' | 'end' | 'details'
  readonly index: number
  readonly value: string
}

const encodedPattern = /^(google|openai|openrouter|bedrock):(text|call|item|end|details):(\d+):(.*)$/s
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
export function anthropicBlocks(message: Message): ThinkingBlock[] {
  return message.thinking_blocks.filter((block) =>
    block.type === 'redacted_thinking'
      ? !encodedPattern.test(block.data)
      : Boolean(block.signature) && !block.signature?.startsWith(googleThoughtPrefix),
  )
}
