import type { FailureCase } from './provider-failures.ts'

/** Answers of servers that people run, of gateways and of clouds, each below its source. */
export const serverFailures: readonly FailureCase[] = [
  // https://github.com/ggml-org/llama.cpp/issues/25510
  [
    'llama.cpp, args',
    'without',
    'LLMBadRequestError',
    500,
    {
      error: {
        code: 500,
        message: 'Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error',
        type: 'server_error',
      },
    },
  ],
  // https://github.com/idiap/sdialog/issues/122
  [
    'llama.cpp, jinja',
    'without',
    'LLMBadRequestError',
    500,
    {
      error: {
        code: 500,
        message:
          '\n------------\nWhile executing CallExpression at line 19\nError: Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...',
        type: 'server_error',
      },
    },
  ],
  // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2233
  [
    'LM Studio, jinja',
    'without',
    'LLMBadRequestError',
    400,
    { error: 'Error rendering prompt with jinja template: "Unknown test: sequence".' },
  ],
  // https://github.com/ollama/ollama/blob/main/llm/server.go
  [
    'Ollama, template',
    'without',
    'LLMBadRequestError',
    500,
    {
      error: { message: 'template: :108:130: executing "" at <index $.Messages>: error', type: 'api_error' },
    },
  ],
  // https://github.com/ggml-org/llama.cpp/issues/25510
  [
    'llama.cpp, mtmd',
    'without',
    'LLMBadRequestError',
    500,
    { error: { code: 500, message: 'Failed to load image or audio file', type: 'server_error' } },
  ],
  // https://github.com/ggml-org/llama.cpp/issues/25510
  [
    'llama.cpp, loading',
    'again',
    'LLMServiceUnavailableError',
    503,
    { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } },
  ],
  // https://github.com/ollama/ollama/blob/main/llm/server.go
  [
    'Ollama, eof',
    'again',
    'LLMServiceUnavailableError',
    500,
    {
      error: {
        message: 'model runner has unexpectedly stopped, this may be due to resource limitations',
        type: 'api_error',
      },
    },
  ],
  // https://github.com/ollama/ollama/blob/main/llm/server.go
  [
    'Ollama, mem',
    'final',
    'LLMBadRequestError',
    500,
    {
      error: {
        message: 'model requires more system memory (8.0 GiB) than is available (4.0 GiB)',
        type: 'api_error',
      },
    },
  ],
  // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2233
  [
    'LM Studio, not loaded',
    'final',
    'LLMBadRequestError',
    404,
    {
      error: {
        message: 'No models loaded. Please load a model in the developer page',
        type: 'invalid_request_error',
        code: 'model_not_found',
      },
    },
  ],
  // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2233
  ['LM Studio, unloaded', 'final', 'LLMBadRequestError', 400, { error: 'Model unloaded.' }],
  // https://github.com/ericc-ch/copilot-api
  [
    'Copilot, model',
    'final',
    'LLMBadRequestError',
    400,
    {
      error: {
        message: 'The requested model is not supported.',
        code: 'model_not_supported',
        param: 'model',
      },
    },
  ],
  // https://github.com/ericc-ch/copilot-api
  [
    'Copilot, api',
    'final',
    'LLMBadRequestError',
    400,
    {
      error: {
        message: 'model gpt-5-codex is not accessible via the /chat/completions endpoint',
        code: 'unsupported_api_for_model',
      },
    },
  ],
  // https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors
  ['Cloudflare, 520', 'again', 'LLMServiceUnavailableError', 520, '<html>error</html>'],
  // https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors
  ['Cloudflare, 524', 'again', 'LLMServiceUnavailableError', 524, { error: 'timeout' }],
  // https://cloud.google.com/apis/design/errors
  [
    'Gemini cancelled',
    'again',
    'LLMServiceUnavailableError',
    499,
    { error: { code: 499, message: 'The operation was cancelled.', status: 'CANCELLED' } },
  ],
  // https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
  [
    'Azure, filter',
    'final',
    'LLMContentPolicyViolationError',
    400,
    {
      error: {
        inner_error: { code: 'ResponsibleAIPolicyViolation' },
        code: 'content_filter',
        message: 'The response was filtered',
        param: 'prompt',
      },
    },
  ],
  // https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
  [
    'Azure, deployment',
    'final',
    'LLMBadRequestError',
    404,
    {
      error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' },
    },
  ],
  // https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
  [
    'Azure, unavailable',
    'final',
    'LLMBadRequestError',
    400,
    { error: { code: 'unavailable_model', message: 'Unavailable model: x' } },
  ],
  // https://github.com/vxcontrol/pentagi/issues/313
  [
    'LiteLLM, wrapped',
    'without',
    'LLMBadRequestError',
    500,
    {
      error: {
        message:
          'litellm.InternalServerError: InternalServerError: OpenAIException - Failed to parse tool call arguments as JSON',
        type: null,
        code: '500',
      },
    },
  ],
  // https://docs.litellm.ai/docs/exception_mapping
  [
    'LiteLLM, ctx',
    'final',
    'LLMContextWindowExceedError',
    400,
    {
      error: {
        message: 'litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException',
        type: null,
        code: '400',
      },
    },
  ],
  // https://docs.litellm.ai/docs/exception_mapping
  [
    'LiteLLM, budget',
    'final',
    'LLMRateLimitError',
    400,
    {
      error: {
        message: 'Budget has been exceeded! Current cost: 10.2, Max budget: 10.0',
        type: 'budget_exceeded',
        code: '400',
      },
    },
  ],
  // https://huggingface.co/docs/inference-providers
  [
    'Hugging Face, router',
    'final',
    'LLMBadRequestError',
    400,
    {
      error: {
        message: 'The requested model is not supported by any provider you have enabled.',
        type: 'invalid_request_error',
        code: 'model_not_supported',
      },
    },
  ],
  // https://github.com/sgl-project/sglang
  [
    'SGLang, 400 tools',
    'without',
    'LLMBadRequestError',
    400,
    {
      object: 'error',
      message: "Failed to apply chat template: 'None' has no element 0",
      type: 'BadRequest',
      code: 400,
    },
  ],
]
