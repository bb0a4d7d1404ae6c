import type { Message } from '@slipway/protocol'

/**
 * What a provider wants back with an answer and our messages have no place for. It travels as a redacted thinking block
 * whose data is `<owner>:<kind>:<index>:<value>`; the index is that of the text or the tool call it belongs to. Data
 * without an owner's prefix is Anthropic's own: base64, in which no colon stands.
 */
export interface Carried {
  readonly owner: 'google' | 'openai' | 'openrouter' | 'bedrock'
  /** `text`, `call`: a signature or phase of that piece; `item`: a reasoning item before that tool call; `end`, `details`: the answer's own. */
  readonly kind: 'text' | 'call' | 'item' | 'end' | 'details'
  readonly index: number
  readonly value: string
}

const form = /^(google|openai|openrouter|bedrock):(text|call|item|end|details):(\d+):(.*)$/s
/** The mark of a thought of Google's in the signature of a thinking block. */
const googleThought = 'google:thought:'

type Block = Message['thinking_blocks'][number]

export function carry({ owner, kind, index, value }: Carried): Block {
  return { type: 'redacted_thinking', data: `${owner}:${kind}:${index}:${value}` }
}

/** What is carried by a message for an owner. */
export function carriedBy(message: Message, owner: Carried['owner']): Carried[] {
  return message.thinking_blocks.flatMap((block) => {
    const found = block.type === 'redacted_thinking' ? form.exec(block.data) : null
    if (found === null || found[1] !== owner) return []
    const [, , kind, index, value = ''] = found
    return [{ owner, kind: kind as Carried['kind'], index: Number(index), value }] // the form allows no other kind
  })
}

export function googleThoughtBlock(thinking: string, signature: string): Block {
  return { type: 'thinking', thinking, signature: `${googleThought}${signature}` }
}

/** The thoughts of Google's in a message, with their signatures. */
export function googleThoughts(message: Message): { thinking: string; signature: string }[] {
  return message.thinking_blocks.flatMap((block) =>
    block.type === 'thinking' && block.signature?.startsWith(googleThought)
      ? [{ thinking: block.thinking, signature: block.signature.slice(googleThought.length) }]
      : [],
  )
}

/** The blocks that are Anthropic's own and can go back to it: signed, or redacted by it. */
export function anthropicBlocks(message: Message): Block[] {
  return message.thinking_blocks.filter((block) =>
    block.type === 'redacted_thinking'
      ? !form.test(block.data)
      : Boolean(block.signature) && !block.signature?.startsWith(googleThought),
  )
}
