/**
 * Ids of responses, of their items and of calls name a place in a log: the conversation, and the event or its
 * position. So they need no table, and hold wherever the log is: after a restart, on another server, after an
 * import.
 */

export interface EventPlace {
  readonly conversation: string
  readonly event: string
}

interface CallPlace {
  readonly conversation: string
  readonly position: number
}

const uuidHex = '([0-9a-f]{32})'
const responsePattern = new RegExp(`^resp_${uuidHex}${uuidHex}$`)
const itemPattern = new RegExp(`^(?:msg|fc)_${uuidHex}${uuidHex}f?$`)
const callPattern = new RegExp(`^call_${uuidHex}([0-9a-f]{8})$`)

/** `event`: the id of the state update with which the response begins. */
export function responseId(conversation: string, event: string): string {
  return `resp_${toHex(conversation)}${toHex(event)}`
}

export function parseResponseId(id: string): EventPlace | undefined {
  return toEventPlace(responsePattern.exec(id))
}

/** `event`: the id of the event that the item shows. The message of a finish has a suffix. */
export function itemId(kind: 'msg' | 'fc', { conversation, event }: EventPlace, isFinish = false): string {
  return `${kind}_${toHex(conversation)}${toHex(event)}${isFinish ? 'f' : ''}`
}

export function parseItemId(id: string): EventPlace | undefined {
  return toEventPlace(itemPattern.exec(id))
}

/** At most 64 characters, as the interface has it. */
export function clientCallId({ conversation, position }: CallPlace): string {
  return `call_${toHex(conversation)}${position.toString(16).padStart(8, '0')}`
}

export function parseClientCallId(id: string): CallPlace | undefined {
  const [, conversation, position] = callPattern.exec(id) ?? []
  if (conversation === undefined || position === undefined) return undefined
  return { conversation: toUuid(conversation), position: Number.parseInt(position, 16) }
}

/** The conversation that a body for `/v1` continues, apart from headers; undefined when it names none. */
export function continuedConversation(body: unknown): string | undefined {
  const { previous_response_id: previous, input, messages } = Object(body)
  if (typeof previous === 'string') return parseResponseId(previous)?.conversation
  const items: unknown = input ?? messages
  if (!Array.isArray(items)) return undefined
  const { call_id: callId, tool_call_id: toolCallId } = Object(items.findLast(hasCallId))
  const id: unknown = callId ?? toolCallId
  return typeof id === 'string' ? parseClientCallId(id)?.conversation : undefined
}

function hasCallId(item: unknown): boolean {
  const { type, role } = Object(item)
  return type === 'function_call_output' || role === 'tool'
}

function toEventPlace(match: RegExpExecArray | null): EventPlace | undefined {
  const [, conversation, event] = match ?? []
  if (conversation === undefined || event === undefined) return undefined
  return { conversation: toUuid(conversation), event: toUuid(event) }
}

/** Events of other writers may have ids that are no UUIDs: what shows them cannot be referred to. */
function toHex(uuid: string): string {
  return uuid.replaceAll('-', '').toLowerCase()
}

function toUuid(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
