import type { Secrets } from '../secrets/secrets.ts'
import type { ModelFailureCode } from './model.ts'

/** Why a model did not answer, as far as another attempt is concerned. */
export interface ProviderFailure {
  readonly code: ModelFailureCode
  /** For people; not yet without secrets. */
  readonly detail: string
  /** Whether the same question may be answered later. */
  readonly isRetryable: boolean
  /** What the provider asked to wait. */
  readonly retryAfterMs?: number
}

export const maxDetail = 2000

/** The text of a failure as it may be shown: without the model's secrets, bounded. */
export function redactDetail(detail: string, secrets: Secrets): string {
  const text = secrets.redact(detail)
  return text.length <= maxDetail ? text : `${text.slice(0, maxDetail - 1)}…`
}

/** What an error of the library, of the network or of a stream says, by its status, its codes and its types. */
export function classifyFailure(error: unknown): ProviderFailure {
  const facts = errorFacts(error)
  const found = rules.find(({ when }) => when(facts))
  const { code, isRetryable, hint } = found ?? defaultRule
  const wait = isRetryable ? retryAfter(facts) : undefined
  const text = facts.status === undefined ? facts.message : `HTTP ${facts.status}: ${facts.message}`
  return {
    code,
    detail: hint === undefined ? text : `${text} (${hint})`,
    isRetryable,
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
  }
}

/** A stream that ended before the answer did. */
export function truncatedStreamFailure(raw: string | undefined): ProviderFailure {
  const detail =
    raw === undefined ? 'The answer was cut off before its end.' : `The answer broke off (${raw}).`
  return { code: 'LLMServiceUnavailableError', detail, isRetryable: true }
}

export const emptyReplyFailure: ProviderFailure = {
  code: 'LLMNoResponseError',
  detail: 'The model gave an empty answer.',
  isRetryable: true,
}

export function timeoutFailure(timeoutMs: number): ProviderFailure {
  const detail = `Nothing came from the model for ${timeoutMs / 1000} s.`
  return { code: 'LLMTimeoutError', detail, isRetryable: true }
}

interface ErrorFacts {
  readonly status: number | undefined
  readonly message: string
  /** Codes and types of the provider, and of the network, in lower case. */
  readonly words: ReadonlySet<string>
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Record<string, unknown>
}

interface Rule {
  readonly when: (facts: ErrorFacts) => boolean
  readonly code: ModelFailureCode
  readonly isRetryable: boolean
  readonly hint?: string
}

const defaultRule = { code: 'LLMError', isRetryable: false, hint: undefined } as const

/**
 * What some providers say in words only. Each stands with who says it; all are compared in lower case with the message of a
 * status that means "your request is wrong", or of an error inside a stream.
 */
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

const rules: readonly Rule[] = [
  { when: isOverflow, code: 'LLMContextWindowExceedError', isRetryable: false },
  {
    when: (facts) =>
      hasCode(
        facts,
        'content_filter',
        'content_policy_violation',
        'responsibleaipolicyviolation',
        'moderation_blocked',
      ),
    code: 'LLMContentPolicyViolationError',
    isRetryable: false,
  },
  {
    when: (facts) =>
      isStatus(facts, 401, 403) ||
      hasCode(facts, 'authentication_error', 'invalid_api_key', 'permission_error', 'api_key_invalid') ||
      hasCode(facts, 'unauthenticated', 'permission_denied', 'accessdeniedexception') ||
      hasCode(facts, 'unrecognizedclientexception', 'expiredtokenexception', 'invalidsignatureexception'),
    code: 'LLMAuthenticationError',
    isRetryable: false,
    hint: 'check the key and the rights of this model',
  },
  {
    when: (facts) => isStatus(facts, 402) || hasCode(facts, 'insufficient_quota', 'billing_error'),
    code: 'LLMRateLimitError',
    isRetryable: false,
    hint: 'the quota is used up',
  },
  {
    when: (facts) =>
      isStatus(facts, 429) ||
      hasCode(facts, 'rate_limit_error', 'rate_limit_exceeded', 'resource_exhausted', 'throttlingexception'),
    code: 'LLMRateLimitError',
    isRetryable: true,
  },
  {
    when: (facts) =>
      isStatus(facts, 408, 504) ||
      hasCode(facts, 'timeouterror', 'etimedout', 'und_err_headers_timeout', 'und_err_body_timeout') ||
      hasCode(facts, 'und_err_connect_timeout', 'deadline_exceeded', 'modeltimeoutexception'),
    code: 'LLMTimeoutError',
    isRetryable: true,
  },
  {
    when: (facts) =>
      (facts.status ?? 0) >= 500 ||
      isStatus(facts, 409, 425) ||
      hasCode(facts, 'overloaded_error', 'api_error', 'server_error', 'internal', 'unavailable') ||
      hasCode(facts, 'internalserverexception', 'serviceunavailableexception', 'modelstreamerrorexception'),
    code: 'LLMServiceUnavailableError',
    isRetryable: true,
  },
  {
    when: (facts) => mentions(facts, phrases.history),
    code: 'LLMMalformedConversationHistoryError',
    isRetryable: false,
  },
  {
    when: (facts) => isStatus(facts, 404) || hasCode(facts, 'model_not_found', 'not_found_error'),
    code: 'LLMBadRequestError',
    isRetryable: false,
    hint: "check the model's name and its base_url",
  },
  {
    when: (facts) =>
      (facts.status ?? 0) >= 300 ||
      hasCode(facts, 'invalid_request_error', 'invalid_argument', 'validationexception') ||
      hasCode(facts, 'ai_unsupportedfunctionalityerror', 'ai_invalidargumenterror', 'ai_invalidprompterror'),
    code: 'LLMBadRequestError',
    isRetryable: false,
  },
  {
    // The network, or an answer that is none: the library keeps what it cannot read as these.
    when: (facts) =>
      hasCode(
        facts,
        'ai_apicallerror',
        'ai_jsonparseerror',
        'ai_typevalidationerror',
        'ai_invalidresponsedataerror',
      ) ||
      hasCode(facts, 'ai_emptyresponsebodyerror', 'econnrefused', 'econnreset', 'enotfound', 'eai_again') ||
      hasCode(facts, 'und_err_socket', 'epipe'),
    code: 'LLMServiceUnavailableError',
    isRetryable: true,
  },
]

function isOverflow(facts: ErrorFacts): boolean {
  return (
    hasCode(facts, 'context_length_exceeded', 'context_window_exceeded') || mentions(facts, phrases.overflow)
  )
}

function isStatus({ status }: ErrorFacts, ...statuses: readonly number[]): boolean {
  return status !== undefined && statuses.includes(status)
}

function hasCode({ words }: ErrorFacts, ...codes: readonly string[]): boolean {
  return codes.some((word) => words.has(word))
}

/** A server's own trouble is not looked for phrases, except that some servers answer 500 to a prompt that is too long. */
function mentions({ status, message }: ErrorFacts, needles: readonly string[]): boolean {
  if (status !== undefined && ![400, 413, 422, 500].includes(status)) return false
  const folded = message.toLowerCase()
  return needles.some((phrase) => folded.includes(phrase))
}

function errorFacts(error: unknown): ErrorFacts {
  const outer = asRecord(error)
  const body = errorBody(outer)
  const inner = innermostError(body)
  const words = new Set<string>()
  for (const record of [outer, body, inner]) addWords(words, record)
  for (const detail of asArray(inner.details)) addWords(words, asRecord(detail))
  addCauses(words, outer)
  const headers = asRecord(outer.responseHeaders)
  // Bedrock names its errors in a header: `ThrottlingException:http://...`.
  const named = headers['x-amzn-errortype']
  if (typeof named === 'string') words.add((named.split(':')[0] ?? '').toLowerCase())
  const status = errorStatus(outer, inner)
  return { status, message: errorMessage(outer, inner, words), words, headers, body }
}

function addWords(words: Set<string>, record: Record<string, unknown>): void {
  for (const member of [record.code, record.type, record.status, record.reason, record.__type]) {
    if (typeof member === 'string') words.add(member.toLowerCase())
  }
  // Azure says it once more, deeper.
  const deeper = asRecord(record.innererror).code
  if (typeof deeper === 'string') words.add(deeper.toLowerCase())
}

function addCauses(words: Set<string>, error: Record<string, unknown>): void {
  let cause: unknown = error
  for (let depth = 0; depth < 5 && typeof cause === 'object' && cause !== null; depth += 1) {
    const { code, name } = asRecord(cause)
    for (const word of [code, name]) if (typeof word === 'string') words.add(word.toLowerCase())
    cause = asRecord(cause).cause
  }
}

/** 2xx is the status of a stream that broke, not of the error. */
function errorStatus(outer: Record<string, unknown>, inner: Record<string, unknown>): number | undefined {
  for (const status of [outer.statusCode, inner.code, inner.status]) {
    if (typeof status === 'number' && status >= 300 && status < 600) return status
  }
  return undefined
}

function errorMessage(
  outer: Record<string, unknown>,
  inner: Record<string, unknown>,
  words: ReadonlySet<string>,
): string {
  const { responseBody } = outer
  const isText = (text: unknown): text is string => typeof text === 'string' && text !== ''
  const mainText = [inner.message, inner.detail, outer.message].find(isText)
  // OpenRouter hands on what the provider behind it said; some servers answer with a page. Secrets are hidden before anything is cut.
  const page = Object.keys(inner).length === 0 && isText(responseBody) ? responseBody.trim() : ''
  const parts = [mainText, asRecord(inner.metadata).raw, page].filter(isText)
  if (parts.length > 0) return [...new Set(parts)].join(': ')
  return `The model failed (${[...words].join(', ') || 'no reason given'}).`
}

/** What the provider sent, as an object; errors inside a stream are such objects themselves. */
function errorBody(error: Record<string, unknown>): Record<string, unknown> {
  const data = asRecord(error.data)
  const text = error.responseBody
  // The text has what the library's own reading of it leaves out.
  return typeof text === 'string' ? { ...data, ...asRecord(parseJson(text)) } : data
}

function innermostError(body: Record<string, unknown>): Record<string, unknown> {
  const nested = asRecord(body.error)
  if (Object.keys(nested).length > 0) return nested
  const failed = asRecord(asRecord(body.response).error)
  return Object.keys(failed).length > 0 ? failed : body
}

function retryAfter({ headers, body }: ErrorFacts): number | undefined {
  const ms = Number(headers['retry-after-ms'])
  if (headers['retry-after-ms'] !== undefined && ms >= 0) return ms
  const after = headers['retry-after']
  if (typeof after === 'string') {
    const seconds = Number(after)
    if (after.trim() !== '' && seconds >= 0) return seconds * 1000
    const date = Date.parse(after)
    if (!Number.isNaN(date)) return Math.max(0, date - Date.now())
  }
  // Gemini says it in the body: `{"retryDelay": "17s"}`.
  for (const detail of asArray(innermostError(body).details)) {
    const { retryDelay } = asRecord(detail)
    const seconds = typeof retryDelay === 'string' ? Number.parseFloat(retryDelay) : Number.NaN
    if (seconds >= 0) return seconds * 1000
  }
  return undefined
}

function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value[0] : value
  } catch {
    return undefined
  }
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {} // members are unknown
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
