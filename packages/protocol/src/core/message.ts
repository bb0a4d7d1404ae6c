import * as z from 'zod'
import { jsonObject } from './schemas.ts'

/** Spec 2.4 TextContent: closed. */
export const textContent = z
  .strictObject({
    cache_prompt: z.boolean().default(false),
    type: z.literal('text').default('text'),
    text: z.string(),
  })
  .meta({ id: 'TextContent' })
export type TextContent = z.infer<typeof textContent>

/** An image; `image_urls` are http(s) or data URLs. */
export const imageContent = z
  .object({
    cache_prompt: z.boolean().default(false),
    type: z.literal('image').default('image'),
    image_urls: z.array(z.string()),
  })
  .meta({ id: 'ImageContent' })
export type ImageContent = z.infer<typeof imageContent>

export const content = z.array(z.union([textContent, imageContent]))

export const thinkingBlock = z
  .object({
    type: z.literal('thinking').default('thinking'),
    thinking: z.string(),
    signature: z.string().nullish(),
  })
  .meta({ id: 'ThinkingBlock' })
export type ThinkingBlock = z.infer<typeof thinkingBlock>

export const redactedThinkingBlock = z
  .object({ type: z.literal('redacted_thinking').default('redacted_thinking'), data: z.string() })
  .meta({ id: 'RedactedThinkingBlock' })
export type RedactedThinkingBlock = z.infer<typeof redactedThinkingBlock>

export const thinkingBlocks = z.array(z.union([thinkingBlock, redactedThinkingBlock]))

export const reasoningItemModel = z
  .object({
    id: z.string().nullish(),
    summary: z.array(z.string()).default([]),
    content: z.array(z.string()).nullish(),
    encrypted_content: z.string().nullish().meta({ description: 'Never logged, never rendered.' }),
    status: z.string().nullish(),
  })
  .meta({ id: 'ReasoningItemModel' })
export type ReasoningItemModel = z.infer<typeof reasoningItemModel>

export const messageToolCall = z
  .object({
    id: z.string(),
    responses_item_id: z.string().nullish(),
    name: z.string(),
    arguments: z.string().meta({ description: 'JSON text.' }),
    origin: z.enum(['completion', 'responses']),
  })
  .meta({ id: 'MessageToolCall' })
export type MessageToolCall = z.infer<typeof messageToolCall>

/** Spec 2.4 Message. Unknown members are passed over: other writers add flags of their own. */
export const message = z
  .object({
    role: z.enum(['user', 'system', 'assistant', 'tool']),
    content: content.default([]),
    tool_calls: z.array(messageToolCall).nullish(),
    tool_call_id: z.string().nullish(),
    name: z.string().nullish(),
    reasoning_content: z.string().nullish(),
    thinking_blocks: thinkingBlocks.default([]),
    responses_reasoning_item: reasoningItemModel.nullish(),
  })
  .meta({ id: 'Message' })
export type Message = z.infer<typeof message>

/** An evaluation by a critic; `score` is the predicted probability of success, 0 to 1. */
export const criticResult = z
  .object({
    score: z.number().min(0).max(1),
    message: z.string().nullable(),
    metadata: jsonObject.nullish(),
  })
  .meta({ id: 'CriticResult' })
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
