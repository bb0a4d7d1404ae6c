/**
 * Reads requests below `/v1`.
 *
 * Idea: a member is done, or refused by name; none is ignored. So what a request may have is a closed table:
 * members that change the run, labels that are stored with it, and members that are allowed at the one value
 * that changes nothing.
 */

import { findTool } from '@slipway/agent'
import {
  type ChatRequest,
  type ClientTool,
  clientTool,
  type ResponsesRequest,
  readOutputSchema,
  refusedMember,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { type GatewayPrompt, parseChatPrompt, parseResponsesPrompt } from './prompt.ts'

/** What a request changes of the settings of its conversation. */
export interface RequestOptions {
  /** Members of the model. */
  readonly llm: Readonly<Record<string, unknown>>
  readonly clientTools: readonly ClientTool[] | undefined
  /** The answer has to be a call of one of these tools. */
  readonly requiredTools: readonly string[] | undefined
  readonly responseSchema: Readonly<Record<string, unknown>> | undefined
  /** The answer ends before the first of these texts. */
  readonly stop: readonly string[]
}

export interface GatewayRequest {
  readonly model: string
  readonly prompt: GatewayPrompt
  readonly options: RequestOptions
  /** False: nothing is left of it at its end. */
  readonly isStored: boolean
  readonly previousResponseId?: string | undefined
}

type JsonObject = Readonly<Record<string, unknown>>
type AllowedValues = Readonly<Record<string, ((value: unknown) => boolean) | undefined>>

/** Members of the model that requests replace. */
export const replaceableMembers = [
  'temperature',
  'top_p',
  'max_output_tokens',
  'reasoning_effort',
  'seed',
] as const

const isZero = (value: unknown) => value === 0
const isFalse = (value: unknown) => value === false
const isEmpty = (value: unknown) => isRecord(value) && Object.keys(value).length === 0
const isTier = (value: unknown) => value === 'auto' || value === 'default'

/** What other members may say without asking for anything; null means absent. */
const harmless: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => value === 1,
  logprobs: isFalse,
  top_logprobs: isZero,
  presence_penalty: isZero,
  frequency_penalty: isZero,
  logit_bias: isEmpty,
  service_tier: isTier,
  verbosity: (value) => value === 'medium',
  modalities: (value) => Array.isArray(value) && value.every((one) => one === 'text'),
  // No reasoning is shown, so there is none to be encrypted.
  include: (value) => Array.isArray(value) && value.every((one) => one === 'reasoning.encrypted_content'),
}

const commonMembers = [
  ...['model', 'stream', 'stream_options', 'tools', 'tool_choice', 'parallel_tool_calls', 'store'],
  ...['temperature', 'top_p', 'metadata', 'user', 'safety_identifier', 'prompt_cache_key'],
]
const chatMembers = new Set([
  ...commonMembers,
  ...[
    'messages',
    'response_format',
    'max_tokens',
    'max_completion_tokens',
    'stop',
    'reasoning_effort',
    'seed',
  ],
])
const responsesMembers = new Set([
  ...commonMembers,
  ...['input', 'instructions', 'previous_response_id', 'background', 'text', 'max_output_tokens'],
  ...['reasoning', 'truncation'],
])

export function readChatRequest(body: ChatRequest): GatewayRequest {
  const { tools, tool_choice: choice, response_format: format, stop = [] } = body
  assertKnown(body, chatMembers)
  const functions = (tools ?? []).map((tool, index) => {
    if (tool.type === 'function' && isRecord(tool.function)) return tool.function
    throw refusedMember(`tools[${index}].type`, `Only tools of type 'function' are supported`)
  })
  const named = isRecord(choice)
    ? { ...choice, ...Object(choice.function), ...Object(choice.allowed_tools) }
    : choice
  return {
    model: body.model,
    prompt: parseChatPrompt(body),
    isStored: body.store !== false,
    options: {
      llm: {
        ...samplingOf(body),
        max_output_tokens: body.max_completion_tokens ?? body.max_tokens,
        reasoning_effort: body.reasoning_effort,
        seed: body.seed,
      },
      ...readTools(functions, named, (index) => `tools[${index}].function`),
      responseSchema: readFormat(format && { ...format, ...Object(format.json_schema) }, 'response_format'),
      stop: typeof stop === 'string' ? [stop] : stop.filter((text) => text !== ''),
    },
  }
}

export function readResponsesRequest(body: ResponsesRequest): GatewayRequest {
  const { tools, tool_choice: choice, text, reasoning, store, background } = body
  assertKnown(body, responsesMembers)
  assertMembers(text, 'text', { format: () => true, verbosity: harmless.verbosity })
  assertMembers(reasoning, 'reasoning', {
    effort: () => true,
    summary: () => true,
    generate_summary: () => true,
  })
  if (background && store === false)
    throw refusedMember('background', 'A response in the background has to be stored')
  const functions = (tools ?? []).map((tool, index) => {
    if (tool.type === 'function') return tool
    throw refusedMember(`tools[${index}].type`, `Only tools of type 'function' are supported`)
  })
  return {
    model: body.model,
    prompt: parseResponsesPrompt(body),
    isStored: store !== false,
    previousResponseId: body.previous_response_id,
    options: {
      llm: {
        ...samplingOf(body),
        max_output_tokens: body.max_output_tokens,
        reasoning_effort: reasoning?.effort,
      },
      ...readTools(functions, choice, (index) => `tools[${index}]`),
      responseSchema: readFormat(text?.format, 'text.format'),
      stop: [],
    },
  }
}

function samplingOf({ temperature, top_p }: Pick<ChatRequest, 'temperature' | 'top_p'>) {
  return { temperature, top_p }
}

/** A Problem with the first member that asks for what is not done. */
function assertKnown(body: JsonObject, known: ReadonlySet<string>): void {
  for (const [name, value] of Object.entries(body)) {
    if (known.has(name) || value === undefined || value === null || allows(harmless, name, value)) continue
    const isKnown = Object.hasOwn(harmless, name)
    const what = isKnown ? `'${name}' with this value` : `'${firstChars(name, 100)}'`
    throw refusedMember(firstChars(name, 100), `${what} is not supported`)
  }
  const { parallel_tool_calls: parallel, tools, stream_options: options } = body
  if (parallel === false && Array.isArray(tools) && tools.length > 0)
    throw refusedMember('parallel_tool_calls', 'The model may call several tools at once')
  assertMembers(options, 'stream_options', { include_usage: () => true, include_obfuscation: isFalse })
}

/** Names that every object inherits are unknown too. */
function allows(known: AllowedValues, name: string, value: unknown): boolean {
  return Object.hasOwn(known, name) && known[name]?.(value) === true
}

function assertMembers(value: unknown, place: string, known: AllowedValues): void {
  for (const [name, member] of Object.entries(isRecord(value) ? value : {}))
    if (member !== undefined && member !== null && !allows(known, name, member))
      throw refusedMember(`${place}.${name}`, `'${place}.${name}' with this value is not supported`)
}

function readTools(
  functions: readonly JsonObject[],
  choice: unknown,
  place: (index: number) => string,
): Pick<RequestOptions, 'clientTools' | 'requiredTools'> {
  const tools = functions.map((tool, index) => readTool(tool, place(index)))
  const names = tools.map(({ name }) => name)
  names.forEach((name, index) => {
    if (names.indexOf(name) < index) throw refusedMember(`${place(index)}.name`, `Duplicate tool '${name}'`)
  })
  const wanted = readChoice(choice, names)
  const offered = tools.filter(({ name }) => wanted.names.includes(name))
  return {
    clientTools: offered.length === 0 ? undefined : offered,
    requiredTools: wanted.isRequired ? wanted.names : undefined,
  }
}

function readTool({ name, description, parameters }: JsonObject, place: string): ClientTool {
  // Without parameters it takes none.
  const schema = isRecord(parameters)
    ? { properties: {}, ...parameters, type: parameters.type ?? 'object' }
    : { type: 'object', properties: {} }
  const { data, error } = clientTool.safeParse({ name, description: description ?? '', parameters: schema })
  const [issue] = error?.issues ?? []
  if (data === undefined)
    throw refusedMember([place, ...(issue?.path ?? [])].join('.'), issue?.message ?? 'Invalid tool')
  if (findTool(data.name) !== undefined)
    throw refusedMember(`${place}.name`, `The name '${data.name}' is that of a tool of the agent`)
  return data
}

/** Which of the tools may be called, and whether one has to be. */
function readChoice(choice: unknown, names: readonly string[]) {
  const { type, name, mode, tools } = Object(choice)
  if (choice === undefined || choice === null || choice === 'auto') return { names, isRequired: false }
  if (choice === 'none') return { names: [], isRequired: false }
  if (choice === 'required' && names.length > 0) return { names, isRequired: true }
  if (type === 'function' && names.includes(name)) return { names: [name], isRequired: true }
  const allowed: unknown[] = Array.isArray(tools) ? tools : []
  const allowedNames = names.filter((one) =>
    allowed.some((tool) => one === (Object(tool).name ?? Object(Object(tool).function).name)),
  )
  if (type === 'allowed_tools' && allowed.length > 0 && allowedNames.length === allowed.length)
    return { names: mode === 'none' ? [] : allowedNames, isRequired: mode === 'required' }
  throw refusedMember('tool_choice', 'It names no tool of the request')
}

function readFormat(format: JsonObject | undefined, place: string): JsonObject | undefined {
  if (format === undefined || format.type === 'text') return undefined
  if (format.type === 'json_object') return { type: 'object' }
  if (format.type !== 'json_schema') throw refusedMember(`${place}.type`, 'Unknown format')
  if (!isRecord(format.schema)) throw refusedMember(`${place}.schema`, 'The schema is missing')
  const schema = readOutputSchema(format.schema)
  if ('issue' in schema) throw refusedMember(`${place}.schema`, schema.issue)
  return format.schema
}
