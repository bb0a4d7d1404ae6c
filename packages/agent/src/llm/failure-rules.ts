import type { ErrorFacts } from './error-facts.ts'
import type { ModelFailureCode } from './model.ts'

/** A rule applies when one of its conditions holds. */
export interface FailureRule {
  readonly statuses?: readonly number[]
  readonly minStatus?: number
  /** Codes and types of the provider or of the network, in lower case. */
  readonly codes?: readonly string[]
  readonly phrases?: readonly string[]
  readonly code: ModelFailureCode
  readonly isRetryable: boolean
  readonly hint?: string
}

/** Parts of messages, in lower case, with the providers that use them. */
const phrases = {
  overflow: [
    'maximum context length', // OpenAI, vLLM, OpenRouter, DeepSeek
    'prompt is too long', // Anthropic
    'input is too long', // Bedrock
    'exceeds the context', // llama.cpp, LM Studio
    'exceed context limit', // Anthropic: input and max_tokens together
    'context window', // OpenAI, Bedrock, Ollama
    'input token count', // Gemini
    'too many input tokens', // Bedrock
    'maximum prompt length', // xAI
    'reduce the length of the messages', // Groq
  ],
  history: [
    '`tool_use` ids were found without `tool_result`', // Anthropic
    'unexpected `tool_use_id`', // Anthropic
    'tool_use` ids must be unique', // Anthropic
    'expected `thinking` or `redacted_thinking`', // Anthropic
    'toolresult blocks', // Bedrock
    "'tool_calls' must be followed by tool messages", // OpenAI, DeepSeek
    "must be a response to a preceeding message with 'tool_calls'", // OpenAI (its spelling)
    "must be a response to a preceding message with 'tool_calls'", // DeepSeek and others
    'no tool call found for function call output', // OpenAI Responses
    'no tool output found for function call', // OpenAI Responses
    'function response parts', // Gemini
    'function call turn', // Gemini
  ],
} as const

/** The first rule that applies counts. */
const rules: readonly FailureRule[] = [
  {
    codes: ['context_length_exceeded', 'context_window_exceeded'],
    phrases: phrases.overflow,
    code: 'LLMContextWindowExceedError',
    isRetryable: false,
  },
  {
    codes: [
      'content_filter',
      'content_policy_violation',
      'responsibleaipolicyviolation',
      'moderation_blocked',
    ],
    code: 'LLMContentPolicyViolationError',
    isRetryable: false,
  },
  {
    statuses: [401, 403],
    codes: [
      ...[
        'authentication_error',
        'invalid_api_key',
        'permission_error',
        'api_key_invalid',
        'unauthenticated',
      ],
      ...['permission_denied', 'accessdeniedexception', 'unrecognizedclientexception'],
      ...['expiredtokenexception', 'invalidsignatureexception'],
    ],
    code: 'LLMAuthenticationError',
    isRetryable: false,
    hint: 'check the key and the rights of this model',
  },
  {
    statuses: [402],
    codes: ['insufficient_quota', 'billing_error'],
    code: 'LLMRateLimitError',
    isRetryable: false,
    hint: 'the quota is used up',
  },
  {
    statuses: [429],
    codes: ['rate_limit_error', 'rate_limit_exceeded', 'resource_exhausted', 'throttlingexception'],
    code: 'LLMRateLimitError',
    isRetryable: true,
  },
  {
    statuses: [408, 504],
    codes: [
      ...['timeouterror', 'etimedout', 'und_err_headers_timeout', 'und_err_body_timeout'],
      ...['und_err_connect_timeout', 'deadline_exceeded', 'modeltimeoutexception'],
    ],
    code: 'LLMTimeoutError',
    isRetryable: true,
  },
  {
    minStatus: 500,
    statuses: [409, 425],
    codes: [
      ...['overloaded_error', 'api_error', 'server_error', 'internal', 'unavailable'],
      ...['internalserverexception', 'serviceunavailableexception', 'modelstreamerrorexception'],
    ],
    code: 'LLMServiceUnavailableError',
    isRetryable: true,
  },
  { phrases: phrases.history, code: 'LLMMalformedConversationHistoryError', isRetryable: false },
  {
    statuses: [404],
    codes: ['model_not_found', 'not_found_error'],
    code: 'LLMBadRequestError',
    isRetryable: false,
    hint: "check the model's name and its base_url",
  },
  {
    minStatus: 300,
    codes: [
      ...['invalid_request_error', 'invalid_argument', 'validationexception'],
      ...['ai_unsupportedfunctionalityerror', 'ai_invalidargumenterror', 'ai_invalidprompterror'],
    ],
    code: 'LLMBadRequestError',
    isRetryable: false,
  },
  {
    // The network, or a response that the library cannot read.
    codes: [
      ...['ai_apicallerror', 'ai_jsonparseerror', 'ai_typevalidationerror', 'ai_invalidresponsedataerror'],
      ...['ai_emptyresponsebodyerror', 'econnrefused', 'econnreset', 'enotfound', 'eai_again'],
      ...['und_err_socket', 'epipe'],
    ],
    code: 'LLMServiceUnavailableError',
    isRetryable: true,
  },
]

/** The rule for an error; undefined when none applies. */
export function findFailureRule({ status = 0, words, message }: ErrorFacts): FailureRule | undefined {
  const folded = message.toLowerCase()
  // A server's own failure is not searched for phrases, but some servers return 500 for a prompt that is too
  // long.
  const hasPhrases = [0, 400, 413, 422, 500].includes(status)
  return rules.find(
    ({ statuses = [], minStatus = Number.POSITIVE_INFINITY, codes = [], phrases = [] }) =>
      status >= minStatus ||
      statuses.includes(status) ||
      codes.some((code) => words.has(code)) ||
      (hasPhrases && phrases.some((phrase) => folded.includes(phrase))),
  )
}
