import type { Message } from '@slipway/protocol'
import { claudeBlocks, decodeProviderMetadata, encodeProviderMetadata } from '../request/provider-metadata.ts'

/**
 * One message of the answers of which a text consists that was cut and continued: all texts, the reasoning of
 * the first and the calls of the last. Claude's thoughts stay at their places between the texts, because its
 * signatures say where they stood: there only the texts at a cut become one.
 */
export function joinMessages(messages: readonly Message[]): Message | undefined {
  const [first, ...others] = messages
  const last = messages.at(-1)
  if (first === undefined || last === undefined || others.length === 0) return first
  const { tool_calls } = last
  const calls = tool_calls === undefined ? {} : { tool_calls }
  if (messages.every((message) => claudeBlocks(message).length === 0))
    return { ...first, content: textContent(messages.flatMap(textsOf).join('')), ...calls }
  const texts: string[] = []
  let order = ''
  for (const message of messages) {
    const [text = '', ...rest] = textsOf(message)
    const own = orderOf(message)
    const isCutHere = order.endsWith('t') && own.startsWith('t')
    if (isCutHere) texts.push(`${texts.pop() ?? ''}${text}`, ...rest)
    else texts.push(...textsOf(message))
    order += isCutHere ? own.slice(1) : own
  }
  const reasoning = messages.flatMap(({ reasoning_content }) => reasoning_content ?? []).join('\n\n')
  return {
    ...first,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    content: texts.flatMap(textContent),
    ...calls,
    thinking_blocks: [
      ...messages.flatMap(withoutOrder),
      ...(/^r*t*c*$/.test(order) ? [] : [encodeProviderMetadata('anthropic', 'order', 0, order)]),
    ],
  }
}

function textContent(text: string): Message['content'] {
  return [{ type: 'text', text, cache_prompt: false }]
}

function textsOf({ content }: Message): string[] {
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
}

/** Thoughts (r), texts (t) and calls (c) as they were received. */
function orderOf(message: Message): string {
  const [stored] = decodeProviderMetadata(message, 'anthropic')
  const { tool_calls = [] } = message
  const usual = [claudeBlocks(message), textsOf(message), tool_calls ?? []] as const
  return stored?.value ?? usual.map((list, at) => 'rtc'.charAt(at).repeat(list.length)).join('')
}

function withoutOrder(message: Message): Message['thinking_blocks'] {
  const stored = decodeProviderMetadata(message, 'anthropic').map(({ value }) => `anthropic:order:0:${value}`)
  return message.thinking_blocks.filter(
    (block) => block.type !== 'redacted_thinking' || !stored.includes(block.data),
  )
}
