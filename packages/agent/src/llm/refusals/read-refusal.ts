import { isRecord } from '@slipway/shared/json'
import { namedWindows } from './named-window.ts'
import { callId, itemsOf, type Omission } from './omissions.ts'
import refusalWordings from './refusal-wordings.json' with { type: 'json' }
import {
  blocksOf,
  digestOf,
  isCall,
  isReasoning,
  type Json,
  messagesOf,
  toolEntry,
  toolsOf,
} from './request-body.ts'

/**
 * What a refusal names: parameters, members, places (`messages.7.content.2`), tools, ids. Each function returns
 * omissions that would leave it out, the likeliest first.
 */

export type About = 'final' | 'tools' | 'item' | 'vision' | 'picture' | 'effort' | 'reasoning' | 'schema'

const wordings = refusalWordings.map(({ about, patterns }) => ({
  about,
  patterns: patterns.map((pattern) => new RegExp(pattern, 'is')),
}))

export function isAbout(text: string, about: About): boolean {
  return wordings.some((one) => one.about === about && one.patterns.some((pattern) => pattern.test(text)))
}

/** Without these there is no request. */
const essential = new Set([
  ...['model', 'messages', 'input', 'contents', 'system', 'systemInstruction', 'instructions'],
  ...['tools', 'toolConfig', 'stream', 'store'],
])
const containers = ['generationConfig', 'inferenceConfig', 'additionalModelRequestFields']
const effortParameters = [
  ...['reasoning_effort', 'reasoning', 'thinking', 'output_config', 'enable_thinking', 'think'],
  ...['thinkingConfig', 'reasoningConfig'],
]

/** Names of the optional parameters of a body; those of containers with a dot. */
export function parametersOf(body: Json): readonly string[] {
  return Object.entries(body).flatMap(([name, value]) => {
    if (essential.has(name)) return []
    const inner = containers.includes(name) && isRecord(value) ? Object.keys(value) : undefined
    return inner === undefined ? [name] : inner.map((one) => `${name}.${one}`)
  })
}

/** Names in two spellings are one: `maxTokens`, `max_tokens`. */
const fold = (name: string) => name.replaceAll('_', '').toLowerCase()

/** Words that stand in a text for themselves, unless they are quoted or begin a path. */
const plainWords =
  /^(?:text|user|metadata|include|stop|n|thinking|reasoning|think|source|index|status|name|title|cache)$/

/** Where a text names something as code; -1 when it does not. */
function mentionOf(text: string, name: string): number {
  const words = name
    .split(/_|(?=[A-Z])/)
    .map((word) => word.toLowerCase())
    .join('_?')
  const isPlain = plainWords.test(name)
  const pattern = isPlain
    ? `["'\`]${words}(?:\\.\\w+)*["'\`]|(?:^|body\\.)${words}[:.]|\\b${words}\\.\\w|(?:parameter|field|argument):? ${words}\\b`
    : `(?<![\\w])${words}(?![\\w])`
  return new RegExp(pattern, 'im').exec(text)?.index ?? -1
}

export function namedParameters(body: Json, text: string): readonly Omission[] {
  const [place = ''] = text.split('\n')
  const own = parametersOf(body).filter((path) => place === path || place.startsWith(`${path}.`))
  const found = parametersOf(body).flatMap((path) => {
    const name = path.slice(path.indexOf('.') + 1)
    const value = valueAt(body, path)
    const inner = isRecord(value) ? Object.keys(value) : []
    const at = [name, ...inner].map((one) => mentionOf(text, one)).find((one) => one >= 0)
    return at === undefined ? [] : [{ path, at }]
  })
  const limited = parametersOf(body).filter(
    (path) => /max.*tokens/i.test(path) && /max(?:imum)?[ _-]?(?:\w+[ _-])?tokens|output tokens/i.test(text),
  )
  const effort = isAbout(text, 'effort')
    ? parametersOf(body).filter((path) => effortParameters.includes(path.slice(path.indexOf('.') + 1)))
    : []
  const paths = [...own, ...found.sort((a, b) => a.at - b.at).map(({ path }) => path), ...limited, ...effort]
  return [...new Set(paths)].flatMap((name) => parameterOmission(body, name, text))
}

/**
 * A limit of the reply that a refusal for the window names: input and output together are too much. Its share
 * of the window does not depend on this prompt, since a short one would leave long replies to no later
 * request.
 */
export function namedOutputLimits(body: Json, text: string): readonly Omission[] {
  const numbers = numbersIn(text)
  const [window] = namedWindows(text)
  return parametersOf(body).flatMap((name): readonly Omission[] => {
    const present = valueAt(body, name)
    if (!/max.*tokens/i.test(name) || typeof present !== 'number' || !numbers.includes(present)) return []
    const without: readonly Omission[] = isNeeded(body) ? [] : [{ kind: 'parameter', name }]
    if (window === undefined) return without
    const prompt = Math.max(0, ...numbers.filter((number) => number < window && number !== present))
    const half = Math.floor(window / 2)
    const shares = [half, Math.floor(window / 4)].filter((share) => share < present)
    // A prompt for which no share is small enough is too long on its own.
    const value = shares.find((share) => prompt + share <= window) ?? (half < present ? half : undefined)
    return value === undefined ? [] : [{ kind: 'parameter', name, value }]
  })
}

function valueAt(body: Json, path: string): unknown {
  return path.split('.').reduce<unknown>((node, name) => (isRecord(node) ? node[name] : undefined), body)
}

/** A limit of tokens is lowered to the number that the refusal names, else left out; Anthropic needs one. */
function parameterOmission(body: Json, name: string, text: string): readonly Omission[] {
  const present = valueAt(body, name)
  if (!/max.*tokens/i.test(name) || typeof present !== 'number') return [{ kind: 'parameter', name }]
  const most = Math.max(...numbersIn(text).filter((number) => number < present && number >= minOutput))
  const lowered = most > 0 ? [{ kind: 'parameter', name, value: most } as const] : []
  return isNeeded(body) ? lowered : [...lowered, { kind: 'parameter', name }]
}

function numbersIn(text: string): readonly number[] {
  return [...text.matchAll(/(?<![\w.-])\d[\d,]*\d(?![\w.-]*\w)/g)].map(([digits]) =>
    Number(digits.replaceAll(',', '')),
  )
}

const minOutput = 16
const isNeeded = (body: Json) =>
  'max_tokens' in body && (body.anthropic_version !== undefined || 'system' in body)

const essentialMembers = new Set([
  ...['role', 'content', 'parts', 'type', 'text', 'id', 'name', 'tool_calls', 'function', 'arguments'],
  ...['input', 'output', 'tool_call_id', 'tool_use_id', 'call_id', 'image_url', 'source', 'inlineData'],
  ...['parameters', 'input_schema', 'toolUse', 'toolResult', 'toolSpec', 'functionCall', 'functionResponse'],
  ...['thinking', 'signature', 'data', 'encrypted_content', 'summary', 'image'],
])

/** Members of messages, blocks, calls and tools that a refusal names. */
export function namedMembers(body: Json, text: string): readonly Omission[] {
  const names = new Set<string>()
  const add = (node: unknown) => {
    if (isRecord(node)) for (const name of Object.keys(node)) if (!essentialMembers.has(name)) names.add(name)
  }
  for (const message of messagesOf(body)) {
    for (const node of [message, ...blocksOf(message)]) add(node)
    if (Array.isArray(message.tool_calls)) message.tool_calls.forEach(add)
  }
  if (Array.isArray(body.system)) body.system.forEach(add)
  if (Array.isArray(body.tools))
    for (const tool of body.tools) for (const node of [tool, isRecord(tool) && tool.function]) add(node)
  return [...names]
    .map((name) => ({ name, at: mentionOf(text, name) }))
    .filter(({ at }) => at >= 0)
    .map(({ name }) => ({ kind: 'member', name }))
}

const placePattern =
  /\b(messages|input|contents|tools)\b["'`\]]*\s?(?:->|[.[/])\s?["'`.[]*\d+(?:["'`\]]*\s?(?:->|[.[/])?\s?["'`.[]*[A-Za-z_$]\w*|["'`\]]*\s?(?:->|[.[/])\s?["'`.[]*\d+)*/gi
const indexPattern = /\bmessages?(?: at)?(?: index| position| #|\[)\s?(\d+)/gi

/** Omissions for the places that a refusal names, narrowest first. */
export function namedPlaces(body: Json, text: string): readonly Omission[] {
  const paths = [...text.matchAll(placePattern)].map(([path]) => path.match(/\w+/g) ?? [])
  const indexes = [...text.matchAll(indexPattern)].map(([, index = '']) => ['messages', index])
  return [...paths, ...indexes].flatMap((path) => omissionsAt(body, path))
}

function omissionsAt(body: Json, path: readonly string[]): readonly Omission[] {
  const [list = '', ...rest] = path
  const isTool = list.toLowerCase() === 'tools'
  const config = isRecord(body.toolConfig) ? body.toolConfig.tools : undefined
  let node: unknown = isTool ? (config ?? body.tools) : messagesOf(body)
  // Bedrock counts from 1 where it says `member`.
  const shift = rest.includes('member') ? 1 : 0
  const found: Omission[] = []
  for (const token of rest) {
    if (Array.isArray(node)) node = /^\d+$/.test(token) ? node[Number(token) - shift] : node
    else if (isRecord(node)) {
      const name = Object.keys(node).find((one) => fold(one) === fold(token))
      if (name !== undefined) node = node[name]
    }
    if (isRecord(node) && !(isTool && found.length > 0))
      found.unshift(...omissionsOf(node, isTool, messagesOf(body).includes(node)))
  }
  return found
}

/** What would leave out a node of a body. */
function omissionsOf(node: Json, isTool: boolean, isMessage: boolean): readonly Omission[] {
  if (isTool) {
    const { name, schema } = toolEntry(node) ?? {}
    if (name === undefined) return []
    return [...(schema === undefined ? [] : ([{ kind: 'schema', name }] as const)), { kind: 'tool', name }]
  }
  if (isMessage) {
    const id = node.tool_call_id ?? node.call_id
    return [
      itemOmission(node, true),
      ...(typeof id === 'string' ? ([{ kind: 'call', name: id }] as const) : []),
    ]
  }
  if (typeof node.id === 'string' && isRecord(node.function)) return [{ kind: 'call', name: node.id }]
  const isBlock = 'type' in node || 'text' in node || isCall(node) || callId(node) !== ''
  const isBare = isReasoning(node) || 'inlineData' in node || 'image' in node || 'functionResponse' in node
  return isBlock || isBare ? [itemOmission(node, false)] : []
}

/** A message, or a block; an item of reasoning is one. */
export function itemOmission(node: Json, isMessage: boolean): Omission {
  return { kind: isMessage && !isReasoning(node) ? 'message' : 'block', name: digestOf(node) }
}

/** Calls whose ids a refusal names. */
export function namedCalls(body: Json, text: string): readonly Omission[] {
  const ids = messagesOf(body).flatMap((message) => [
    ...[message.tool_call_id, message.call_id],
    ...(Array.isArray(message.tool_calls) ? message.tool_calls.map((call) => isRecord(call) && call.id) : []),
    ...blocksOf(message).map(callId),
  ])
  return [...new Set(ids)]
    .filter((id): id is string => typeof id === 'string' && id.length > 2 && text.includes(id))
    .map((name) => ({ kind: 'call', name }))
}

/** Tools whose names a refusal has as code, or after a word for them. */
export function namedTools(body: Json, text: string): readonly Omission[] {
  return toolsOf(body).flatMap(({ name, schema }) => {
    const word = RegExp.escape(name)
    const pattern = `["'\`]${word}["'\`]|\\b(?:tool|function)s?:? ${word}\\b`
    if (!new RegExp(pattern).test(text)) return []
    return [...(schema === undefined ? [] : ([{ kind: 'schema', name }] as const)), { kind: 'tool', name }]
  })
}

const fragmentPattern = /[\w+/=:-]{10,}/g

/** Blocks and messages with an id, a signature or another long word of the refusal, newest first. */
export function quotedItems(messages: readonly Json[], text: string): readonly Omission[] {
  const fragments = (text.match(fragmentPattern) ?? []).filter((one) => /\d/.test(one) && /[a-z]/i.test(one))
  if (fragments.length === 0) return []
  return itemsOf(messages)
    .filter((item) => {
      const json = JSON.stringify(item)
      return fragments.some((fragment) => json.includes(fragment))
    })
    .slice(0, 2)
    .map((item) => itemOmission(item, messages.includes(item)))
}
