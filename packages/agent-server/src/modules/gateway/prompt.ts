import {
  type ChatRequest,
  type GatewayPart,
  Problem,
  type ResponsesItem,
  type ResponsesRequest,
  refusedMember,
  type SendMessageRequest,
} from '@slipway/protocol'

type MessageContent = SendMessageRequest['content']

/** What was said, called or answered. */
type Said =
  | { readonly kind: 'message'; readonly role: string; readonly content: MessageContent }
  | { readonly kind: 'call'; readonly callId: string; readonly name: string; readonly args: string }
  | ClientResult

/** The result of a call that the client has executed. */
export interface ClientResult {
  readonly kind: 'result'
  readonly callId: string
  readonly content: MessageContent
  /** The member of the request. */
  readonly param: string
}

const maxSystemChars = 32_768
const continueText = 'Continue with the results of these calls.'

/** The messages of a request, as input for an agent. */
export interface GatewayPrompt {
  /** For a conversation that knows what was said before. */
  readonly message: MessageContent
  /** For a new conversation: the message, with the earlier messages before it. */
  readonly messageWithHistory: MessageContent
  readonly system: string | undefined
  /** The part of it that is for this request alone. */
  readonly instructions: string | undefined
  /** The rest, which later requests build on. */
  readonly standing: string | undefined
  /** Results at the end of the request: they continue the conversation that has called. */
  readonly results: readonly ClientResult[]
}

/**
 * The last message of the user, and what was said before it. A Problem `bad_request` without one, for parts
 * of other types, and for a long system prompt.
 */
export function parseChatPrompt({ messages }: Pick<ChatRequest, 'messages'>): GatewayPrompt {
  if (!messages.some(({ role }) => role === 'user')) throw badRequest('At least one user message is required')
  const all = messages.flatMap((one, index): Said[] => {
    const { role, tool_calls: calls = [], tool_call_id: callId = '' } = one
    const content = readContent(one.content, readChatPart)
    if (role === 'tool')
      return [{ kind: 'result', callId, content, param: `messages[${index}].tool_call_id` }]
    const made = calls.map(({ id, function: { name, arguments: args } }) => ({
      ...({ kind: 'call', callId: id } as const),
      ...{ name, args },
    }))
    return [{ kind: 'message', role, content }, ...made]
  })
  const said = all.filter((one) => !isSystem(one))
  const end = newSaid(said)
  const results = end.filter(isResult).filter(({ callId }) => callId !== '')
  const lastIndex = said.findLastIndex((one) => one.kind === 'message' && one.role === 'user')
  const isAnswered = said.slice(lastIndex + 1).some(({ kind }) => kind === 'result')
  const last = said[lastIndex]
  const question = last?.kind === 'message' ? last.content : []
  if (question.length === 0) throw badRequest('The message of the user is empty')
  const message = isAnswered ? [textPart(continueText)] : question
  const previous = isAnswered ? said : said.slice(0, lastIndex)
  const historyLines = previous.flatMap(historyLine)
  const history = `What was said before:\n\n${historyLines.join('\n\n')}\n\nThe message to answer:`
  return {
    message: results.length === 0 ? message : render(end),
    messageWithHistory: historyLines.length === 0 ? message : [textPart(history), ...message],
    system: systemText(all),
    instructions: undefined,
    standing: undefined,
    results,
  }
}

/**
 * The input of a response as one message: a single message as it is, several between marks of their roles. A
 * Problem `bad_request` for an empty input and for items and parts of other types.
 */
export function parseResponsesPrompt({ input, instructions }: ResponsesRequest): GatewayPrompt {
  const items: readonly ResponsesItem[] =
    typeof input === 'string'
      ? ([{ role: 'user', content: input, output: undefined }] as ResponsesItem[])
      : input
  if (items.length === 0 || input === '') throw badRequest('Responses input must not be empty')
  const all = items.flatMap((item, index) => readItem(item, `input[${index}]`))
  const said = all.filter((one) => !isSystem(one))
  const isInput = (one: Said) =>
    one.kind === 'result' || (one.kind === 'message' && one.role === 'user' && one.content.length > 0)
  if (!said.some(isInput)) throw badRequest('Responses input must include a user message')
  const end = newSaid(said)
  const results = end.filter(isResult)
  const first: Said[] =
    instructions === undefined ? [] : [{ kind: 'message', role: 'system', content: [textPart(instructions)] }]
  const isContinued = end.length === said.length || results.length > 0
  return {
    message: isContinued ? render(end) : render(said),
    messageWithHistory: render(said),
    system: systemText([...first, ...all]),
    instructions,
    standing: systemText(all),
    results,
  }
}

function readItem(item: ResponsesItem, param: string): Said[] {
  const { type = 'message', role, call_id: callId, name, arguments: args = '' } = item
  if (type === 'message' && role !== undefined)
    return [{ kind: 'message', role, content: readContent(item.content, readResponsesPart) }]
  if (type === 'message') throw refusedMember(`${param}.role`, 'A message needs a role')
  // Only the provider of a model can read them, and references name what the conversation has.
  if (type === 'reasoning' || type === 'item_reference') return []
  if (type === 'function_call' && callId !== undefined && name !== undefined)
    return [{ kind: 'call', callId, name, args }]
  if (type === 'function_call_output' && callId !== undefined) {
    const content = readContent(item.output, readResponsesPart)
    return [{ kind: 'result', callId, content, param: `${param}.call_id` }]
  }
  if (type === 'function_call' || type === 'function_call_output')
    throw refusedMember(`${param}.call_id`, 'The call is not named')
  throw refusedMember(`${param}.type`, `Unsupported Responses item type: ${type}`)
}

function isResult(one: Said): one is ClientResult {
  return one.kind === 'result'
}

/** What comes after the last answer or call of the assistant. */
function newSaid(said: readonly Said[]): Said[] {
  const last = said.findLastIndex(
    (one) => one.kind === 'call' || (one.kind === 'message' && one.role === 'assistant'),
  )
  return said.slice(last + 1)
}

/** A single message as it is; results and messages between marks. */
function render(said: readonly Said[]): MessageContent {
  const [first] = said
  if (said.length === 1 && first?.kind === 'message') return first.content
  return said.flatMap((one) => {
    if (one.kind === 'call')
      return [
        textPart(`<function_call name="${one.name}" call_id="${one.callId}">`),
        textPart(one.args),
        textPart('</function_call>'),
      ]
    if (one.kind === 'result')
      return [
        textPart(`<function_call_output call_id="${one.callId}">`),
        ...one.content,
        textPart('</function_call_output>'),
      ]
    return [textPart(`<message role="${one.role}">`), ...one.content, textPart('</message>')]
  })
}

function isSystem(one: Said): boolean {
  return one.kind === 'message' && (one.role === 'system' || one.role === 'developer')
}

function systemText(all: readonly Said[]): string | undefined {
  const text = all.filter(isSystem).map(saidText).filter(Boolean).join('\n\n')
  if (text.length <= maxSystemChars) return text === '' ? undefined : text
  throw badRequest(`The messages of the system are longer than ${maxSystemChars} characters`)
}

function historyLine(one: Said): string[] {
  const text = saidText(one)
  if (one.kind === 'call') return [`assistant calls ${one.name} (${one.callId}): ${text}`]
  if (one.kind === 'result') return [`result${one.callId === '' ? '' : ` of ${one.callId}`}: ${text}`]
  return text === '' ? [] : [`${one.role}: ${text}`]
}

function saidText(one: Said): string {
  if (one.kind === 'call') return one.args
  return one.content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n')
}

function readContent(
  content: ResponsesItem['content'],
  readPart: (part: GatewayPart) => MessageContent[number],
): MessageContent {
  if (typeof content === 'string') return content === '' ? [] : [textPart(content)]
  return (content ?? []).map(readPart)
}

function readChatPart({ type, text, refusal, image_url }: GatewayPart): MessageContent[number] {
  if (type === 'text' && typeof text === 'string') return textPart(text)
  if (type === 'refusal' && typeof refusal === 'string') return textPart(refusal)
  if (type !== 'image_url') throw badRequest(`Unsupported content part type: ${type}`)
  const { url = image_url }: { url?: unknown } = Object(image_url)
  if (typeof url !== 'string') throw badRequest('image_url content part is missing a url')
  return imagePart(url)
}

function readResponsesPart({ type, text, refusal, image_url }: GatewayPart): MessageContent[number] {
  if (/^(?:input_|output_|summary_)?text$/.test(type) && typeof text === 'string') return textPart(text)
  if (type === 'refusal' && typeof refusal === 'string') return textPart(refusal)
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
