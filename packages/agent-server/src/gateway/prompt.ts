import { type ChatMessage, type ChatRequest, invalidInput, type SendMessageRequest } from '@slipway/protocol'

type MessageContent = SendMessageRequest['content']

const maxSystemChars = 32_768

/** The messages of a request, as input for an agent. */
interface GatewayPrompt {
  readonly message: MessageContent
  /** For a new conversation: the last message, with the earlier messages before it. */
  readonly messageWithHistory: MessageContent
  readonly system: string | undefined
}

/** A Problem `invalid` unless the last message is a non-empty user message, or for a long system prompt. */
export function parsePrompt({ messages }: Pick<ChatRequest, 'messages'>): GatewayPrompt {
  const lastIndex = messages.length - 1
  const last = messages[lastIndex]
  if (last?.role !== 'user')
    throw invalidInput(['body', 'messages', lastIndex, 'role'], 'The last message should be of the user')
  const message = messageContent(last)
  if (message.length === 0)
    throw invalidInput(['body', 'messages', lastIndex, 'content'], 'The message is empty')
  const previous = messages.slice(0, lastIndex)
  const system = previous.filter(isSystem).map(messageText).filter(Boolean).join('\n\n')
  if (system.length > maxSystemChars)
    throw invalidInput(
      ['body', 'messages'],
      `The messages of the system are longer than ${maxSystemChars} characters`,
    )
  const historyLines = previous.filter((one) => !isSystem(one)).flatMap(historyLine)
  const history = `What was said before:\n\n${historyLines.join('\n\n')}\n\nThe message to answer:`
  return {
    message,
    messageWithHistory: historyLines.length === 0 ? message : [textPart(history), ...message],
    system: system === '' ? undefined : system,
  }
}

function isSystem({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer'
}

function historyLine(message: ChatMessage): string[] {
  const content = messageText(message)
  return content === '' ? [] : [`${message.role}: ${content}`]
}

function messageText({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n')
}

function messageContent({ content }: ChatMessage): MessageContent {
  if (typeof content === 'string') return content === '' ? [] : [textPart(content)]
  return (content ?? []).map((part) => {
    if (part.type === 'text') return textPart(part.text)
    const { image_url: url } = part
    return { type: 'image', image_urls: [typeof url === 'string' ? url : url.url], cache_prompt: false }
  })
}

function textPart(value: string) {
  return { type: 'text', text: value, cache_prompt: false } as const
}
