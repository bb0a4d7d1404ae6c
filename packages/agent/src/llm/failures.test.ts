import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { llmSecrets } from './credentials.ts'
import { classifyFailure, redactDetail } from './failures.ts'
import { isRefusedContent } from './refusals/refused-request.ts'
import { tooLargeAnswers } from './refusals/testing/refusal-answers.ts'
import { providerFailures } from './testing/provider-failures.ts'
import { serverFailures } from './testing/server-failures.ts'

/** An error as the library throws it for a status and a body. */
function refused(statusCode: number, body: unknown, responseHeaders: Readonly<Record<string, string>> = {}) {
  const responseBody = typeof body === 'string' ? body : JSON.stringify(body)
  return {
    name: 'AI_APICallError',
    message: 'Bad Request',
    statusCode,
    responseBody,
    responseHeaders,
    data: body,
  }
}

const openai = (message: string, code: string | null, type = 'invalid_request_error') => ({
  error: { message, type, param: null, code },
})
const anthropic = (message: string, type = 'invalid_request_error') => ({
  type: 'error',
  error: { type, message },
})
const google = (message: string, status: string, details: unknown[] = []) => ({
  error: { code: 400, message, status, details },
})

test.each([
  [
    'OpenAI, context',
    refused(400, openai('Too long.', 'context_length_exceeded')),
    'LLMContextWindowExceedError',
  ],
  [
    'vLLM, context',
    refused(400, {
      object: 'error',
      message: "This model's maximum context length is 4096 tokens.",
      code: 400,
    }),
    'LLMContextWindowExceedError',
  ],
  [
    'llama.cpp, context',
    refused(500, { error: { code: 500, message: 'the request exceeds the context size' } }),
    'LLMContextWindowExceedError',
  ],
  [
    'Anthropic, context',
    refused(400, anthropic('prompt is too long: 210000 tokens > 200000 maximum')),
    'LLMContextWindowExceedError',
  ],
  [
    'Gemini, context',
    refused(400, google('The input token count (2000000) exceeds the maximum', 'INVALID_ARGUMENT')),
    'LLMContextWindowExceedError',
  ],
  [
    'Bedrock, context',
    refused(
      400,
      { message: 'Input is too long for requested model.' },
      { 'x-amzn-errortype': 'ValidationException:http://x' },
    ),
    'LLMContextWindowExceedError',
  ],
  ['OpenAI, key', refused(401, openai('Incorrect API key.', 'invalid_api_key')), 'LLMAuthenticationError'],
  [
    'Gemini, key',
    refused(400, google('API key not valid.', 'INVALID_ARGUMENT', [{ reason: 'API_KEY_INVALID' }])),
    'LLMAuthenticationError',
  ],
  [
    'Bedrock, key',
    refused(
      403,
      { message: 'The security token is invalid.' },
      { 'x-amzn-errortype': 'UnrecognizedClientException' },
    ),
    'LLMAuthenticationError',
  ],
  [
    'OpenAI, quota',
    refused(429, openai('You have no money.', 'insufficient_quota', 'insufficient_quota')),
    'LLMRateLimitError',
  ],
  [
    'Azure, policy',
    refused(400, {
      error: {
        code: 'content_filter',
        message: 'Filtered.',
        innererror: { code: 'ResponsibleAIPolicyViolation' },
      },
    }),
    'LLMContentPolicyViolationError',
  ],
  [
    'OpenAI, history',
    refused(400, openai("An assistant message with 'tool_calls' must be followed by tool messages", null)),
    'LLMMalformedConversationHistoryError',
  ],
  [
    'Anthropic, history',
    refused(400, anthropic('messages.2: `tool_use` ids were found without `tool_result` blocks')),
    'LLMMalformedConversationHistoryError',
  ],
  [
    'OpenAI, no model',
    refused(404, openai('The model x does not exist', 'model_not_found')),
    'LLMBadRequestError',
  ],
  [
    'Ollama, no model',
    refused(404, { error: { message: "model 'm' not found", type: 'api_error', param: null, code: null } }),
    'LLMBadRequestError',
  ],
  [
    'Ollama, no tools',
    refused(400, { error: { message: 'm does not support tools', type: 'api_error' } }),
    'LLMBadRequestError',
  ],
  [
    'Gemini, the quota of a day',
    refused(
      429,
      google('Quota exceeded', 'RESOURCE_EXHAUSTED', [
        { violations: [{ quotaId: 'GenerateRequestsPerDayPerProjectPerModel-FreeTier' }] },
        { retryDelay: '11s' },
      ]),
    ),
    'LLMRateLimitError',
  ],
  ['a page', refused(422, '<html>no</html>'), 'LLMBadRequestError'],
  ['the library', { name: 'AI_UnsupportedFunctionalityError', message: 'no' }, 'LLMBadRequestError'],
  ['a mistake of ours', new RangeError('x'), 'LLMError'],
])('%s: it is told what it is, and is not asked again', (_, error, code) => {
  expect(classifyFailure(error)).toMatchObject({ code, isRetryable: false })
})

test.each([
  ['OpenAI, busy', refused(429, openai('Slow down.', 'rate_limit_exceeded')), 'LLMRateLimitError'],
  [
    'Anthropic, overloaded',
    refused(529, anthropic('Overloaded', 'overloaded_error')),
    'LLMServiceUnavailableError',
  ],
  [
    'Anthropic, in a stream',
    { message: 'Overloaded', type: 'overloaded_error', statusCode: 529 },
    'LLMServiceUnavailableError',
  ],
  [
    'Bedrock, busy',
    refused(400, { message: 'Too many requests' }, { 'x-amzn-errortype': 'ThrottlingException' }),
    'LLMRateLimitError',
  ],
  [
    'Bedrock, busy in a stream',
    { name: 'ThrottlingException', message: 'Too many tokens, please wait before trying again.' },
    'LLMRateLimitError',
  ],
  ['a gateway', refused(504, 'late'), 'LLMTimeoutError'],
  ['a gateway with a page', refused(502, '<html>Bad gateway</html>'), 'LLMServiceUnavailableError'],
  [
    'the network',
    { name: 'AI_APICallError', message: 'Cannot connect', cause: { code: 'ECONNREFUSED' } },
    'LLMServiceUnavailableError',
  ],
  [
    'a late network',
    { name: 'AI_APICallError', message: 'x', cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } },
    'LLMTimeoutError',
  ],
  [
    'a broken stream',
    { name: 'AI_APICallError', message: 'x', statusCode: 200 },
    'LLMServiceUnavailableError',
  ],
])('%s: it is told what it is, and may be asked again', (_, error, code) => {
  expect(classifyFailure(error)).toMatchObject({ code, isRetryable: true })
})

const failureCases = [...providerFailures, ...serverFailures].map((row) => ({ what: row[0], row }))

test.each(failureCases)('$what', ({ row: [, consequence, code, status, body, headers] }) => {
  const failure = classifyFailure(refused(status, body, headers))
  const isRetryable = consequence === 'again' || consequence === 'malformed'
  expect(failure).toMatchObject({ code, isRetryable })
  expect(failure.isMalformed ?? false).toBe(consequence === 'malformed')
  expect(isRefusedContent(failure)).toBe(consequence === 'without')
})

test.each(tooLargeAnswers)('%i %j is a request that is too large', (status, body) => {
  expect(classifyFailure(refused(status, body))).toMatchObject({ code: 'LLMContextWindowExceedError' })
})

test('413 for the tokens of a minute is a limit of the rate', () => {
  const body = {
    error: {
      message: 'Request too large on tokens per minute (TPM): Limit 6000, Requested 7000',
      type: 'tokens',
      code: 'rate_limit_exceeded',
    },
  }
  expect(classifyFailure(refused(413, body))).toMatchObject({ code: 'LLMRateLimitError', isRetryable: true })
})

test.each([
  [{ error: 'the model is gone' }, 'HTTP 400: the model is gone'],
  [{ code: 'invalid argument', error: 'no such member' }, 'HTTP 400: no such member'],
  [
    { message: { detail: [{ loc: ['body', 'n'], msg: 'Field required' }] } },
    'HTTP 400: body.n: Field required',
  ],
  [{ detail: [{ loc: ['a', 0], msg: 'x' }, { msg: 'y' }] }, 'HTTP 400: a.0: x; y'],
])('%j says why in its own form', (body, detail) => {
  expect(classifyFailure(refused(400, body)).detail).toBe(detail)
})

test('Gemini names its wait in the body', () => {
  const body = google('busy', 'RESOURCE_EXHAUSTED', [{ '@type': 'RetryInfo', retryDelay: '17.5s' }])
  expect(classifyFailure(refused(429, body))).toMatchObject({
    code: 'LLMRateLimitError',
    retryAfterMs: 17_500,
  })
})

test('the text of the provider behind OpenRouter is part of the detail', () => {
  const body = {
    error: { message: 'Provider returned error', code: 400, metadata: { raw: 'the real reason' } },
  }
  expect(classifyFailure(refused(400, body)).detail).toContain('the real reason')
})

test('any thrown value is a failure with a text', () => {
  for (const thrown of [undefined, null, 'text', 5, {}, [], new Error('')]) {
    expect(classifyFailure(thrown).detail.length).toBeGreaterThan(0)
  }
})

test('a detail is hidden before it is cut', () => {
  const secrets = llmSecrets(
    llm.parse({ model: 'm', api_key: 'sk-12345678', base_url: 'http://u:p%4012345678@h/?k=queryquery' }),
  )
  const text = redactDetail(`${'x'.repeat(1995)}sk-12345678 p@12345678 queryquery`, secrets)
  expect(text).toHaveLength(2000)
  expect(text).not.toContain('sk-1')
  expect(redactDetail('p@12345678 p%4012345678 queryquery', secrets)).not.toMatch(/12345678|query/)
})
