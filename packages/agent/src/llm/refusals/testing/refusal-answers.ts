import type { Json } from '../request-body.ts'
import type { Wire } from './refused-history.ts'
import type { Answer } from './refusing-server.ts'

/** Where in the body the refused thing is: its path, and the same in the spelling of a server. */
interface Where {
  readonly path: readonly (string | number)[]
  /** `messages.4.content.1` */
  readonly dots: string
  /** `messages[4].content[1]` */
  readonly brackets: string
  readonly body: Json
}

export const openai = (message: string, param: string | null = null, code: string | null = null): Answer => [
  400,
  { error: { message, type: 'invalid_request_error', param, code } },
]
export const anthropic = (message: string, status = 400, type = 'invalid_request_error'): Answer => [
  status,
  { type: 'error', error: { type, message }, request_id: `req_${message.length}` },
]
export const google = (message: string, details: readonly object[] = []): Answer => [
  400,
  { error: { code: 400, message, status: 'INVALID_ARGUMENT', details } },
]
export const bedrock = (message: string): Answer => [400, { message }]
export const vllm = (message: string): Answer => [
  400,
  { object: 'error', message, type: 'BadRequestError', param: null, code: 400 },
]
export const detail = (...loc: (string | number)[]): Answer => [
  422,
  { detail: [{ type: 'extra_forbidden', loc: ['body', ...loc], msg: 'Extra inputs are not permitted' }] },
]

/** A body that has the mark is refused; the changes are the paths that differ in the accepted one. */
export type CaseRow = readonly [
  server: string,
  wire: Wire,
  mark: string,
  says: (where: Where) => Answer,
  ...changes: string[],
]

/** Answers to requests with tools, each below its source: tools become texts of the prompt. */
export const toolsRefused: readonly (readonly [server: string, wire: Wire, answer: Answer])[] = [
  // https://github.com/ollama/ollama/issues/6027
  [
    'Ollama',
    'compatible',
    [
      400,
      {
        error: { message: 'registry.ollama.ai/library/gemma3:4b does not support tools', type: 'api_error' },
      },
    ],
  ],
  // https://docs.vllm.ai/en/latest/features/tool_calling
  [
    'vLLM',
    'compatible',
    vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
  ],
  // https://openrouter.ai/docs/features/tool-calling
  [
    'OpenRouter',
    'compatible',
    [
      404,
      {
        error: {
          code: 404,
          message: 'No endpoints found that support tool use. To learn more, visit: https://h.test',
        },
      },
    ],
  ],
  // https://ai.google.dev/gemma/docs/capabilities/function-calling
  ['Gemini, Gemma', 'google', google('Function calling is not enabled for models/gemma-3-27b-it')],
  // https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html
  ['Bedrock', 'bedrock', bedrock("This model doesn't support tool use in streaming mode.")],
  // https://console.groq.com/docs/tool-use
  ['Groq', 'compatible', openai('`tool calling` is not supported with this model')],
  // https://api-docs.deepseek.com/guides/reasoning_model
  ['DeepSeek', 'compatible', openai('deepseek-reasoner does not support Function Calling')],
  // https://docs.mistral.ai/capabilities/function_calling
  [
    'Mistral',
    'compatible',
    [400, { object: 'error', message: 'Function calling is not enabled for this model', code: '3052' }],
  ],
]

/** Answers to which no other request helps: they are said at once. */
export const finalAnswers: readonly (readonly [what: string, wire: Wire, answer: Answer])[] = [
  [
    'a wrong key',
    'chat',
    [401, { error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } }],
  ],
  [
    'a wrong key of xAI',
    'compatible',
    [400, { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: k***y.' }],
  ],
  [
    'a wrong key of Gemini',
    'google',
    google('API key not valid. Please pass a valid API key.', [{ reason: 'API_KEY_INVALID' }]),
  ],
  [
    'no credit',
    'anthropic',
    anthropic('Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing'),
  ],
  ['no money', 'compatible', [402, { error: { message: 'Insufficient Balance' } }]],
  [
    'no right',
    'bedrock',
    [403, { message: 'You do not have access to the model with the specified model ID.' }],
  ],
  [
    'a missing model',
    'chat',
    [404, { error: { message: 'The model `x` does not exist', code: 'model_not_found' } }],
  ],
  ['a missing model with 400', 'compatible', openai('The model `x` does not exist.')],
  [
    'a model without access of Bedrock',
    'bedrock',
    bedrock('Invocation of model ID x with on-demand throughput isn’t supported.'),
  ],
  [
    'a retired model',
    'compatible',
    openai('The model `x` has been decommissioned and is no longer supported.', null, 'model_decommissioned'),
  ],
  ['a rate', 'anthropic', anthropic('This request would exceed your rate limit', 429, 'rate_limit_error')],
  [
    'a rate by size of Groq',
    'compatible',
    [
      413,
      {
        error: {
          message: 'Request too large for model on tokens per minute (TPM): Limit 6000',
          code: 'rate_limit_exceeded',
        },
      },
    ],
  ],
  ['a place', 'google', google('User location is not supported for the API use.')],
  [
    'a policy',
    'chat',
    openai(
      "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
      'prompt',
      'content_filter',
    ),
  ],
]

/** What servers say when a request is larger than the window. */
export const tooLargeAnswers: readonly Answer[] = [
  [
    400,
    {
      error: {
        code: 400,
        message: 'request (1665 tokens) exceeds',
        type: 'exceed_context_size_error',
        n_ctx: 1024,
      },
    },
  ],
  [400, { error: 'Trying to keep the first 9000 tokens when context overflows' }],
  [400, { error: "The input (9000 tokens) is longer than the model's context length (8192 tokens)." }],
  [
    422,
    {
      error: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192.',
      error_type: 'validation',
    },
  ],
  [
    400,
    { object: 'error', message: 'The decoder prompt (length 9000) is longer than the maximum model length' },
  ],
  [
    400,
    {
      error: {
        message: 'Invalid request: Your request exceeded model token limit: 8192',
        type: 'invalid_request_error',
      },
    },
  ],
  [400, { error: { code: '1261', message: 'Prompt exceeds max length' } }],
  [
    400,
    { error: { message: 'Range of input length should be [1, 98304]', code: 'invalid_parameter_error' } },
  ],
  [400, { error: { message: 'invalid params, context window exceeds limit (2013)' } }],
  [
    400,
    { error: { message: 'prompt token count of 70000 exceeds', code: 'model_max_prompt_tokens_exceeded' } },
  ],
  [400, { message: 'too many tokens: size limit exceeded by 1000 tokens' }],
  [400, { detail: [{ loc: ['body'], msg: 'Input text exceeds maximum allowed length' }] }],
  [413, '<html><title>413 Request Entity Too Large</title></html>'],
  [413, { type: 'error', error: { type: 'request_too_large', message: 'Request exceeds the maximum size' } }],
]
