import { anthropicMessages } from './anthropic.ts'
import { bedrock } from './bedrock.ts'
import { deepseek, kimi, mistral, xai } from './compatible.ts'
import { gemini } from './gemini.ts'
import { openaiChat, openaiResponses } from './openai.ts'
import type { Validator } from './rule.ts'

/** By the model whose requests each validates. */
export const validators: Readonly<Record<string, Validator>> = {
  'openai/gpt-4o': openaiChat,
  'openai/gpt-5': openaiResponses,
  'anthropic/claude-sonnet-4-5': anthropicMessages,
  'gemini/gemini-3-pro-preview': gemini,
  'bedrock/anthropic.claude-sonnet-4-5': bedrock,
  'mistral/mistral-large': mistral,
  'deepseek/deepseek-chat': deepseek,
  'moonshot/kimi-k2.5': kimi,
  'xai/grok-4': xai,
}
