import type { ErrorFacts } from './error-facts.ts'
import failureRules from './failure-rules.json' with { type: 'json' }
import type { ModelFailureCode } from './model.ts'

/** A rule applies when one of its conditions holds. */
export interface FailureRule {
  readonly statuses?: readonly number[]
  readonly minStatus?: number
  /** Codes and types of the provider or of the network, in lower case. */
  readonly codes?: readonly string[]
  /** Parts of messages, in lower case, with the providers that use them. */
  readonly phrases?: Readonly<Record<string, string>>
  readonly code: ModelFailureCode
  readonly isRetryable: boolean
  readonly hint?: string
}

const rules = failureRules as readonly FailureRule[] // the codes are model failure codes

/** The first rule that applies to an error; undefined when none does. */
export function findFailureRule({ status = 0, words, message }: ErrorFacts): FailureRule | undefined {
  const folded = message.toLowerCase()
  // Some servers return 500 for a prompt that is too long.
  const hasPhrases = [0, 400, 413, 422, 500].includes(status)
  return rules.find(
    ({ statuses = [], minStatus = Number.POSITIVE_INFINITY, codes = [], phrases = {} }) =>
      status >= minStatus ||
      statuses.includes(status) ||
      codes.some((code) => words.has(code)) ||
      (hasPhrases && Object.keys(phrases).some((phrase) => folded.includes(phrase))),
  )
}
