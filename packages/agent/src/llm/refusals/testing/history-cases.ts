import { anthropic, bedrock, type CaseRow, detail, google, openai } from './refusal-answers.ts'
import { encrypted, pictures, signature } from './refused-history.ts'

export const historyCases: readonly CaseRow[] = [
  // Reasoning
  [
    'OpenAI Responses, encrypted',
    'responses',
    encrypted,
    () =>
      openai(
        `The encrypted content ${encrypted} could not be verified. Reason: Encrypted content could not be decrypted or parsed.`,
        null,
        'invalid_encrypted_content',
      ),
    'input -1',
  ],
  [
    'OpenAI Responses, an item',
    'responses',
    'rs_1234567890',
    () =>
      openai(
        "Item 'rs_1234567890' of type 'reasoning' was provided without its required following item.",
        'input',
      ),
    'input -1',
  ],
  [
    'OpenAI Responses, unnamed',
    'responses',
    encrypted,
    () => openai('The encrypted content could not be verified.', null, 'invalid_encrypted_content'),
    'input -1',
  ],
  [
    'Anthropic, a signature',
    'anthropic',
    signature,
    () => anthropic('messages.1.content.0: Invalid `signature` in `thinking` block'),
    'messages.1.content -1',
  ],
  [
    'Anthropic, changed thoughts',
    'anthropic',
    signature,
    () =>
      anthropic(
        'messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.',
      ),
    'messages.1.content -1',
  ],
  [
    'Gemini, a signature',
    'google',
    signature,
    () => google('Thought signature is not valid'),
    'contents.1.parts -1',
  ],
  [
    'Bedrock, a signature',
    'bedrock',
    signature,
    () =>
      bedrock(
        'The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block',
      ),
    'messages.1.content -1',
  ],
  [
    'Mistral, a member',
    'compatible',
    'reasoning_content',
    () => detail('messages', 2, 'assistant', 'reasoning_content'),
    'messages.2.reasoning_content',
  ],
  [
    'Groq, a member',
    'compatible',
    'reasoning_content',
    () =>
      openai(
        "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
      ),
    'messages.2.reasoning_content',
  ],
  [
    'A proxy, marks for a cache',
    'anthropic',
    'cache_control',
    () => anthropic('messages.4.content.0.text.cache_control: Extra inputs are not permitted'),
    'system.0.cache_control',
    'messages.4.content.0.cache_control',
  ],
  // Tools and schemas
  [
    'OpenAI, a schema',
    'chat',
    'anyOf',
    () =>
      openai(
        "Invalid schema for function 'mcp_search': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        'tools[1].function.parameters',
        'invalid_function_parameters',
      ),
    'tools.1.function.parameters.properties.mode',
  ],
  [
    'OpenAI Responses, a schema',
    'responses',
    'anyOf',
    () =>
      openai(
        "Invalid schema for function 'mcp_search': In context=(), 'anyOf' is not permitted.",
        'tools[1].parameters',
        'invalid_function_parameters',
      ),
    'tools.1.parameters.properties.mode',
  ],
  [
    'Anthropic, a schema',
    'anthropic',
    'anyOf',
    () =>
      anthropic(
        'tools.1.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level',
      ),
    'tools.1.input_schema.properties.mode',
  ],
  [
    'Anthropic, a tool',
    'anthropic',
    'Does mcp_search',
    () => anthropic("tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    'tools -1',
  ],
  [
    'Gemini, a schema',
    'google',
    'anyOf',
    () =>
      google(
        '* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[mode].enum: only allowed for STRING type\n',
      ),
    'tools.0.functionDeclarations.1.parametersJsonSchema.properties.mode',
  ],
  [
    'Bedrock, a tool',
    'bedrock',
    'Does mcp_search',
    () =>
      bedrock(
        "1 validation error detected: Value 'x' at 'toolConfig.tools.2.member.toolSpec.name' failed to satisfy constraint: Member must satisfy regular expression pattern",
      ),
    'toolConfig.tools -1',
  ],
  [
    'Bedrock, a schema',
    'bedrock',
    'anyOf',
    () =>
      bedrock('The value at toolConfig.tools.1.toolSpec.inputSchema.json is invalid: JSON schema is invalid'),
    'toolConfig.tools.1.toolSpec.inputSchema.json.properties.mode',
  ],
  [
    'Moonshot, a schema',
    'compatible',
    'anyOf',
    () =>
      openai(
        "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.mode.anyOf': type should be defined in anyOf items>",
      ),
    'tools.1.function.parameters.properties.mode',
  ],
  [
    'Groq, a schema',
    'compatible',
    'anyOf',
    () =>
      openai(
        'invalid JSON schema for tool mcp_search, tools[1].function.parameters: `/properties/mode`: invalid',
      ),
    'tools.1.function.parameters.properties.mode',
  ],
  [
    'llama.cpp, a schema',
    'compatible',
    'anyOf',
    () => [
      500,
      {
        error: {
          code: 500,
          message: 'JSON schema conversion failed:\nUnrecognized schema',
          type: 'server_error',
        },
      },
    ],
    'tools.1.function.parameters.properties.mode',
  ],
  // Calls and messages
  [
    'OpenAI, a call',
    'chat',
    '"call_two_2"',
    () =>
      openai(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_two_2",
        'messages[3]',
      ),
    'messages -1',
  ],
  [
    'OpenAI Responses, a call',
    'responses',
    'call_two_2',
    () => openai('No tool output found for function call call_two_2.', 'input'),
    'input -2',
  ],
  [
    'Anthropic, a call',
    'anthropic',
    'call_two_2',
    () =>
      anthropic(
        'messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_two_2. Each `tool_use` block must have a corresponding `tool_result` block in the next message.',
      ),
    'messages.1.content -1',
    'messages.2.content -1',
  ],
  [
    'OpenAI, a message by its place',
    'chat',
    'POISON',
    () =>
      openai(
        "Invalid value for 'messages[3].content': string contains invalid characters.",
        'messages[3].content',
      ),
    'messages.3.content',
  ],
  [
    'Anthropic, a result by its place',
    'anthropic',
    'POISON',
    () => anthropic('messages.2.content.0.tool_result.content: Input should be a valid string'),
    'messages.2.content.0.content',
  ],
  [
    'Gemini, a part by its place',
    'google',
    'POISON',
    () =>
      google(
        "Invalid value at 'contents[2].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct)",
      ),
    'contents.2.parts.0.functionResponse.response',
  ],
  // Nothing is named
  [
    'Gemini, nothing named',
    'google',
    'rains',
    () => google('Request contains an invalid argument.'),
    'contents.3.parts.0.text',
  ],
  ['Anthropic, nothing named', 'anthropic', 'rains', () => anthropic('Error'), 'messages.3.content.0.text'],
  ['A proxy, nothing named', 'compatible', 'rains', () => [400, ''], 'messages.6.content'],
  [
    'TGI, nothing named',
    'compatible',
    pictures.second,
    () => [422, { error: 'Input validation error', error_type: 'validation' }],
    'messages.5.content.1',
  ],
]
