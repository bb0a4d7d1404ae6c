import * as z from 'zod'
import { component, jsonObject, strictComponent } from './schemas.ts'

/** Spec 2.4 TextContent: closed. */
export const textContent = strictComponent('TextContent', {
  cache_prompt: z.boolean().default(false),
  type: z.literal('text').default('text'),
  text: z.string(),
})
export type TextContent = z.infer<typeof textContent>

/** An image; `image_urls` are http(s) or data URLs. */
export const imageContent = component('ImageContent', {
  cache_prompt: z.boolean().default(false),
  type: z.literal('image').default('image'),
  image_urls: z.array(z.string()),
})
export type ImageContent = z.infer<typeof imageContent>

export const content = z.array(z.union([textContent, imageContent]))

/** For the content of a message of a client that may be one text; OpenAPI says so too. */
export const acceptsText = { acceptsText: true } as const

type ContentInput = readonly z.input<typeof content>[number][] | string | null

/** One text as content; anything else unchanged. */
export function textAsParts(value: ContentInput) {
  return typeof value === 'string' ? [{ type: 'text', text: value }] : value
}

/** The content of a message of a client: parts, or one text. */
export const partsOrText = z
  .preprocess((value: Exclude<ContentInput, null>) => textAsParts(value), content)
  .meta(acceptsText)

export const thinkingBlock = component('ThinkingBlock', {
  type: z.literal('thinking').default('thinking'),
  thinking: z.string(),
  signature: z.string().nullish(),
})
export type ThinkingBlock = z.infer<typeof thinkingBlock>

export const redactedThinkingBlock = component('RedactedThinkingBlock', {
  type: z.literal('redacted_thinking').default('redacted_thinking'),
  data: z.string(),
})

export const thinkingBlocks = z.array(z.union([thinkingBlock, redactedThinkingBlock]))

export const reasoningItemModel = component('ReasoningItemModel', {
  id: z.string().nullish(),
  summary: z.array(z.string()).default([]),
  content: z.array(z.string()).nullish(),
  encrypted_content: z.string().nullish().meta({ description: 'Never logged, never rendered.' }),
  status: z.string().nullish(),
})

export const messageToolCall = component('MessageToolCall', {
  id: z.string(),
  name: z.string(),
  arguments: z.string().meta({ description: 'JSON text.' }),
  origin: z.enum(['completion', 'responses']),
})
export type MessageToolCall = z.infer<typeof messageToolCall>

/** Spec 2.4 Message. Unknown members are passed over: other writers add their own flags. */
export const message = component('Message', {
  role: z.enum(['user', 'system', 'assistant', 'tool']),
  content: content.default([]),
  tool_calls: z.array(messageToolCall).nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  thinking_blocks: thinkingBlocks.default([]),
  responses_reasoning_item: reasoningItemModel.nullish(),
})
export type Message = z.infer<typeof message>

/** An evaluation by a critic; `score` is the predicted probability of success, 0 to 1. */
export const criticResult = component('CriticResult', {
  score: z.number().min(0).max(1),
  message: z.string().nullable(),
  metadata: jsonObject.nullish(),
})
export type CriticResult = z.infer<typeof criticResult>

/** In order: each is a greater risk than the one before it. */
const riskLevels = ['UNKNOWN', 'LOW', 'MEDIUM', 'HIGH'] as const
export const securityRisk = z.enum(riskLevels).meta({ id: 'SecurityRisk' })
export type SecurityRisk = z.infer<typeof securityRisk>

/** Below 0 when `a` is the lesser risk, 0 when they are the same, above 0 otherwise. UNKNOWN is below LOW. */
export function compareRisk(a: SecurityRisk, b: SecurityRisk): number {
  return riskLevels.indexOf(a) - riskLevels.indexOf(b)
}

/** Whether a risk reaches a threshold. What UNKNOWN means for a decision is for the policy to say. */
export function isRiskAtLeast(risk: SecurityRisk, threshold: SecurityRisk): boolean {
  return compareRisk(risk, threshold) >= 0
}
