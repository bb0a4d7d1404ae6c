import {
  type ChatRequest,
  type GatewayPart,
  Problem,
  type ResponsesRequest,
  type SendMessageRequest,
} from '@slipway/protocol'

type MessageContent = SendMessageRequest['content']

/** A message of either interface. */
interface GatewayMessage {
  readonly role: string
  readonly content?: string | readonly GatewayPart[] | null | undefined
}

interface ReadMessage {
  readonly role: string
  readonly content: MessageContent
}

const maxSystemChars = 32_768

/** The messages of a request, as input for an agent. */
export interface GatewayPrompt {
  readonly message: MessageContent
  /** For a new conversation: the message, with the earlier messages before it. */
  readonly messageWithHistory: MessageContent
  readonly system: string | undefined
}

/**
 * The last message of the user, and what was said before it. A Problem `bad_request` without one, for parts
 * of other types, and for a long system prompt.
 */
export function parseChatPrompt({ messages }: Pick<ChatRequest, 'messages'>): GatewayPrompt {
  if (!messages.some(({ role }) => role === 'user')) throw badRequest('At least one user message is required')
  const all = messages.map((one) => readMessage(one, readChatPart))
  const lastIndex = all.findLastIndex(({ role }) => role === 'user')
  const message = all[lastIndex]?.content ?? []
  if (message.length === 0) throw badRequest('The message of the user is empty')
  const previous = all.slice(0, lastIndex).filter((one) => !isSystem(one))
  const historyLines = previous.flatMap(historyLine)
  const history = `What was said before:\n\n${historyLines.join('\n\n')}\n\nThe message to answer:`
  return {
    message,
    messageWithHistory: historyLines.length === 0 ? message : [textPart(history), ...message],
    system: systemText(all),
  }
}

/**
 * The input of a response as one message: a single message as it is, several between marks of their roles. A
 * Problem `bad_request` as `parseChatPrompt`, and for what is not done: streams, stores, earlier responses.
 */
export function parseResponsesPrompt(request: ResponsesRequest): GatewayPrompt {
  const { input, instructions, stream, store, previous_response_id } = request
  if (stream === true) throw badRequest('Streaming responses are not supported yet')
  if (store === true) throw badRequest('Persistent response storage (store=True) is not supported yet')
  if (previous_response_id !== undefined)
    throw badRequest('previous_response_id is not supported; replay input items instead')
  const items: readonly GatewayMessage[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : input
  if (items.length === 0 || input === '') throw badRequest('Responses input must not be empty')
  const all = items.map((one) => readMessage(one, readResponsesPart))
  const said = all.filter((one) => !isSystem(one))
  if (!said.some(({ role, content }) => role === 'user' && content.length > 0))
    throw badRequest('Responses input must include a user message')
  const message =
    said.length === 1
      ? (said[0]?.content ?? [])
      : said.flatMap(({ role, content }) => [
          textPart(`<message role="${role}">`),
          ...content,
          textPart('</message>'),
        ])
  const first = instructions === undefined ? [] : [{ role: 'system', content: [textPart(instructions)] }]
  return { message, messageWithHistory: message, system: systemText([...first, ...all]) }
}

function isSystem({ role }: ReadMessage): boolean {
  return role === 'system' || role === 'developer'
}

function systemText(messages: readonly ReadMessage[]): string | undefined {
  const text = messages.filter(isSystem).map(messageText).filter(Boolean).join('\n\n')
  if (text.length <= maxSystemChars) return text === '' ? undefined : text
  throw badRequest(`The messages of the system are longer than ${maxSystemChars} characters`)
}

function historyLine(message: ReadMessage): string[] {
  const content = messageText(message)
  return content === '' ? [] : [`${message.role}: ${content}`]
}

function messageText({ content }: ReadMessage): string {
  return content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n')
}

function readMessage(
  { role, content }: GatewayMessage,
  readPart: (part: GatewayPart) => MessageContent[number],
): ReadMessage {
  if (typeof content === 'string') return { role, content: content === '' ? [] : [textPart(content)] }
  return { role, content: (content ?? []).map(readPart) }
}

function readChatPart({ type, text, image_url }: GatewayPart): MessageContent[number] {
  if (type === 'text' && typeof text === 'string') return textPart(text)
  if (type !== 'image_url') throw badRequest(`Unsupported content part type: ${type}`)
  const { url = image_url }: { url?: unknown } = Object(image_url)
  if (typeof url !== 'string') throw badRequest('image_url content part is missing a url')
  return imagePart(url)
}

function readResponsesPart({ type, text, image_url }: GatewayPart): MessageContent[number] {
  if (/^(?:input_|output_)?text$/.test(type) && typeof text === 'string') return textPart(text)
  if (type !== 'input_image') throw badRequest(`Unsupported Responses content part type: ${type}`)
  if (typeof image_url !== 'string') throw badRequest('input_image content part is missing an image_url')
  return imagePart(image_url)
}

function textPart(value: string) {
  return { type: 'text', text: value, cache_prompt: false } as const
}

function imagePart(url: string): MessageContent[number] {
  return { type: 'image', image_urls: [url], cache_prompt: false }
}

function badRequest(message: string): Problem {
  return new Problem('bad_request', message)
}
