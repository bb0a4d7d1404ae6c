import type { ModelFailureCode } from '../model.ts'

/**
 * `final`: said at once. `again`: the same request may succeed. `malformed`: the model wrote what the server
 * could not read, so it is asked for it again. `without`: sent again without what is refused.
 */
type Consequence = 'final' | 'again' | 'malformed' | 'without'

export type FailureCase = readonly [
  what: string,
  consequence: Consequence,
  code: ModelFailureCode,
  status: number,
  body: unknown,
  headers?: Readonly<Record<string, string>>,
]

/** Answers of hosted providers, each below its source. */
export const providerFailures: readonly FailureCase[] = [
  // https://github.com/groq/groq-typescript/issues/28
  [
    'Groq, tool_use_failed',
    'malformed',
    'LLMServiceUnavailableError',
    400,
    {
      error: {
        message:
          "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
        type: 'invalid_request_error',
        code: 'tool_use_failed',
        failed_generation: '<function=x>',
      },
    },
  ],
  // https://console.groq.com/docs/errors
  [
    'Groq, output parse',
    'malformed',
    'LLMServiceUnavailableError',
    400,
    {
      error: {
        message:
          'Parsing failed. The model generated output that could not be parsed. Please adjust your prompt.',
        type: 'invalid_request_error',
        code: 'output_parse_failed',
      },
    },
  ],
  // https://console.groq.com/docs/errors
  [
    'Groq, 498',
    'again',
    'LLMServiceUnavailableError',
    498,
    { error: { message: 'Flex tier capacity exceeded', type: 'capacity_exceeded' } },
  ],
  // https://console.groq.com/docs/errors
  [
    'Groq, tpd',
    'final',
    'LLMRateLimitError',
    429,
    {
      error: {
        message: 'Rate limit reached for model on tokens per day (TPD): Limit 100000',
        type: 'tokens',
        code: 'rate_limit_exceeded',
      },
    },
  ],
  // https://platform.moonshot.ai/docs/api/errors
  [
    'Moonshot, quota',
    'final',
    'LLMRateLimitError',
    429,
    {
      error: {
        message: 'Your account is suspended, please check your plan and billing details',
        type: 'exceeded_current_quota_error',
      },
    },
  ],
  // https://platform.moonshot.ai/docs/api/errors
  [
    'Moonshot, overloaded',
    'again',
    'LLMRateLimitError',
    429,
    {
      error: {
        message: 'The engine is currently overloaded, please try again later',
        type: 'engine_overloaded_error',
      },
    },
  ],
  // https://github.com/zai-org/feedback/issues/789
  [
    'GLM, 1113',
    'final',
    'LLMRateLimitError',
    429,
    { error: { code: '1113', message: 'Insufficient balance or no resource package. Please recharge.' } },
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, 1302',
    'again',
    'LLMRateLimitError',
    429,
    { error: { code: '1302', message: 'High concurrency usage of this API' } },
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, 1308',
    'final',
    'LLMRateLimitError',
    429,
    {
      error: {
        code: '1308',
        message: 'Usage limit reached for 5 hour. Your limit will reset at 2026-10-10 10:00:00',
      },
    },
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, 1301',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      contentFilter: [{ level: 1, role: 'user' }],
      error: { code: '1301', message: 'The system detected potentially unsafe or sensitive content' },
    },
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, 1214',
    'without',
    'LLMBadRequestError',
    400,
    {
      error: { code: '1214', message: 'The messages parameter is illegal. Please check the documentation.' },
    },
  ],
  // https://www.alibabacloud.com/help/en/model-studio/error-code
  [
    'DashScope, inspection',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      error: {
        code: 'data_inspection_failed',
        message: 'Input data may contain inappropriate content.',
        type: 'data_inspection_failed',
      },
    },
  ],
  // https://www.alibabacloud.com/help/en/model-studio/error-code
  [
    'DashScope, arrears',
    'final',
    'LLMRateLimitError',
    400,
    {
      error: {
        code: 'Arrearage',
        message: 'Access denied, please make sure your account is in good standing.',
        type: 'Arrearage',
      },
    },
  ],
  // https://platform.minimax.io/docs/api-reference/errorcode
  [
    'MiniMax, sensitive',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      type: 'error',
      error: { type: 'bad_request_error', message: 'input new_sensitive (1026)', http_code: '400' },
    },
  ],
  // https://platform.minimax.io/docs/api-reference/errorcode
  [
    'MiniMax, insufficient',
    'final',
    'LLMRateLimitError',
    400,
    {
      type: 'error',
      error: { type: 'insufficient_balance_error', message: 'insufficient balance (1008)', http_code: '429' },
    },
  ],
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter, moderation',
    'final',
    'LLMContentPolicyViolationError',
    403,
    {
      error: {
        code: 403,
        message: 'openai/gpt requires moderation on OpenAI. Your input was flagged for "harassment".',
        metadata: { reasons: ['harassment'], flagged_input: 'x' },
      },
    },
  ],
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter, 402',
    'final',
    'LLMRateLimitError',
    402,
    { error: { code: 402, message: 'This request requires more credits, or fewer max_tokens.' } },
  ],
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter, policy',
    'final',
    'LLMBadRequestError',
    404,
    {
      error: { code: 404, message: 'No endpoints found matching your data policy (Free model publication).' },
    },
  ],
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter, free day',
    'final',
    'LLMRateLimitError',
    429,
    {
      error: {
        code: 429,
        message:
          'Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day',
      },
    },
  ],
  // https://platform.openai.com/docs/guides/error-codes
  [
    'OpenAI, invalid_prompt',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      error: {
        code: 'invalid_prompt',
        message: 'Invalid prompt: your prompt was flagged as potentially violating our usage policy.',
        type: 'invalid_request_error',
      },
    },
  ],
  // https://docs.anthropic.com/en/api/errors
  [
    'Anthropic, output blocked',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'Output blocked by content filtering policy' },
    },
  ],
  // https://docs.anthropic.com/en/api/errors
  [
    'Anthropic, usage',
    'final',
    'LLMRateLimitError',
    400,
    {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
      },
    },
  ],
  // https://docs.anthropic.com/en/api/errors
  [
    'Anthropic, org disabled',
    'final',
    'LLMBadRequestError',
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'This organization has been disabled.' },
    },
  ],
  // https://docs.anthropic.com/en/api/errors
  [
    'Anthropic, oauth',
    'final',
    'LLMAuthenticationError',
    403,
    {
      type: 'error',
      error: {
        type: 'permission_error',
        message: 'OAuth token has been revoked. Please obtain a new token.',
      },
    },
  ],
  // https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
  [
    'Bedrock, 424',
    'malformed',
    'LLMServiceUnavailableError',
    424,
    {
      message:
        'Model produced invalid sequence as part of ToolUse. Please refer to the model tool use troubleshooting guide.',
    },
    { 'x-amzn-errortype': 'ModelErrorException' },
  ],
  // https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
  [
    'Bedrock, tokens day',
    'final',
    'LLMRateLimitError',
    429,
    { message: 'Too many tokens per day, please wait before trying again.' },
    { 'x-amzn-errortype': 'ThrottlingException' },
  ],
  // https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
  [
    'Bedrock, use case',
    'final',
    'LLMBadRequestError',
    404,
    { message: 'Model use case details have not been submitted for this account.' },
    { 'x-amzn-errortype': 'ResourceNotFoundException' },
  ],
  // https://docs.fireworks.ai/guides/inference-error-codes
  [
    'Fireworks, suspended',
    'final',
    'LLMRateLimitError',
    412,
    {
      error: {
        message: 'Account x is suspended, possibly due to reaching the monthly spending limit',
        code: 'PRECONDITION_FAILED',
      },
    },
  ],
  // https://docs.together.ai/docs/error-codes
  [
    'Together, busy',
    'again',
    'LLMServiceUnavailableError',
    503,
    { error: { message: 'The server is overloaded or not ready yet.', type: 'service_unavailable' } },
  ],
  // https://docs.mistral.ai/api
  [
    'Mistral, capacity',
    'again',
    'LLMRateLimitError',
    429,
    {
      object: 'error',
      message: 'Service tier capacity exceeded for this model.',
      type: 'service_tier_capacity_exceeded',
      code: '3505',
    },
  ],
  // https://docs.mistral.ai/api
  [
    'Mistral, order',
    'without',
    'LLMBadRequestError',
    400,
    {
      object: 'error',
      message:
        'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant',
      type: 'invalid_request_message_order',
      code: '3230',
    },
  ],
  // https://docs.x.ai/docs/key-information/debugging
  [
    'xAI, credits',
    'final',
    'LLMRateLimitError',
    403,
    {
      code: 'The caller does not have permission to execute the specified operation',
      error: 'Your newly created team does not have any credits yet.',
    },
  ],
  // https://docs.x.ai/docs/key-information/debugging
  [
    'xAI, 403 content',
    'final',
    'LLMContentPolicyViolationError',
    403,
    {
      code: 'The caller does not have permission',
      error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_DATA_LEAKAGE',
    },
  ],
  // https://api-docs.deepseek.com/quick_start/error_codes
  [
    'DeepSeek',
    'without',
    'LLMMalformedConversationHistoryError',
    400,
    {
      error: {
        message: "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        type: 'invalid_request_error',
      },
    },
  ],
  // https://platform.moonshot.ai/docs/api/errors
  [
    'Moonshot, policy',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      error: {
        message: 'The request was rejected because it was considered high risk',
        type: 'content_filter',
      },
    },
  ],
  // https://inference-docs.cerebras.ai/support/error
  [
    'Cerebras, quota',
    'final',
    'LLMRateLimitError',
    429,
    {
      message: 'Tokens per day limit exceeded - too many tokens processed.',
      type: 'too_many_tokens_error',
      param: 'quota',
      code: 'token_quota_exceeded',
    },
  ],
  // https://docs.cohere.com/reference/errors
  [
    'Cohere',
    'without',
    'LLMBadRequestError',
    400,
    { id: 'x', message: 'invalid request: cannot specify both documents and tool results' },
  ],
  // https://platform.openai.com/docs/guides/error-codes
  [
    'OpenAI, server_error 500',
    'again',
    'LLMServiceUnavailableError',
    500,
    { error: { message: 'The server had an error while processing your request.', type: 'server_error' } },
  ],
]
