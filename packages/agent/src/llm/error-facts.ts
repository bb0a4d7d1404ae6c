import { asRecord, parseJson } from '@slipway/shared/json'

/** What an error of the library, of the network or of a stream says. */
export interface ErrorFacts {
  readonly status: number | undefined
  readonly message: string
  /** Codes and types of the provider and of the network, in lower case. */
  readonly words: ReadonlySet<string>
  /** The parameter or place that it names. */
  readonly place: string | undefined
  /** The delay that the provider asks for. */
  readonly retryAfterMs: number | undefined
}

export function errorFacts(error: unknown): ErrorFacts {
  const outer = asRecord(error)
  const body = errorBody(outer)
  const inner = innermostError(body)
  const words = new Set<string>()
  for (const record of [outer, body, inner]) addWords(words, record)
  for (const detail of asArray(inner.details)) {
    const record = asRecord(detail)
    addWords(words, record)
    // Gemini's limits of a day: waiting some seconds does not help.
    const ids = asArray(record.violations).map((violation) => asRecord(violation).quotaId)
    if (ids.some((id) => typeof id === 'string' && /perday/i.test(id))) words.add('quota_per_day')
  }
  addCauses(words, outer)
  const headers = asRecord(outer.responseHeaders)
  // Bedrock's code is in a header: `ThrottlingException:http://...`.
  const named = headers['x-amzn-errortype']
  if (typeof named === 'string') words.add((named.split(':')[0] ?? '').toLowerCase())
  const status = errorStatus(outer, inner)
  const message = errorMessage(outer, inner, words)
  return { status, message, words, place: errorPlace(inner), retryAfterMs: retryAfter(headers, inner) }
}

function addWords(words: Set<string>, record: Record<string, unknown>): void {
  for (const name of ['code', 'type', 'error_type', 'status', 'reason', '__type']) {
    const member = record[name]
    if (typeof member === 'string') words.add(member.toLowerCase())
  }
  // Azure nests another one.
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

/** OpenAI's `param`, Gemini's `fieldViolations`. */
function errorPlace({ param, details }: Record<string, unknown>): string | undefined {
  const violations = asArray(details).flatMap((detail) => asArray(asRecord(detail).fieldViolations))
  const fields = violations.map((violation) => asRecord(violation).field)
  const places = [param, ...fields].filter((one) => typeof one === 'string' && one !== '')
  return places.length === 0 ? undefined : places.join(' ')
}

/** 2xx is the status of a broken stream, not of the error. */
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
  const mainText = readReason(inner) ?? (isText(outer.message) ? outer.message : undefined)
  // OpenRouter passes on the text of the provider behind it; some servers return a page. Secrets are redacted
  // before it is cut.
  const page = Object.keys(inner).length === 0 && isText(responseBody) ? responseBody.trim() : ''
  const parts = [mainText, asRecord(inner.metadata).raw, page].filter(isText)
  if (parts.length > 0) return [...new Set(parts)].join(': ')
  return `The model failed (${[...words].join(', ') || 'no reason given'}).`
}

const reasonMembers = ['message', 'detail', 'error', 'msg']
const maxReasonDepth = 4

/**
 * The text of a failure in the forms that servers give it: a text, an object with it in one of a few members,
 * or a list of faults with their places (`[{ "loc": ["body", "model"], "msg": "Field required" }]`).
 */
function readReason(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value
  if (typeof value !== 'object' || value === null || depth > maxReasonDepth) return undefined
  if (Array.isArray(value)) {
    const texts = value.flatMap((one: unknown) => readReason(one, depth + 1) ?? [])
    return texts.length === 0 ? undefined : texts.join('; ')
  }
  const record = asRecord(value)
  const text = reasonMembers
    .map((name) => readReason(record[name], depth + 1))
    .find((one) => one !== undefined)
  return text !== undefined && Array.isArray(record.loc) ? `${record.loc.join('.')}: ${text}` : text
}

/** The response body as an object. An error inside a stream is such an object itself. */
function errorBody(error: Record<string, unknown>): Record<string, unknown> {
  const data = asRecord(error.data)
  const text = error.responseBody
  const parsed = typeof text === 'string' ? parseJson(text) : undefined
  // The text has members that the library leaves out.
  return typeof text === 'string' ? { ...data, ...asRecord(asArray(parsed)[0] ?? parsed) } : data
}

function innermostError(body: Record<string, unknown>): Record<string, unknown> {
  const nested = asRecord(body.error)
  if (Object.keys(nested).length > 0) return nested
  const failed = asRecord(asRecord(body.response).error)
  return Object.keys(failed).length > 0 ? failed : body
}

function retryAfter(headers: Record<string, unknown>, inner: Record<string, unknown>): number | undefined {
  const ms = Number(headers['retry-after-ms'])
  if (headers['retry-after-ms'] !== undefined && ms >= 0) return ms
  const after = headers['retry-after']
  if (typeof after === 'string') {
    const seconds = Number(after)
    if (after.trim() !== '' && seconds >= 0) return seconds * 1000
    const date = Date.parse(after)
    if (!Number.isNaN(date)) return Math.max(0, date - Date.now())
  }
  // Gemini's is in the body: `{"retryDelay": "17s"}`.
  for (const detail of asArray(inner.details)) {
    const { retryDelay } = asRecord(detail)
    const seconds = typeof retryDelay === 'string' ? Number.parseFloat(retryDelay) : Number.NaN
    if (seconds >= 0) return seconds * 1000
  }
  return undefined
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
