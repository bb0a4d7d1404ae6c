import { hash } from 'node:crypto'
import { asRecord, isRecord } from '@slipway/shared/json'

/**
 * The body of a request as it goes over the wire, in the forms of all providers: chats (`messages`), Responses
 * (`input`), Anthropic, Gemini (`contents` of `parts`) and Bedrock. A refusal names its place in it.
 */
export type Json = Record<string, unknown>

const lists = ['messages', 'input', 'contents'] as const
const partLists = ['content', 'parts', 'output'] as const
/** Members of a block in which its own parts are (Bedrock, Gemini). */
const wrappers = ['toolResult', 'functionResponse'] as const

function listName(body: Json): (typeof lists)[number] | undefined {
  return lists.find((name) => Array.isArray(body[name]))
}

/** The messages of a request, or the items of `input`. */
export function messagesOf(body: Json): readonly Json[] {
  const name = listName(body)
  return name === undefined ? [] : (body[name] as unknown[]).filter(isRecord) // it is an array
}

export function withMessages(body: Json, messages: readonly Json[]): Json {
  const name = listName(body)
  const isSame = messagesOf(body).every((one, at) => one === messages[at])
  if (name === undefined || (isSame && messages.length === messagesOf(body).length)) return body
  return { ...body, [name]: messages }
}

const digests = new WeakMap<object, string>()

/**
 * The digest by which a message or block is known in each later request. Marks for caches move from block to
 * block, and with them a text becomes a list of one.
 */
export function digestOf(node: object): string {
  const known = digests.get(node)
  if (known !== undefined) return known
  const text = JSON.stringify(node, (name, value: unknown) => {
    if (name === 'cache_control') return undefined
    if (name === 'content' && typeof value === 'string') return [{ type: 'text', text: value }]
    return Array.isArray(value) ? value.filter((one) => !isRecord(one) || !('cachePoint' in one)) : value
  })
  const digest = hash('sha256', text).slice(0, 16)
  digests.set(node, digest)
  return digest
}

/** `changed` stands for `node` and keeps its digest. */
export function derive(node: object, changed: Json): Json {
  digests.set(changed, digestOf(node))
  return changed
}

export function isPicture({ type, ...block }: Json): boolean {
  if (typeof type === 'string') return ['image', 'image_url', 'input_image'].includes(type)
  return 'image' in block || 'inlineData' in block || 'fileData' in block
}

export function isReasoning({ type, ...block }: Json): boolean {
  if (typeof type === 'string') return ['thinking', 'redacted_thinking', 'reasoning'].includes(type)
  return 'reasoningContent' in block || block.thought === true
}

export function isCall({ type, ...block }: Json): boolean {
  return type === 'tool_use' || type === 'function_call' || 'toolUse' in block || 'functionCall' in block
}

export function isResult({ type, ...block }: Json): boolean {
  if (type === 'tool_result' || type === 'function_call_output') return true
  return 'toolResult' in block || 'functionResponse' in block
}

/** The parts of a message or block, those of its results included. */
export function blocksOf(node: Json): readonly Json[] {
  const own = partLists.flatMap((name) => (Array.isArray(node[name]) ? node[name].filter(isRecord) : []))
  const wrapped = wrappers.flatMap((name) => (isRecord(node[name]) ? blocksOf(node[name]) : []))
  return [...own.flatMap((block) => [block, ...blocksOf(block)]), ...wrapped]
}

/** A text in the form of another block of the same list. */
export function textLike(sample: unknown, text: string): Json {
  const { type } = asRecord(sample)
  if (typeof type !== 'string') return { text }
  if (type === 'output_text') return { type, text }
  return { type: type.startsWith('input_') ? 'input_text' : 'text', text }
}

/** Replaces each block by what `map` returns; undefined removes it. `emptied` stands in an emptied list. */
export function mapBlocks(node: Json, map: (block: Json) => Json | undefined, emptied: string): Json {
  let next = node
  for (const name of partLists) {
    const list = node[name]
    if (!Array.isArray(list)) continue
    const mapped = list.flatMap((block: unknown) => {
      if (!isRecord(block)) return [block]
      const kept = map(block)
      if (kept === undefined) return []
      return [kept === block ? mapBlocks(block, map, emptied) : derive(block, kept)]
    })
    const isSame = mapped.length === list.length && mapped.every((one, at) => one === list[at])
    if (!isSame) next = { ...next, [name]: mapped.length === 0 ? [textLike(list[0], emptied)] : mapped }
  }
  for (const name of wrappers) {
    const inner = node[name]
    const mapped = isRecord(inner) ? mapBlocks(inner, map, emptied) : inner
    if (mapped !== inner) next = { ...next, [name]: mapped }
  }
  return next === node ? node : derive(node, next)
}

/** The latest message of the user: results of tools alone are none. */
export function lastUserMessage(body: Json): Json | undefined {
  return messagesOf(body).findLast((message) => {
    if (message.role !== 'user') return false
    const { content = message.parts } = message
    return !Array.isArray(content) || content.some((block) => isRecord(block) && !isResult(block))
  })
}

export interface ToolEntry {
  readonly name: string
  readonly schema: Json | undefined
}

/** Where a tool is described, in the forms of all providers. */
function toolBody(tool: Json): { readonly body: Json; readonly schemaName: string } {
  if (isRecord(tool.function)) return { body: tool.function, schemaName: 'parameters' }
  if (isRecord(tool.toolSpec)) return { body: tool.toolSpec, schemaName: 'inputSchema' }
  const names = ['input_schema', 'parametersJsonSchema']
  return { body: tool, schemaName: names.find((name) => name in tool) ?? 'parameters' }
}

export function toolEntry(tool: Json): ToolEntry | undefined {
  const { body, schemaName } = toolBody(tool)
  if (typeof body.name !== 'string') return undefined
  const schema = body[schemaName]
  const json = isRecord(schema) && isRecord(schema.json) ? schema.json : schema
  return { name: body.name, schema: isRecord(json) ? json : undefined }
}

export function toolsOf(body: Json): readonly ToolEntry[] {
  const found: ToolEntry[] = []
  mapTools(body, (tool) => {
    const entry = toolEntry(tool)
    if (entry !== undefined) found.push(entry)
    return tool
  })
  return found
}

/** Replaces each tool by what `map` returns; undefined removes it. */
export function mapTools(body: Json, map: (tool: Json) => Json | undefined): Json {
  const mapList = (list: unknown): unknown =>
    Array.isArray(list)
      ? list.flatMap((tool: unknown) => {
          if (!isRecord(tool)) return [tool]
          const { functionDeclarations: inner } = tool
          const mapped = inner === undefined ? map(tool) : { ...tool, functionDeclarations: mapList(inner) }
          return mapped === undefined ? [] : [mapped]
        })
      : list
  const config = body.toolConfig
  const tools = isRecord(config) && Array.isArray(config.tools) ? config.tools : body.tools
  const mapped = mapList(tools)
  if (JSON.stringify(mapped) === JSON.stringify(tools)) return body
  if (isRecord(config) && Array.isArray(config.tools))
    return { ...body, toolConfig: { ...config, tools: mapped } }
  return { ...body, tools: mapped }
}

export function withSchema(tool: Json, schema: Json): Json {
  const { body, schemaName } = toolBody(tool)
  const value = isRecord(tool.toolSpec) ? { json: schema } : schema
  const changed = { ...body, [schemaName]: value }
  if (isRecord(tool.function)) return { ...tool, function: changed }
  return isRecord(tool.toolSpec) ? { ...tool, toolSpec: changed } : changed
}
