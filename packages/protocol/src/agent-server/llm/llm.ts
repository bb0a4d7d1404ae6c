import * as z from 'zod'
import {
  jsonObject,
  looseComponent,
  nullAsUndefined,
  strictComponent,
  trueByDefault,
  withDefault,
} from '../../core/schemas.ts'

/** A secret in a request: blank or redacted means absent. */
export const secretInput = nullAsUndefined(z.string()).transform((text) =>
  text === undefined || text.trim() === '' || /^\*+$/.test(text) || text === '<redacted>' ? undefined : text,
)

const positiveInteger = nullAsUndefined(z.int().min(1))
const tokenPrice = nullAsUndefined(z.number().min(0)).meta({ description: 'Dollars a token.' })

/**
 * A model and how to reach it. `model` is `provider/name` (`openai/`, `anthropic/`, `gemini/` or `google/`,
 * `bedrock/`, `azure/`, `scripted/`); another provider, or one with a `base_url`, is an OpenAI-compatible
 * server. Unknown members stay and are ignored; null means absent. Times are seconds.
 */
export const llm = looseComponent('LLM', {
  model: z.string().min(1),
  api_key: secretInput,
  base_url: nullAsUndefined(z.string()),
  api_version: nullAsUndefined(z.string()),
  aws_access_key_id: secretInput,
  aws_secret_access_key: secretInput,
  aws_session_token: secretInput,
  aws_region_name: nullAsUndefined(z.string()),
  num_retries: withDefault(z.int().min(0), 5),
  retry_multiplier: withDefault(z.number().min(0), 8),
  retry_min_wait: withDefault(z.number().min(0), 8),
  retry_max_wait: withDefault(z.number().min(0), 64),
  timeout: z.number().min(0).nullable().default(300),
  stream_stall_timeout: nullAsUndefined(z.number().min(0)).meta({
    description: 'Silence in the middle of a reply before it is asked again; 0: as `timeout`. Default 120.',
  }),
  max_message_chars: withDefault(z.int().min(1), 30_000),
  temperature: nullAsUndefined(z.number().min(0)),
  top_p: nullAsUndefined(z.number().min(0).max(1)),
  top_k: nullAsUndefined(z.number().min(0)),
  seed: nullAsUndefined(z.int()),
  max_input_tokens: positiveInteger,
  max_output_tokens: positiveInteger,
  model_canonical_name: nullAsUndefined(z.string()),
  api_mode: withDefault(z.enum(['auto', 'chat', 'responses']), 'auto'),
  capability_overrides: withDefault(jsonObject, {}),
  native_tool_calling: nullAsUndefined(z.boolean()).meta({
    description: 'False: tools and calls are texts, for models that have no tool calls. Default true.',
  }),
  extra_headers: nullAsUndefined(z.record(z.string(), z.string())),
  input_cost_per_token: tokenPrice,
  output_cost_per_token: tokenPrice,
  stream: withDefault(z.boolean(), false),
  disable_vision: nullAsUndefined(z.boolean()),
  web_search: nullAsUndefined(z.boolean()).meta({
    description:
      'The model may search the web by the tool of its provider: OpenAI (Responses), Anthropic, Gemini 3, Grok 4 and newer. Default false.',
  }),
  caching_prompt: trueByDefault,
  prompt_cache_retention: nullAsUndefined(z.string()).meta({
    description: '`in_memory` or `24h`, for models of OpenAI that have it.',
  }),
  log_completions: withDefault(z.boolean(), false),
  return_token_ids: nullAsUndefined(z.boolean()).meta({
    description: 'Request token ids where the server has them (vLLM); they become TokenEvents.',
  }),
  reasoning_effort: nullAsUndefined(z.string()),
  reasoning_summary: nullAsUndefined(z.string()),
  enable_encrypted_reasoning: trueByDefault,
  extended_thinking_budget: nullAsUndefined(z.int().min(0)),
  usage_id: withDefault(z.string(), 'default'),
  litellm_extra_body: withDefault(jsonObject, {}),
  fallback_strategy: nullAsUndefined(
    z.looseObject({
      fallback_llms: z.array(z.union([z.string(), jsonObject])).default([]),
    }),
  ).meta({ description: 'Models to ask, in order, when this one fails: names of profiles, or models.' }),
  script: nullAsUndefined(z.array(z.unknown())).meta({
    description: 'What a scripted model plays; for demos and tests.',
  }),
})
export type Llm = z.output<typeof llm>

/** Members that other servers of the interface know, for their own library; here they do nothing. */
const otherMembers = [
  ...[
    'auth_type',
    'subscription_vendor',
    'is_subscription',
    'ollama_base_url',
    'drop_params',
    'modify_params',
  ],
  ...['aws_profile_name', 'aws_role_name', 'aws_session_name', 'aws_bedrock_runtime_endpoint'],
  ...['openrouter_site_url', 'openrouter_app_name', 'disable_stop_word', 'log_completions_folder'],
  ...['custom_tokenizer', 'force_string_serializer', 'inline_image_urls', 'safety_settings', 'base_model'],
]

/** A model whose members are all known: others are misspelled. */
export const strictLlm = strictComponent('StrictLLM', {
  ...llm.shape,
  ...Object.fromEntries(otherMembers.map((name) => [name, z.unknown().optional()])),
})

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
