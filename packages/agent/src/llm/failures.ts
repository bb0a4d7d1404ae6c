import { firstChars } from '@slipway/shared/text'
import type { Secrets } from '../secrets/secrets.ts'
import { type ErrorFacts, errorFacts } from './error-facts.ts'
import failureRules from './failure-rules.json' with { type: 'json' }
import type { ModelFailureCode } from './model.ts'

/** A rule applies when one of its conditions holds. */
interface FailureRule {
  readonly statuses?: readonly number[]
  readonly minStatus?: number
  /** Codes and types of the provider or of the network, in lower case. */
  readonly codes?: readonly string[]
  /** Parts of messages, in lower case, with the providers that use them. */
  readonly phrases?: Readonly<Record<string, string>>
  /** Of answers that are searched for phrases; default: of refused requests. */
  readonly phraseStatuses?: readonly number[]
  /**
   * Its codes say nothing about a refused request: some servers send `api_error` for a model that they lack.
   */
  readonly isTransient?: true
  readonly code: ModelFailureCode
  readonly isRetryable: boolean
  /** The model wrote what the provider could not read. */
  readonly isMalformed?: true
  readonly hint?: string
}

const rules = failureRules as readonly FailureRule[] // the codes are model failure codes

/** Of answers that the same request gets again. */
const refusalStatuses: readonly number[] = [400, 404, 405, 413, 415, 422]

/** Some servers return 500 for a prompt that is too long. */
const phraseStatuses: readonly number[] = [400, 413, 422, 500]

/** The first rule that applies to an error; undefined when none does. */
function findFailureRule({ status = 0, words, message }: ErrorFacts): FailureRule | undefined {
  const folded = message.toLowerCase()
  const isRefused = refusalStatuses.includes(status)
  return rules.find(
    ({ statuses = [], minStatus = Number.POSITIVE_INFINITY, codes = [], isTransient, ...rule }) =>
      status >= minStatus ||
      statuses.includes(status) ||
      (!(isTransient && isRefused) && codes.some((code) => words.has(code))) ||
      ([0, ...(rule.phraseStatuses ?? phraseStatuses)].includes(status) &&
        Object.keys(rule.phrases ?? {}).some((phrase) => folded.includes(phrase))),
  )
}

const defaultRule: FailureRule = { code: 'LLMError', isRetryable: false }

export interface ProviderFailure {
  readonly code: ModelFailureCode
  /** May contain secrets. */
  readonly detail: string
  /** The same request may succeed later. */
  readonly isRetryable: boolean
  /** The delay that the provider asks for. */
  readonly retryAfterMs?: number | undefined
  /** Nothing listens at the address. */
  readonly isRefused?: true
  /** No server was reached. */
  readonly isUnsent?: true
  /** The HTTP status of the answer. */
  readonly status?: number | undefined
  /** The model wrote a call that the provider could not read. */
  readonly isMalformed?: boolean
  /** It is the answer that cannot be read: no other request helps. */
  readonly isOfAnswer?: true
  /** What the answer names beside its text as the cause: a parameter, or a place in the request. */
  readonly place?: string | undefined
}

const maxDetail = 2000
const unreachedCodes = ['econnrefused', 'enotfound', 'eai_again', 'ehostunreach', 'enetunreach']

/** The text of a failure without the model's secrets, bounded. */
export function redactDetail(detail: string, secrets: Secrets): string {
  const text = secrets.redact(detail)
  return text.length <= maxDetail ? text : `${firstChars(text, maxDetail - 1)}…`
}

/** Classifies an error of the library, of the network or of a stream. */
export function classifyFailure(error: unknown): ProviderFailure {
  const facts = errorFacts(error)
  const { code, isRetryable, isMalformed, hint } = findFailureRule(facts) ?? defaultRule
  const text = facts.status === undefined ? facts.message : `HTTP ${facts.status}: ${facts.message}`
  return {
    code,
    detail: hint === undefined ? text : `${text} (${hint})`,
    isRetryable,
    ...(isMalformed && { isMalformed }),
    ...(facts.words.has('econnrefused') && { isRefused: true }),
    ...(unreachedCodes.some((word) => facts.words.has(word)) && { isUnsent: true }),
    ...(facts.words.has('answertoolongerror') && { isOfAnswer: true }),
    status: facts.status,
    place: facts.place,
    retryAfterMs: isRetryable ? facts.retryAfterMs : undefined,
  }
}

/** The stream ended before the reply was complete. */
export function truncatedStreamFailure(raw: string | undefined): ProviderFailure {
  const detail =
    raw === undefined ? 'The answer was cut off before its end.' : `The answer broke off (${raw}).`
  const isMalformed = raw !== undefined && /malformed_(?:function_call|tool_use)/i.test(raw)
  return {
    code: 'LLMServiceUnavailableError',
    detail,
    isRetryable: true,
    ...(isMalformed && { isMalformed }),
  }
}

export const emptyReplyFailure: ProviderFailure = {
  code: 'LLMNoResponseError',
  detail: 'The model gave an empty answer.',
  isRetryable: true,
}

export const fullWindowFailure: ProviderFailure = {
  code: 'LLMContextWindowExceedError',
  detail: 'The context window was full before the answer was complete.',
  isRetryable: false,
}

export function timeoutFailure(timeoutMs: number): ProviderFailure {
  const detail = `Nothing came from the model for ${timeoutMs / 1000} s.`
  return { code: 'LLMTimeoutError', detail, isRetryable: true }
}
