import { asRecord, isRecord, parseJsonObject } from '@slipway/shared/json'

type Json = Record<string, unknown>

interface Place {
  /** The path in the body. */
  readonly at: string
}

export interface TextBlock extends Place {
  readonly kind: 'text'
  readonly text: string
  readonly signature?: string | undefined
  readonly isInResult?: boolean
}

export interface PictureBlock extends Place {
  readonly kind: 'picture'
  /** In base64; undefined for an address. */
  readonly data?: string | undefined
  readonly mediaType?: string | undefined
  readonly isInResult?: boolean
}

export interface ReasoningBlock extends Place {
  readonly kind: 'reasoning'
  readonly text: string
  readonly signature?: string | undefined
  /** What stands for a text that is hidden or encrypted. */
  readonly data?: string | undefined
  readonly id?: string | undefined
}

export interface CallBlock extends Place {
  readonly kind: 'call'
  readonly id: string
  readonly name: string
  readonly input: unknown
  readonly signature?: string | undefined
}

export interface ResultBlock extends Place {
  readonly kind: 'result'
  readonly id: string
  readonly name?: string | undefined
}

export type Block = TextBlock | PictureBlock | ReasoningBlock | CallBlock | ResultBlock

export interface Turn extends Place {
  readonly role: string
  readonly blocks: readonly Block[]
  /** As it is in the body. */
  readonly node: Json
}

export interface ToolNode extends Place {
  readonly name: string
  readonly description: unknown
  readonly schema: Json
}

/** A request in one form for the interfaces of all providers. */
export interface WireRequest {
  readonly body: Json
  readonly turns: readonly Turn[]
  readonly tools: readonly ToolNode[]
  /** The number of marks for a cache. */
  readonly marks: number
}

const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.map(asRecord) : [])
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const maybeText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function countMember(node: unknown, name: string): number {
  if (typeof node !== 'object' || node === null) return 0
  const own = isRecord(node) && name in node ? 1 : 0
  return own + Object.values(node).reduce((sum: number, one) => sum + countMember(one, name), 0)
}

function dataUrl(at: string, url: unknown): PictureBlock {
  const [, mediaType, data] = /^data:([^;,]*);base64,(.*)$/s.exec(textOf(url)) ?? []
  return { kind: 'picture', at, data, mediaType }
}

/** Chat completions of OpenAI and of those who follow it. */
export function readChat(body: Json): WireRequest {
  const turns = listOf(body.messages).map((node, index): Turn => {
    const at = `messages.${index}`
    const role = textOf(node.role)
    const reasoning = maybeText(node.reasoning_content)
    const blocks: Block[] = []
    if (reasoning !== undefined)
      blocks.push({ kind: 'reasoning', at: `${at}.reasoning_content`, text: reasoning })
    if (role === 'tool') blocks.push({ kind: 'result', at, id: textOf(node.tool_call_id) })
    blocks.push(...chatContent(`${at}.content`, node.content))
    for (const [call, one] of listOf(node.tool_calls).entries()) {
      const { name, arguments: text } = asRecord(one.function)
      const place = `${at}.tool_calls.${call}`
      const signature = maybeText(asRecord(asRecord(one.extra_content).google).thought_signature)
      blocks.push({
        ...{ kind: 'call', at: place, id: textOf(one.id), name: textOf(name) },
        ...{ input: parseJsonObject(textOf(text)), signature },
      })
    }
    return { at, role, blocks, node }
  })
  const tools = listOf(body.tools).map((tool, index): ToolNode => {
    const { name, description, parameters } = asRecord(tool.function)
    return { at: `tools.${index}`, name: textOf(name), description, schema: asRecord(parameters) }
  })
  return { body, turns, tools, marks: countMember(body.messages, 'cache_control') }
}

function chatContent(at: string, content: unknown): Block[] {
  if (typeof content === 'string') return [{ kind: 'text', at, text: content }]
  return listOf(content).map((part, index) =>
    part.type === 'image_url'
      ? dataUrl(`${at}.${index}`, asRecord(part.image_url).url)
      : { kind: 'text', at: `${at}.${index}`, text: textOf(part.text) },
  )
}

/** Each item is a turn. */
export function readResponses(body: Json): WireRequest {
  const turns = listOf(body.input).map((node, index): Turn => {
    const at = `input.${index}`
    const { type, call_id, name, encrypted_content, id, arguments: text } = node
    if (type === 'function_call') {
      const input = parseJsonObject(textOf(text))
      const call = { kind: 'call', at, id: textOf(call_id), name: textOf(name), input } as const
      return { at, role: 'assistant', blocks: [call], node }
    }
    if (type === 'function_call_output') {
      const result = { kind: 'result', at, id: textOf(call_id) } as const
      return { at, role: 'tool', blocks: [result, ...responsesContent(`${at}.output`, node.output)], node }
    }
    if (type === 'reasoning') {
      const summary = listOf(node.summary).map((part) => textOf(part.text))
      const own = { text: summary.join('\n'), data: maybeText(encrypted_content), id: maybeText(id) }
      return { at, role: 'assistant', blocks: [{ kind: 'reasoning', at, ...own }], node }
    }
    return { at, role: textOf(node.role), blocks: responsesContent(`${at}.content`, node.content), node }
  })
  const tools = listOf(body.tools).map((tool, index): ToolNode => {
    const { name, description, parameters } = tool
    return { at: `tools.${index}`, name: textOf(name), description, schema: asRecord(parameters) }
  })
  return { body, turns, tools, marks: 0 }
}

function responsesContent(at: string, content: unknown): Block[] {
  if (typeof content === 'string') return [{ kind: 'text', at, text: content }]
  return listOf(content).map((part, index) =>
    part.type === 'input_image'
      ? dataUrl(`${at}.${index}`, part.image_url)
      : { kind: 'text', at: `${at}.${index}`, text: textOf(part.text) },
  )
}

export function readAnthropic(body: Json): WireRequest {
  const turns = listOf(body.messages).map((node, index): Turn => {
    const at = `messages.${index}`
    return { at, role: textOf(node.role), blocks: anthropicBlocks(`${at}.content`, node.content), node }
  })
  const tools = listOf(body.tools).map((tool, index): ToolNode => {
    const { name, description, input_schema } = tool
    return { at: `tools.${index}`, name: textOf(name), description, schema: asRecord(input_schema) }
  })
  return { body, turns, tools, marks: countMember(body, 'cache_control') }
}

function anthropicBlocks(at: string, content: unknown, isInResult = false): Block[] {
  if (typeof content === 'string') return [{ kind: 'text', at, text: content, isInResult }]
  return listOf(content).flatMap((block, index): Block[] => {
    const place = `${at}.${index}`
    const { type, text, thinking, signature, data, source, id, name, input, tool_use_id } = block
    if (type === 'thinking')
      return [{ kind: 'reasoning', at: place, text: textOf(thinking), signature: textOf(signature) }]
    if (type === 'redacted_thinking') return [{ kind: 'reasoning', at: place, text: '', data: textOf(data) }]
    if (type === 'tool_use') return [{ kind: 'call', at: place, id: textOf(id), name: textOf(name), input }]
    if (type === 'tool_result') {
      const inner = typeof block.content === 'string' && block.content === '' ? [] : block.content
      const result = { kind: 'result', at: place, id: textOf(tool_use_id) } as const
      return [result, ...anthropicBlocks(`${place}.content`, inner, true)]
    }
    if (type !== 'image') return [{ kind: 'text', at: place, text: textOf(text), isInResult }]
    const image = asRecord(source)
    return [
      {
        kind: 'picture',
        at: place,
        data: maybeText(image.data),
        mediaType: maybeText(image.media_type),
        isInResult,
      },
    ]
  })
}

export function readGemini(body: Json): WireRequest {
  const turns = listOf(body.contents).map((node, index): Turn => {
    const at = `contents.${index}`
    const role = node.role === 'model' ? 'assistant' : textOf(node.role)
    return { at, role, blocks: geminiParts(`${at}.parts`, node.parts), node }
  })
  const tools = listOf(body.tools).flatMap((tool, index) =>
    listOf(tool.functionDeclarations).map((one, at): ToolNode => {
      const schema = asRecord(one.parametersJsonSchema ?? one.parameters)
      const place = `tools.${index}.functionDeclarations.${at}`
      return { at: place, name: textOf(one.name), description: one.description, schema }
    }),
  )
  return { body, turns, tools, marks: 0 }
}

function geminiParts(at: string, parts: unknown): Block[] {
  return listOf(parts).flatMap((part, index): Block[] => {
    const place = `${at}.${index}`
    const signature = maybeText(part.thoughtSignature)
    const { functionCall, functionResponse, inlineData } = part
    if (isRecord(functionCall)) {
      const { id, name, args } = functionCall
      return [{ kind: 'call', at: place, id: textOf(id), name: textOf(name), input: args, signature }]
    }
    if (isRecord(functionResponse)) {
      const { id, name } = functionResponse
      const inner = geminiParts(`${place}.functionResponse.parts`, functionResponse.parts)
      return [{ kind: 'result', at: place, id: textOf(id), name: textOf(name) }, ...inner]
    }
    if (isRecord(inlineData)) {
      const { data, mimeType } = inlineData
      return [{ kind: 'picture', at: place, data: maybeText(data), mediaType: maybeText(mimeType) }]
    }
    if (isRecord(part.fileData)) return [{ kind: 'picture', at: place }]
    const kind = part.thought === true ? 'reasoning' : 'text'
    return [{ kind, at: place, text: textOf(part.text), signature }]
  })
}

export function readBedrock(body: Json): WireRequest {
  const turns = listOf(body.messages).map((node, index): Turn => {
    const at = `messages.${index}`
    return { at, role: textOf(node.role), blocks: bedrockBlocks(`${at}.content`, node.content), node }
  })
  const tools = listOf(asRecord(body.toolConfig).tools).flatMap((tool, index): ToolNode[] => {
    if (!isRecord(tool.toolSpec)) return []
    const { name, description, inputSchema } = tool.toolSpec
    const schema = asRecord(asRecord(inputSchema).json)
    return [{ at: `toolConfig.tools.${index}.toolSpec`, name: textOf(name), description, schema }]
  })
  return { body, turns, tools, marks: countMember(body, 'cachePoint') }
}

function bedrockBlocks(at: string, content: unknown, isInResult = false): Block[] {
  return listOf(content).flatMap((block, index): Block[] => {
    const place = `${at}.${index}`
    const { text, image, toolUse, toolResult, reasoningContent } = block
    if (isRecord(toolUse)) {
      const { toolUseId, name, input } = toolUse
      return [{ kind: 'call', at: place, id: textOf(toolUseId), name: textOf(name), input }]
    }
    if (isRecord(toolResult)) {
      const inner = bedrockBlocks(`${place}.toolResult.content`, toolResult.content, true)
      return [{ kind: 'result', at: place, id: textOf(toolResult.toolUseId) }, ...inner]
    }
    if (isRecord(reasoningContent)) return [bedrockReasoning(place, reasoningContent)]
    if (isRecord(image)) {
      const data = maybeText(asRecord(image.source).bytes)
      return [{ kind: 'picture', at: place, data, mediaType: `image/${textOf(image.format)}`, isInResult }]
    }
    return 'cachePoint' in block ? [] : [{ kind: 'text', at: place, text: textOf(text), isInResult }]
  })
}

function bedrockReasoning(at: string, { reasoningText, redactedContent, ...rest }: Json): ReasoningBlock {
  if (!isRecord(reasoningText)) {
    const data = maybeText(redactedContent) ?? maybeText(asRecord(rest.redactedReasoning).data)
    return { kind: 'reasoning', at, text: '', data }
  }
  const { text, signature } = reasoningText
  return { kind: 'reasoning', at, text: textOf(text), signature: textOf(signature) }
}
