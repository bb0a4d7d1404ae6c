import { asRecord, isRecord } from '@slipway/shared/json'
import { truncateMiddle } from '../../tools/core/truncate.ts'
import { reduceSchema } from './reduce-schema.ts'
import {
  blocksOf,
  derive,
  digestOf,
  isCall,
  isPicture,
  isReasoning,
  isResult,
  type Json,
  lastUserMessage,
  mapBlocks,
  mapTools,
  messagesOf,
  textLike,
  toolEntry,
  withMessages,
  withSchema,
} from './request-body.ts'

/** In the order in which they are applied: what is known by its digest comes before what changes in it. */
export const omissionKinds = [
  ...(['older', 'message', 'block', 'call', 'pictures', 'member'] as const),
  ...(['parameter', 'schema', 'tool', 'tools'] as const),
] as const

export type OmissionKind = (typeof omissionKinds)[number]

/**
 * One thing that requests to a model go without. Its name: of a `parameter` (with its container), of a `member`
 * of messages and tools, of a `tool` (`schema`: it is reduced), the id of a `call`, or the digest of a `block`
 * or `message`. `older`: all before the message with this digest; `pictures`: all, without a name; `tools`:
 * all, which are texts of the request instead (`TextCallSource`).
 */
export interface Omission {
  readonly kind: OmissionKind
  readonly name: string
  /** The most that a number may be, or the characters of a user's text, instead of leaving it out. */
  readonly value?: number | undefined
}

/** Omissions by model with one more, in the form of the log. */
export function addOmission(
  known: Readonly<Record<string, readonly Omission[]>> | undefined,
  { model, kind, name, value }: Json,
): Readonly<Record<string, readonly Omission[]>> | undefined {
  const found = omissionKinds.find((one) => one === kind)
  if (typeof model !== 'string' || found === undefined || typeof name !== 'string') return known
  const omission = { kind: found, name, ...(typeof value === 'number' && { value }) }
  return { ...known, [model]: [...(known?.[model] ?? []), omission] }
}

const imageNote = "[An image was left out: the model's server refused it.]"
const partNote = "[A part of this message was left out: the model's server refused it.]"
/** Of the user's last message, which is never left out. */
export const maxUserText = 2_000

/** A body without what its server refused; the same object when it has none of it. */
export function leaveOut(body: Json, omissions: readonly Omission[]): Json {
  return omissionKinds.reduce((now, kind) => {
    const own = omissions.filter((one) => one.kind === kind)
    return own.length === 0 ? now : appliers[kind](now, own)
  }, body)
}

const appliers: Record<OmissionKind, (body: Json, omissions: readonly Omission[]) => Json> = {
  older: (body, [omission]) => {
    const messages = messagesOf(body)
    const first = messages.findIndex((message) => digestOf(message) === omission?.name)
    if (first <= 0) return body
    const isRules = ({ role }: Json) => role === 'system' || role === 'developer'
    return withMessages(
      body,
      messages
        .filter((message, at) => at >= first || isRules(message))
        .map((message, at, all) =>
          at === 0 || isRules(all[at - 1] ?? {}) ? withoutResults(message) : message,
        ),
    )
  },
  message: (body, omissions) => {
    const isNamed = nameTest(omissions)
    const isShortened = shortenedTest(omissions)
    const last = lastUserMessage(body)
    return mapMessages(body, (message) =>
      isNamed(digestOf(message))
        ? blankMessage(message, message === last || isShortened(digestOf(message)))
        : message,
    )
  },
  block: (body, omissions) => {
    const isNamed = nameTest(omissions)
    const isShortened = shortenedTest(omissions)
    const last = lastUserMessage(body)
    return mapMessages(body, (message) => {
      if (isReasoning(message) && isNamed(digestOf(message))) return undefined
      const blank = (block: Json) => blankBlock(block, message === last || isShortened(digestOf(block)))
      return mapBlocks(message, (block) => (isNamed(digestOf(block)) ? blank(block) : block), partNote)
    })
  },
  call: (body, omissions) => {
    const isNamed = nameTest(omissions)
    return mapMessages(body, (message) => withoutCalls(message, isNamed))
  },
  pictures: (body) =>
    mapMessages(body, (message) =>
      mapBlocks(message, (block) => (isPicture(block) ? textLike(block, imageNote) : block), imageNote),
    ),
  member: (body, omissions) => omissions.reduce((now, { name }) => withoutMember(now, name), body),
  parameter: (body, omissions) =>
    omissions.reduce((now, { name, value }) => withoutParameter(now, name.split('.'), value), body),
  schema: (body, omissions) => {
    const isNamed = nameTest(omissions)
    return mapTools(body, (tool) => {
      const { name = '', schema } = toolEntry(tool) ?? {}
      return schema !== undefined && isNamed(name) ? withSchema(tool, reduceSchema(schema)) : tool
    })
  },
  tool: (body, omissions) => {
    const isNamed = nameTest(omissions)
    return mapTools(body, (tool) => (isNamed(toolEntry(tool)?.name ?? '') ? undefined : tool))
  },
  tools: (body) => body,
}

function nameTest(omissions: readonly Omission[]): (name: string) => boolean {
  const names = new Set(omissions.map(({ name }) => name))
  return (name) => names.has(name)
}

/** Of what was the user's last message when it was refused: shorter, it was accepted. */
function shortenedTest(omissions: readonly Omission[]): (name: string) => boolean {
  const isNamed = nameTest(omissions.filter(({ value }) => value !== undefined))
  const isBlank = nameTest(omissions.filter(({ value }) => value === undefined))
  return (name) => isNamed(name) && !isBlank(name)
}

function mapMessages(body: Json, map: (message: Json) => Json | undefined): Json {
  const mapped = messagesOf(body).flatMap((message) => {
    const kept = map(message)
    if (kept === undefined) return []
    return [kept === message ? message : derive(message, kept)]
  })
  return withMessages(body, mapped)
}

function withoutResults(message: Json): Json {
  return mapBlocks(message, (block) => (isResult(block) ? undefined : block), partNote)
}

function blankMessage(message: Json, isLast: boolean): Json | undefined {
  if (isReasoning(message)) return undefined
  if (isCall(message)) return { ...message, arguments: '{}' }
  if (isResult(message)) return { ...message, output: partNote }
  const { content } = message
  // In their order: what stays is the same, byte for byte.
  const own = Object.entries(message).filter(([name]) => blankMembers.has(name))
  if (Array.isArray(content) || Array.isArray(message.parts))
    return mapBlocks(Object.fromEntries(own), (block) => blankBlock(block, isLast), partNote)
  const text = isLast && typeof content === 'string' ? shorten(content) : partNote
  const blank = content == null ? content : text
  return { ...Object.fromEntries(own), ...(content !== undefined && { content: blank }) }
}

const blankMembers = new Set(['role', 'content', 'parts', 'tool_calls', 'tool_call_id', 'name'])

/** Reasoning goes; of calls and results, which belong together, the contents go. */
function blankBlock(block: Json, isLast: boolean): Json | undefined {
  if (isReasoning(block)) return undefined
  if (isPicture(block)) return textLike(block, imageNote)
  const { toolUse, functionCall, toolResult, functionResponse } = block
  if (isRecord(toolUse)) return { ...block, toolUse: { ...toolUse, input: {} } }
  if (isRecord(functionCall)) return { ...block, functionCall: { ...functionCall, args: {} } }
  if (isRecord(toolResult)) return { ...block, toolResult: { ...toolResult, content: [{ text: partNote }] } }
  if (isRecord(functionResponse))
    return { ...block, functionResponse: { ...functionResponse, response: { result: partNote } } }
  if (isCall(block)) return { ...block, input: {} }
  if (isResult(block)) return { ...block, content: [{ type: 'text', text: partNote }] }
  return textLike(block, isLast && typeof block.text === 'string' ? shorten(block.text) : partNote)
}

function shorten(text: string): string {
  return truncateMiddle(text, maxUserText, ({ chars }) => `[... ${chars} characters left out ...]`)
}

/** Without calls and their results, in the forms of all providers. */
function withoutCalls(message: Json, isNamed: (id: string) => boolean): Json | undefined {
  const { call_id, tool_call_id, tool_calls, content } = message
  if (isNamed(String(call_id)) || isNamed(String(tool_call_id))) return undefined
  const blocks = mapBlocks(message, (block) => (isNamed(callId(block)) ? undefined : block), partNote)
  if (!Array.isArray(tool_calls)) return blocks
  const kept = tool_calls.filter((call: unknown) => !isRecord(call) || !isNamed(String(call.id)))
  if (kept.length === tool_calls.length) return blocks
  const { tool_calls: _, ...rest } = blocks
  if (kept.length > 0) return { ...rest, tool_calls: kept }
  return { ...rest, content: content || partNote }
}

/** Of a call or result; empty for other blocks. */
export function callId({ id, tool_use_id, type, ...block }: Json): string {
  const wrapped = ['toolUse', 'toolResult', 'functionCall', 'functionResponse']
    .map((name) => asRecord(block[name]))
    .map((inner) => inner.toolUseId ?? inner.id)
  const found = [...wrapped, tool_use_id, type === 'tool_use' ? id : undefined]
  return found.find((one) => typeof one === 'string') ?? ''
}

/** Of messages, their blocks and calls, and of tools; never inside of arguments and schemas. */
function withoutMember(body: Json, name: string): Json {
  const drop = (node: Json): Json => {
    if (!(name in node)) return node
    const { [name]: _, ...rest } = node
    return derive(node, rest)
  }
  const dropBlocks = (node: Json): Json => {
    const mapped = mapBlocks(
      drop(node),
      (block) => {
        const kept = dropBlocks(block)
        return kept
      },
      partNote,
    )
    const { tool_calls } = mapped
    if (!Array.isArray(tool_calls) || !tool_calls.some((call) => isRecord(call) && name in call))
      return mapped
    return derive(node, {
      ...mapped,
      tool_calls: tool_calls.map((call) => (isRecord(call) ? drop(call) : call)),
    })
  }
  const system = Array.isArray(body.system)
    ? { ...body, system: body.system.map((block) => (isRecord(block) ? drop(block) : block)) }
    : body
  return mapTools(mapMessages(system, dropBlocks), (tool) => {
    const kept = drop(tool)
    return isRecord(kept.function) && name in kept.function
      ? { ...kept, function: drop(kept.function) }
      : kept
  })
}

function withoutParameter(node: Json, path: readonly string[], most: number | undefined): Json {
  const [name = '', ...rest] = path
  const { [name]: value, ...others } = node
  if (value === undefined) return node
  if (rest.length > 0) {
    const inner = isRecord(value) ? withoutParameter(value, rest, most) : value
    return inner === value ? node : { ...node, [name]: inner }
  }
  if (most === undefined) return others
  return typeof value === 'number' && value > most ? { ...node, [name]: most } : node
}

/** The blocks and reasoning items of a request, newest first. */
export function itemsOf(messages: readonly Json[]): readonly Json[] {
  return messages.toReversed().flatMap((message) => {
    const own = isReasoning(message) || blocksOf(message).length === 0 ? [message] : []
    return [...own, ...blocksOf(message).toReversed()]
  })
}
