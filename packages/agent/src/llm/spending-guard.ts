/**
 * Budgets in money: a request is allowed before it is sent, and its cost is reported.
 *
 * The check is made for each request to a provider (retries, fallbacks, condensations, titles and sub-agents
 * too), because each is paid for. It asks for the most that the request may cost: all of the prompt, and as
 * many tokens of output as the limit allows. A guard may allow less output; then the request says so to the
 * provider, and a longer reply is cut.
 *
 * What the provider charges is known from its answer alone. Otherwise the side is taken that keeps the
 * budget: a request that ended without an answer counts with its prompt, and with what was received of the
 * reply; one that was refused with a status, or reached nothing, counts as nothing.
 */
/** The most that a request may use. */
export interface CallEstimate {
  readonly model: string
  readonly inputTokens: number
  readonly maxOutputTokens: number
  /** Millionths of a dollar; undefined for a model without a known price. */
  readonly inputCost: number | undefined
  /** Of all tokens of output. */
  readonly outputCost: number | undefined
}

/** What a request has used. */
export interface CallUse {
  readonly inputTokens: number
  readonly outputTokens: number
  /** Millionths of a dollar; undefined for a model without a known price. */
  readonly cost: number | undefined
}

export interface CallReservation {
  readonly maxOutputTokens: number
  /** Never rejects. */
  settle(use: CallUse): Promise<void>
}

export interface CallRefusal {
  readonly code: 'BudgetExceeded' | 'LLMServiceUnavailableError'
  /** Shown to the user. */
  readonly refusal: string
}

export interface SpendingGuard {
  /** Undefined: nothing limits the request, and nothing is settled. Never rejects. */
  reserve(estimate: CallEstimate, signal: AbortSignal): Promise<CallReservation | CallRefusal | undefined>
}
