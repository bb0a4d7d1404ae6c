import { anthropic, bedrock, type CaseRow, detail, google, openai, vllm } from './refusal-answers.ts'
import { encrypted, pictures, signature } from './refused-history.ts'

/** Items of histories that servers refuse, in the words of more of them; each below its source. */
export const itemCases: readonly CaseRow[] = [
  // https://github.com/MiniMax-AI/MiniMax-M2/issues/76
  [
    'MiniMax, a result',
    'compatible',
    '"call_two_2"',
    () =>
      openai("invalid params, tool result's tool id(call_two_2) not found (2013)", null, 'invalid_prompt'),
    'messages -1',
  ],
  // https://github.com/earendil-works/pi/issues/5468
  [
    'MiniMax, arguments',
    'compatible',
    '"call_two_2"',
    () => [
      400,
      {
        type: 'error',
        error: {
          type: 'bad_request_error',
          message: 'invalid params, invalid function arguments json string, tool_call_id: call_two_2 (2013)',
          http_code: '400',
        },
      },
    ],
    'messages -1',
  ],
  // https://github.com/github/copilot-cli/issues/330
  [
    'Copilot, a call',
    'compatible',
    '"call_two_2"',
    () => [
      400,
      {
        message:
          'messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: call_two_2. Each `tool_use` block must have a corresponding `tool_result` block in the next message.',
        code: 'invalid_request_body',
      },
    ],
    'messages -1',
  ],
  // https://docs.litellm.ai/docs/exception_mapping
  [
    'LiteLLM, a result',
    'compatible',
    '"call_two_2"',
    () =>
      openai(
        'litellm.BadRequestError: AnthropicException - {"type":"error","error":{"type":"invalid_request_error","message":"messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: call_two_2."}}',
      ),
    'messages -1',
  ],
  // https://api-docs.deepseek.com/guides/tool_calls
  [
    'DeepSeek, a call that it does not name',
    'compatible',
    '"call_two_2"',
    () =>
      openai(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)",
      ),
    'messages -6',
  ],
  // https://platform.openai.com/docs/guides/conversation-state
  [
    'OpenAI Responses, an item twice',
    'responses',
    'rs_1234567890',
    () =>
      openai(
        'Duplicate item found with id rs_1234567890. Remove duplicate items from your input and try again.',
        'input',
      ),
    'input -1',
  ],
  // https://github.com/can1357/oh-my-pi/issues/41
  [
    'OpenAI Responses, an item that is not stored',
    'responses',
    'rs_1234567890',
    () => [
      404,
      {
        error: {
          message:
            "Item with id 'rs_1234567890' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.",
          type: 'invalid_request_error',
          param: 'input',
          code: null,
        },
      },
    ],
    'input -1',
  ],
  // https://platform.openai.com/docs/guides/function-calling
  [
    'OpenAI Responses, a result',
    'responses',
    'call_two_2',
    () => openai('No tool call found for function call output with call_id call_two_2.', 'input'),
    'input -2',
  ],
  // https://platform.openai.com/docs/guides/reasoning
  [
    'Azure Responses, encrypted for another one',
    'responses',
    encrypted,
    () =>
      openai(
        'The encrypted content for item rs_1234567890 could not be verified. Reason: Encrypted content organization_id did not match the target organization.',
        null,
        'invalid_encrypted_content',
      ),
    'input -1',
  ],
  // https://ai.google.dev/gemini-api/docs/thought-signatures
  [
    'Gemini, a damaged signature',
    'google',
    signature,
    () => google('Corrupted thought signature.'),
    'contents.1.parts -1',
  ],
  // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
  [
    'Bedrock, a blank text',
    'bedrock',
    'rains',
    () =>
      bedrock(
        'The text field in the ContentBlock object at messages.3.content.0 is blank. Add text to the text field, and try again.',
      ),
    'messages.3.content.0.text',
  ],
  // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultBlock.html
  [
    'Bedrock, a result twice',
    'bedrock',
    'call_two_2',
    () => bedrock('The toolResult blocks at messages.2.content contain duplicate Ids: call_two_2'),
    'messages.1.content -1',
    'messages.2.content -1',
  ],
  // https://github.com/lobehub/lobehub/pull/8419
  [
    'Kimi, a message by its position',
    'compatible',
    'POISON',
    () => openai("Invalid request: the message at position 3 with role 'tool' must not be empty"),
    'messages.3.content',
  ],
  // https://docs.z.ai/api-reference/api-code
  [
    'GLM, nothing named',
    'compatible',
    'rains',
    () => [400, { error: { code: '1214', message: 'messages 参数非法。请检查文档。' } }],
    'messages.6.content',
  ],
  // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2233
  [
    'LM Studio, its template',
    'compatible',
    'rains',
    () => [400, { error: 'Error rendering prompt with jinja template: "Unknown test: sequence".' }],
    'messages.6.content',
  ],
  // https://github.com/idiap/sdialog/issues/122
  [
    'llama.cpp, its template',
    'compatible',
    'rains',
    () => [
      500,
      {
        error: {
          code: 500,
          message:
            'While executing CallExpression at line 19\nError: Jinja Exception: Only text is supported',
          type: 'server_error',
        },
      },
    ],
    'messages.6.content',
  ],
  // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/842
  [
    'gpt-oss, thoughts beside a content',
    'compatible',
    'reasoning_content',
    () => [
      400,
      {
        error:
          'Error rendering prompt with jinja template: "Cannot pass both content and thinking in an assistant message with tool calls! Put the analysis message in one or the other, but not both."',
      },
    ],
    'messages.2.reasoning_content',
  ],
  // https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints
  [
    'vLLM, a member',
    'compatible',
    'reasoning_content',
    () =>
      vllm(
        "[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 2, 'assistant', 'reasoning_content'), 'msg': 'Extra inputs are not permitted'}]",
      ),
    'messages.2.reasoning_content',
  ],
  // https://inference-docs.cerebras.ai/support/error
  [
    'Cerebras, a member',
    'compatible',
    'reasoning_content',
    () =>
      openai(
        "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
        'validation_error',
        'wrong_api_format',
      ),
    'messages.2.reasoning_content',
  ],
  // https://openrouter.ai/docs/api-reference/errors
  [
    'OpenRouter, the words of another provider',
    'compatible',
    'reasoning_content',
    () => [
      400,
      {
        error: {
          message: 'Provider returned error',
          code: 400,
          metadata: {
            raw: 'messages.1.content.0: Invalid `signature` in `thinking` block',
            provider_name: 'Anthropic',
          },
        },
      },
    ],
    'messages.2.reasoning_content',
  ],
  // https://docs.mistral.ai/api
  [
    'Mistral, a place',
    'compatible',
    'POISON',
    () => detail('messages', 3, 'tool', 'content'),
    'messages.3.content',
  ],
  // https://docs.anthropic.com/en/api/errors
  [
    'Anthropic, a picture that it cannot fetch',
    'anthropic',
    pictures.first,
    () => anthropic('messages.0.content.1.image.source: Unable to download the file.'),
    'messages.0.content.1',
  ],
]
