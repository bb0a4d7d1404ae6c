import { type ChatMessage, type ChatRequest, invalid, type SendMessageRequest } from '@slipway/protocol'

type Content = SendMessageRequest['content']

const maxSystemChars = 32_768

/** What the messages of a request come to for an agent. */
export interface Prompt {
  /** The last message, which is the user's. */
  readonly message: Content
  /** For a conversation that begins: the last message with what was said before it. */
  readonly whole: Content
  /** What is added to the system prompt; undefined when there is nothing. */
  readonly system: string | undefined
}

/** A Problem `invalid` when the last message is not the user's or empty, or the system's messages are too long. */
export function promptOf({ messages }: Pick<ChatRequest, 'messages'>): Prompt {
  const at = messages.length - 1
  const last = messages[at]
  if (last?.role !== 'user')
    throw invalid(['body', 'messages', at, 'role'], 'The last message should be of the user')
  const message = contentOf(last)
  if (message.length === 0) throw invalid(['body', 'messages', at, 'content'], 'The message is empty')
  const before = messages.slice(0, at)
  const system = before.filter(isSystem).map(textOf).filter(Boolean).join('\n\n')
  if (system.length > maxSystemChars)
    throw invalid(
      ['body', 'messages'],
      `The messages of the system are longer than ${maxSystemChars} characters`,
    )
  const said = before.filter((one) => !isSystem(one)).flatMap(line)
  const history = `What was said before:\n\n${said.join('\n\n')}\n\nThe message to answer:`
  return {
    message,
    whole: said.length === 0 ? message : [text(history), ...message],
    system: system === '' ? undefined : system,
  }
}

function isSystem({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer'
}

function line(message: ChatMessage): string[] {
  const said = textOf(message)
  return said === '' ? [] : [`${message.role}: ${said}`]
}

function textOf({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n')
}

function contentOf({ content }: ChatMessage): Content {
  if (typeof content === 'string') return content === '' ? [] : [text(content)]
  return (content ?? []).map((part) => {
    if (part.type === 'text') return text(part.text)
    const { image_url: url } = part
    return { type: 'image', image_urls: [typeof url === 'string' ? url : url.url], cache_prompt: false }
  })
}

function text(value: string) {
  return { type: 'text', text: value, cache_prompt: false } as const
}
