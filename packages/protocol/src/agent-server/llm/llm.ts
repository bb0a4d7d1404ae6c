import * as z from 'zod'
import { given, otherwise } from '../../core/schemas.ts'

/** A secret in a request: blank or a mask means that none was given. */
export const secretText = given(z.string()).transform((text) =>
  text === undefined || text.trim() === '' || /^\*+$/.test(text) || text === '<redacted>' ? undefined : text,
)

const positive = given(z.int().min(1))
const price = given(z.number().min(0)).meta({ description: 'Dollars a token.' })

/**
 * A model and how to reach it. `model` is `provider/name`: `openai/`, `anthropic/`, `gemini/` (or `google/`), `bedrock/`,
 * `azure/`, `scripted/`; any other name, or one with a `base_url` of its own, is spoken to as an OpenAI-compatible server.
 * Unknown members are kept and passed over; null is a member that was not given. Times are seconds.
 */
export const llm = z
  .looseObject({
    model: z.string().min(1),
    api_key: secretText,
    base_url: given(z.string()),
    api_version: given(z.string()),
    aws_access_key_id: secretText,
    aws_secret_access_key: secretText,
    aws_session_token: secretText,
    aws_region_name: given(z.string()),
    num_retries: otherwise(z.int().min(0), 5),
    retry_multiplier: otherwise(z.number().min(0), 8),
    retry_min_wait: otherwise(z.number().min(0), 8),
    retry_max_wait: otherwise(z.number().min(0), 64),
    timeout: z.number().min(0).nullable().default(300),
    max_message_chars: otherwise(z.int().min(1), 30_000),
    temperature: given(z.number().min(0)),
    top_p: given(z.number().min(0).max(1)),
    top_k: given(z.number().min(0)),
    seed: given(z.int()),
    max_input_tokens: positive,
    max_output_tokens: positive,
    model_canonical_name: given(z.string()),
    api_mode: otherwise(z.enum(['auto', 'chat', 'responses']), 'auto'),
    capability_overrides: otherwise(z.record(z.string(), z.unknown()), {}),
    extra_headers: given(z.record(z.string(), z.string())),
    input_cost_per_token: price,
    output_cost_per_token: price,
    stream: otherwise(z.boolean(), false),
    disable_vision: given(z.boolean()),
    caching_prompt: otherwise(z.boolean(), true),
    log_completions: otherwise(z.boolean(), false),
    reasoning_effort: given(z.string()),
    reasoning_summary: given(z.string()),
    enable_encrypted_reasoning: otherwise(z.boolean(), true),
    extended_thinking_budget: given(z.int().min(0)),
    usage_id: otherwise(z.string(), 'default'),
    litellm_extra_body: otherwise(z.record(z.string(), z.unknown()), {}),
    fallback_strategy: given(
      z.looseObject({
        fallback_llms: z.array(z.union([z.string(), z.record(z.string(), z.unknown())])).default([]),
      }),
    ).meta({ description: 'Models to ask, in order, when this one fails: names of profiles, or models.' }),
    script: given(z.array(z.unknown())).meta({
      description: 'What a scripted model plays; for demos and tests.',
    }),
  })
  .meta({ id: 'LLM' })
export type Llm = z.output<typeof llm>

/** Tokens of one answer, or of all together. */
export interface TokenUsage {
  readonly model: string
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly reasoning_tokens: number
  readonly context_window: number
  readonly per_turn_token: number
  readonly response_id: string
}
