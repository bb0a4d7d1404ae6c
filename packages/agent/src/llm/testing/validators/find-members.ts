import * as z from 'zod'
import type { Rule } from './rule.ts'

/** Requests as a provider documents them: members that it does not name are refused. */
export function unknownMembers(schema: z.ZodType): Rule['find'] {
  return ({ body }) => {
    const { error } = schema.safeParse(body)
    return (error?.issues ?? []).map((issue) => ({
      at: [...issue.path.map(String), ...('keys' in issue ? issue.keys : [])].join('.'),
      what: issue.message,
    }))
  }
}

const anyText = z.string()
const anySchema = z.record(anyText, z.unknown())
const mark = z.strictObject({ type: z.literal('ephemeral') }).optional()

interface ChatDialect {
  /** Members of the request beside `model`, `messages`, `stream`, `tools` and `temperature`. */
  readonly members: Readonly<Record<string, z.ZodType>>
  /** Members of an answer in the history. */
  readonly answer?: Readonly<Record<string, z.ZodType>>
  /** Contents are texts alone. */
  readonly isTextOnly?: boolean
  /** A text beside calls may be null. */
  readonly hasNull?: boolean
}

export const chatMembers = {
  effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh']).optional(),
  number: z.number().optional(),
  limit: z.int().min(1).optional(),
  seed: z.int().optional(),
  streamOptions: z.strictObject({ include_usage: z.boolean() }).optional(),
  toolChoice: z.enum(['none', 'auto', 'required']).optional(),
  text: anyText.optional(),
}

export function chatSchema({ members, answer = {}, isTextOnly, hasNull = true }: ChatDialect): z.ZodType {
  const text = z.strictObject({ type: z.literal('text'), text: anyText })
  const image = z.strictObject({
    type: z.literal('image_url'),
    image_url: z.strictObject({ url: anyText }),
  })
  const texts = isTextOnly ? anyText : z.union([anyText, z.array(text).min(1)])
  const parts = isTextOnly ? anyText : z.union([anyText, z.array(z.union([text, image])).min(1)])
  const call = z.strictObject({
    id: anyText,
    type: z.literal('function'),
    function: z.strictObject({ name: anyText, arguments: anyText }),
  })
  const message = z.discriminatedUnion('role', [
    z.strictObject({ role: z.enum(['system', 'developer']), content: texts }),
    z.strictObject({ role: z.literal('user'), content: parts }),
    z.strictObject({
      role: z.literal('assistant'),
      content: hasNull ? texts.nullable() : texts,
      tool_calls: z.array(call).min(1).optional(),
      ...answer,
    }),
    z.strictObject({ role: z.literal('tool'), content: texts, tool_call_id: anyText }),
  ])
  const tool = z.strictObject({
    type: z.literal('function'),
    function: z.strictObject({ name: anyText, description: anyText.optional(), parameters: anySchema }),
  })
  return z.strictObject({
    ...{ model: anyText, messages: z.array(message).min(1), stream: z.literal(true) },
    ...{ temperature: z.number().min(0).max(2).optional(), tools: z.array(tool).min(1).optional() },
    ...members,
  })
}

export const responsesSchema = (() => {
  const text = z.strictObject({ type: z.enum(['input_text', 'output_text']), text: anyText })
  const image = z.strictObject({ type: z.literal('input_image'), image_url: anyText })
  const parts = z.union([anyText, z.array(z.union([text, image])).min(1)])
  const item = z.union([
    z.strictObject({ role: z.enum(['system', 'developer', 'user']), content: parts }),
    z.strictObject({
      role: z.literal('assistant'),
      content: z.union([anyText, z.array(text)]),
      phase: z.enum(['commentary', 'final_answer']).optional(),
    }),
    z.strictObject({
      ...{ type: z.literal('function_call'), call_id: anyText, name: anyText, arguments: anyText },
    }),
    z.strictObject({ type: z.literal('function_call_output'), call_id: anyText, output: parts }),
    z.strictObject({
      ...{ type: z.literal('reasoning'), id: anyText.optional(), encrypted_content: anyText },
      summary: z.array(z.strictObject({ type: z.literal('summary_text'), text: anyText })),
    }),
  ])
  const tool = z.strictObject({
    ...{ type: z.literal('function'), name: anyText, description: anyText.optional() },
    ...{ parameters: anySchema, strict: z.boolean() },
  })
  return z.strictObject({
    ...{ model: anyText, input: z.array(item).min(1), stream: z.literal(true), store: z.literal(false) },
    ...{ temperature: z.number().optional(), top_p: z.number().optional() },
    max_output_tokens: z.int().min(16).optional(),
    include: z.array(anyText).optional(),
    reasoning: z
      .strictObject({ effort: anyText.optional(), summary: anyText.nullable().optional() })
      .optional(),
    tools: z.array(tool).min(1).optional(),
    tool_choice: chatMembers.toolChoice,
    prompt_cache_key: anyText.optional(),
    prompt_cache_retention: anyText.optional(),
  })
})()

export const anthropicSchema = (() => {
  const text = z.strictObject({ type: z.literal('text'), text: anyText.min(1), cache_control: mark })
  const source = z.union([
    z.strictObject({ type: z.literal('base64'), media_type: anyText, data: anyText }),
    z.strictObject({ type: z.literal('url'), url: anyText }),
  ])
  const image = z.strictObject({ type: z.literal('image'), source, cache_control: mark })
  const block = z.discriminatedUnion('type', [
    text,
    image,
    z.strictObject({ type: z.literal('thinking'), thinking: anyText, signature: anyText }),
    z.strictObject({ type: z.literal('redacted_thinking'), data: anyText }),
    z.strictObject({
      ...{ type: z.literal('tool_use'), id: anyText, name: anyText, input: anySchema, cache_control: mark },
    }),
    z.strictObject({
      ...{ type: z.literal('tool_result'), tool_use_id: anyText, cache_control: mark },
      content: z.union([anyText, z.array(z.discriminatedUnion('type', [text, image]))]).optional(),
      is_error: z.boolean().optional(),
    }),
  ])
  const message = z.strictObject({ role: z.enum(['user', 'assistant']), content: z.array(block).min(1) })
  const tool = z.strictObject({
    ...{ name: anyText, description: anyText.optional(), input_schema: anySchema, cache_control: mark },
  })
  return z.strictObject({
    ...{ model: anyText, messages: z.array(message).min(1), max_tokens: z.int().min(1) },
    stream: z.literal(true),
    system: z.array(text).optional(),
    ...{ temperature: z.number().min(0).max(1).optional(), top_p: z.number().optional() },
    top_k: z.int().optional(),
    thinking: z
      .union([
        z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1024) }),
        z.strictObject({ type: z.literal('adaptive'), display: anyText.optional() }),
        z.strictObject({ type: z.literal('disabled') }),
      ])
      .optional(),
    output_config: z.strictObject({ effort: anyText.optional() }).optional(),
    tools: z.array(tool).min(1).optional(),
    tool_choice: z.strictObject({ type: z.enum(['auto', 'any', 'none']) }).optional(),
  })
})()

export const geminiSchema = (() => {
  const blob = z.strictObject({ mimeType: anyText, data: anyText })
  const signature = { thoughtSignature: anyText.optional() }
  const file = z.strictObject({ mimeType: anyText.optional(), fileUri: anyText })
  const part = z.union([
    z.strictObject({ text: anyText, thought: z.boolean().optional(), ...signature }),
    z.strictObject({ inlineData: blob }),
    z.strictObject({ fileData: file }),
    z.strictObject({
      functionCall: z.strictObject({ id: anyText.optional(), name: anyText, args: anySchema }),
      ...signature,
    }),
    z.strictObject({
      functionResponse: z.strictObject({
        ...{ id: anyText.optional(), name: anyText, response: anySchema },
        parts: z.array(z.strictObject({ inlineData: blob })).optional(),
      }),
    }),
  ])
  const content = z.strictObject({ role: z.enum(['user', 'model']), parts: z.array(part).min(1) })
  const declaration = z.strictObject({
    ...{ name: anyText, description: anyText.optional(), parametersJsonSchema: anySchema.optional() },
  })
  const thinkingConfig = z.strictObject({
    ...{ includeThoughts: z.boolean().optional(), thinkingBudget: z.int().optional() },
    thinkingLevel: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
  })
  return z.strictObject({
    contents: z.array(content).min(1),
    systemInstruction: z.strictObject({ parts: z.array(z.strictObject({ text: anyText })) }).optional(),
    generationConfig: z.strictObject({
      ...{ maxOutputTokens: z.int().optional(), temperature: z.number().optional() },
      ...{ topK: z.int().optional(), topP: z.number().optional(), seed: z.int().optional() },
      thinkingConfig: thinkingConfig.optional(),
    }),
    tools: z.array(z.strictObject({ functionDeclarations: z.array(declaration) })).optional(),
    toolConfig: z
      .strictObject({ functionCallingConfig: z.strictObject({ mode: anyText }).optional() })
      .optional(),
  })
})()

export const bedrockSchema = (() => {
  const point = z.strictObject({ cachePoint: z.strictObject({ type: z.literal('default') }) })
  const text = z.strictObject({ text: anyText })
  const source = z.strictObject({ bytes: anyText })
  const image = z.strictObject({
    image: z.strictObject({ format: z.enum(['png', 'jpeg', 'gif', 'webp']), source }),
  })
  const reasoning = z.union([
    z.strictObject({ reasoningText: z.strictObject({ text: anyText, signature: anyText.optional() }) }),
    z.strictObject({ redactedContent: anyText }),
  ])
  const block = z.union([
    text,
    image,
    point,
    z.strictObject({ reasoningContent: reasoning }),
    z.strictObject({ toolUse: z.strictObject({ toolUseId: anyText, name: anyText, input: anySchema }) }),
    z.strictObject({
      toolResult: z.strictObject({
        toolUseId: anyText,
        content: z.array(z.union([text, image])),
        status: z.enum(['success', 'error']).optional(),
      }),
    }),
  ])
  const message = z.strictObject({ role: z.enum(['user', 'assistant']), content: z.array(block).min(1) })
  const toolSpec = z.strictObject({
    ...{ name: anyText, description: anyText.optional(), inputSchema: z.strictObject({ json: anySchema }) },
  })
  return z.strictObject({
    system: z.array(z.union([text, point])).optional(),
    messages: z.array(message).min(1),
    inferenceConfig: z
      .strictObject({
        ...{ maxTokens: z.int().min(1).optional(), temperature: z.number().min(0).max(1).optional() },
        ...{ topP: z.number().min(0).max(1).optional() },
      })
      .optional(),
    additionalModelRequestFields: anySchema.optional(),
    additionalModelResponseFieldPaths: z.array(anyText).optional(),
    toolConfig: z
      .strictObject({ tools: z.array(z.union([z.strictObject({ toolSpec }), point])).min(1) })
      .optional(),
  })
})()
