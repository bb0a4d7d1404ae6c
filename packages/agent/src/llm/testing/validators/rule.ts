/**
 * Strict validators of requests: one table of rules for each provider.
 *
 * A provider refuses a whole request for one bad item, and an item of the history is in each later request
 * too. So a rule says what a provider refuses, in which words, and who says so. The rules read a request in
 * one form (`wire-request.ts`), whatever interface it is for; they know nothing of the code that makes
 * requests.
 */

import type { WireRequest } from './wire-request.ts'

export interface Finding {
  /** The path in the body: `messages.2.content.1`. */
  readonly at: string
  /** What is wrong there. */
  readonly what: string
}

export interface Rule {
  readonly id: string
  readonly refuses: string
  /** A document, a public report, or an error text of the provider. */
  readonly source: string
  readonly find: (request: WireRequest) => readonly Finding[]
  /** The provider's words. */
  readonly says: (finding: Finding) => string
}

export interface Refusal extends Finding {
  readonly rule: string
  readonly message: string
}

export interface Validator {
  readonly name: string
  readonly rules: readonly Rule[]
  readonly read: (body: Record<string, unknown>) => WireRequest
}

/** What a provider refuses of a body; empty for a valid one. */
export function refusalsOf({ rules, read }: Validator, body: Record<string, unknown>): readonly Refusal[] {
  const request = read(body)
  return rules.flatMap((rule) =>
    rule.find(request).map((finding) => ({ ...finding, rule: rule.id, message: rule.says(finding) })),
  )
}
