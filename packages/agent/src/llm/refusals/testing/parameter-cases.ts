import { anthropic, bedrock, type CaseRow, detail, google, openai, vllm } from './refusal-answers.ts'

export const parameterCases: readonly CaseRow[] = [
  // Parameters
  [
    'OpenAI',
    'chat',
    'temperature',
    () =>
      openai(
        "Unsupported parameter: 'temperature' is not supported with this model.",
        'temperature',
        'unsupported_parameter',
      ),
    'temperature',
  ],
  [
    'OpenAI, a value',
    'chat',
    'temperature',
    () =>
      openai(
        "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
        'temperature',
        'unsupported_value',
      ),
    'temperature',
  ],
  [
    'OpenAI, output',
    'chat',
    '100000',
    () =>
      openai(
        'max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.',
        'max_tokens',
        'invalid_value',
      ),
    'max_tokens',
  ],
  [
    'OpenAI, options of streams',
    'chat',
    'stream_options',
    () => openai("The 'stream_options' parameter is not allowed for this deployment."),
    'stream_options',
  ],
  [
    'OpenAI Responses, effort',
    'responses',
    'effort',
    () =>
      openai(
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        'reasoning.effort',
        'unsupported_parameter',
      ),
    'reasoning',
  ],
  [
    'OpenAI Responses, include',
    'responses',
    '"include":[',
    () => openai('Encrypted content is not supported with this model.', 'include'),
    'include',
  ],
  [
    'Anthropic, a form of thinking',
    'anthropic',
    'enabled',
    () =>
      anthropic(
        "thinking: Input tag 'enabled' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled'",
      ),
    'thinking',
  ],
  [
    'Anthropic, output',
    'anthropic',
    '64000',
    () =>
      anthropic(
        'max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for claude-x',
      ),
    'max_tokens',
  ],
  [
    'Anthropic, order of thinking',
    'anthropic',
    'budget_tokens',
    () =>
      anthropic(
        '`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation',
      ),
    'thinking',
  ],
  [
    'Gemini, an unknown name',
    'google',
    'seed',
    () =>
      google(
        'Invalid JSON payload received. Unknown name "seed" at \'generation_config\': Cannot find field.',
      ),
    'generationConfig.seed',
  ],
  [
    'Gemini, thinking',
    'google',
    'thinkingConfig',
    () => google('Thinking level is not supported for this model.'),
    'generationConfig.thinkingConfig',
  ],
  [
    'Gemini, budget',
    'google',
    'thinkingBudget',
    () =>
      google(
        'Unable to submit request because thinking budget is out of range; supported values are integers from 0 to 512',
      ),
    'generationConfig.thinkingConfig',
  ],
  [
    'Bedrock, output',
    'bedrock',
    '100000',
    () =>
      bedrock(
        'The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.',
      ),
    'inferenceConfig.maxTokens',
  ],
  [
    'Bedrock, two of one kind',
    'bedrock',
    'topP',
    () =>
      bedrock(
        'The model returned the following errors: `temperature` and `top_p` cannot both be specified for this model. Please use only one.',
      ),
    'inferenceConfig.topP',
  ],
  ['Mistral', 'compatible', 'seed', () => detail('seed'), 'seed'],
  [
    'DeepSeek',
    'compatible',
    '100000',
    () =>
      openai(
        'Invalid max_tokens value, the valid range of max_tokens is [1, 8192]',
        null,
        'invalid_request_error',
      ),
    'max_tokens',
  ],
  [
    'Moonshot',
    'compatible',
    'temperature',
    () => openai('invalid temperature: only 1 is allowed for this model'),
    'temperature',
  ],
  [
    'xAI',
    'compatible',
    'reasoning_effort',
    () => [
      400,
      {
        code: 'Client specified an invalid argument',
        error: 'Model grok-4 does not support parameter reasoningEffort.',
      },
    ],
    'reasoning_effort',
  ],
  [
    'Groq',
    'compatible',
    'reasoning_effort',
    () => openai('`reasoning_effort` is not supported with this model'),
    'reasoning_effort',
  ],
  ['Together', 'compatible', 'top_k', () => openai('Input validation error: unknown field `top_k`'), 'top_k'],
  [
    'Fireworks',
    'compatible',
    'top_k',
    () => openai("Extra inputs are not permitted, field: 'top_k', value: 40"),
    'top_k',
  ],
  [
    'vLLM',
    'compatible',
    'top_k',
    () =>
      vllm(
        "[{'type': 'extra_forbidden', 'loc': ('body', 'top_k'), 'msg': 'Extra inputs are not permitted', 'input': 40}]",
      ),
    'top_k',
  ],
  [
    'vLLM, inside of the stream',
    'compatible',
    'seed',
    () => [
      200,
      {
        error: {
          object: 'error',
          message: 'seed is not supported by this backend',
          type: 'BadRequestError',
          code: 400,
        },
      },
    ],
    'seed',
  ],
  [
    'Ollama',
    'compatible',
    'reasoning_effort',
    () => [400, { error: 'think value "low" is not supported for this model' }],
    'reasoning_effort',
  ],
  [
    'LiteLLM',
    'compatible',
    'top_k',
    () =>
      openai(
        "litellm.UnsupportedParamsError: openai does not support parameters: ['top_k'], for model=o3. To drop these, set `litellm.drop_params=True`",
      ),
    'top_k',
  ],
  [
    'Cerebras',
    'compatible',
    'reasoning_effort',
    () => openai('reasoning_effort: property is unsupported', 'reasoning_effort', 'wrong_api_format'),
    'reasoning_effort',
  ],
  // https://platform.openai.com/docs/guides/reasoning
  [
    'OpenAI, another name',
    'chat',
    '"max_tokens"',
    () =>
      openai(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        'max_tokens',
        'unsupported_parameter',
      ),
    'max_tokens',
  ],
  // https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
  [
    'Azure, an unknown argument',
    'chat',
    '"seed"',
    () => openai('Unrecognized request argument supplied: seed'),
    'seed',
  ],
  // https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html
  [
    'Bedrock, a key too many',
    'bedrock',
    'topP',
    () =>
      bedrock(
        'Malformed input request: #/inferenceConfig: extraneous key [topP] is not permitted, please reformat your input and try again.',
      ),
    'inferenceConfig.topP',
  ],
  // https://docs.anthropic.com/en/docs/about-claude/models
  [
    'Bedrock, what Claude no longer takes',
    'bedrock',
    '"temperature"',
    () => bedrock('The model returned the following errors: `temperature` is deprecated for this model.'),
    'inferenceConfig.temperature',
  ],
  // https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
  [
    'Gemini, output',
    'google',
    '100000',
    () =>
      google(
        'Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.',
      ),
    'generationConfig.maxOutputTokens',
  ],
  // https://console.groq.com/docs/models
  [
    'Groq, output',
    'compatible',
    '100000',
    () =>
      openai(
        '`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model',
      ),
    'max_tokens',
  ],
  // https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints
  [
    'vLLM, output beside the window',
    'compatible',
    '100000',
    () =>
      vllm(
        "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 8192 tokens and your request has 4000 input tokens (100000 > 8192 - 4000).",
      ),
    'max_tokens',
  ],
  // https://github.com/vllm-project/vllm/issues/2418
  [
    'OpenRouter, output beside the window',
    'compatible',
    '100000',
    () =>
      openai(
        "This model's maximum context length is 8192 tokens. However, you requested 104000 tokens (4000 in the messages, 100000 in the completion). Please reduce the length of the messages or completion.",
        null,
        'context_length_exceeded',
      ),
    'max_tokens',
  ],
  // https://docs.together.ai/docs/error-codes
  [
    'Together, output beside the window',
    'compatible',
    '100000',
    () => [
      422,
      {
        error: {
          message:
            'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 4000 `inputs` tokens and 100000 `max_new_tokens`',
          type: 'invalid_request_error',
        },
      },
    ],
    'max_tokens',
  ],
]
