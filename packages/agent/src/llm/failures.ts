import type { Secrets } from '../secrets/secrets.ts'
import { errorFacts } from './error-facts.ts'
import { type FailureRule, findFailureRule } from './failure-rules.ts'
import type { ModelFailureCode } from './model.ts'

const defaultRule: FailureRule = { code: 'LLMError', isRetryable: false }

/** Why a provider gave no reply. */
export interface ProviderFailure {
  readonly code: ModelFailureCode
  /** May contain secrets. */
  readonly detail: string
  /** The same request may succeed later. */
  readonly isRetryable: boolean
  /** The delay that the provider asks for. */
  readonly retryAfterMs?: number
}

const maxDetail = 2000

/** The text of a failure without the model's secrets, bounded. */
export function redactDetail(detail: string, secrets: Secrets): string {
  const text = secrets.redact(detail)
  return text.length <= maxDetail ? text : `${text.slice(0, maxDetail - 1)}…`
}

/** Classifies an error of the library, of the network or of a stream. */
export function classifyFailure(error: unknown): ProviderFailure {
  const facts = errorFacts(error)
  const { code, isRetryable, hint } = findFailureRule(facts) ?? defaultRule
  const text = facts.status === undefined ? facts.message : `HTTP ${facts.status}: ${facts.message}`
  return {
    code,
    detail: hint === undefined ? text : `${text} (${hint})`,
    isRetryable,
    ...(isRetryable && facts.retryAfterMs !== undefined ? { retryAfterMs: facts.retryAfterMs } : {}),
  }
}

/** The stream ended before the reply was complete. */
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
