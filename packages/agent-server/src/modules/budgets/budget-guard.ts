/**
 * Asks the sandbox server before each request to a model whether the budgets of its user and organisation
 * allow it, and tells it the cost afterwards.
 *
 * Without a budget it asks once a minute: a budget that is set while sandboxes run applies to them within
 * that time. While the sandbox server cannot be reached, the last that was known counts: with a budget
 * requests are refused, since no other place knows what is left; the refusal ends a run as any failure of a
 * model does, and the next message asks again. Without one, or when nothing is known yet, they are made: a
 * sandbox without a way to its server would never have a reply.
 *
 * The cost is reported until it is known there, also after the reply was used; what is not reported before
 * this process ends stays reserved in full.
 */
import { randomUUID } from 'node:crypto'
import type { CallEstimate, CallUse, SpendingGuard } from '@slipway/agent'
import {
  type BudgetReservationRequest,
  type BudgetSettlementRequest,
  budgetReservation,
  type LogFunction,
  maxBudgetMicros,
  maxBudgetTokens,
} from '@slipway/protocol'
import { readLimited } from '@slipway/shared/async'
import { parseJson } from '@slipway/shared/json'
import type { Secret } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'

interface BudgetGuardOptions {
  /** `http://host:port/api/v1/sandboxes/ID/budget`. */
  readonly url: string
  /** The session key of this server. */
  readonly key: Secret
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: LogFunction
}

const maxBytes = 65_536
const answerMs = 5_000
/** A question is repeated so long; while no budget is known, it is not. */
const askMs = 15_000
const unlimitedMs = 60_000
const awayMs = 5_000
const retryMs = 500
const maxRetryMs = 60_000
/** Repeats of a settlement, about an hour. */
const maxSettlements = 60
/** Repeats of taking back a reservation that is not known there, about a minute. */
const lateTries = 6

type Reserved = Awaited<ReturnType<SpendingGuard['reserve']>>
type Answer = { readonly status: number; readonly body: unknown }

export class BudgetGuard implements SpendingGuard, AsyncDisposable {
  readonly #options: BudgetGuardOptions
  readonly #closing = new AbortController()
  readonly #settling = new Set<Promise<void>>()
  /** No budget is known until then, and to be asked for from then on; undefined: one applies. */
  #unlimitedUntil: number | undefined = 0
  /** After a question without an answer the next ones, as those of fallbacks, are not repeated. */
  #awayUntil = 0

  constructor(options: BudgetGuardOptions) {
    this.#options = options
  }

  async reserve(estimate: CallEstimate, signal: AbortSignal): Promise<Reserved> {
    const { clock, log } = this.#options
    if ((this.#unlimitedUntil ?? 0) > clock.monotonic()) return undefined
    const id = randomUUID()
    const { model, inputTokens, maxOutputTokens, inputCost, outputCost } = estimate
    const body: BudgetReservationRequest = {
      model: firstChars(model, 500) || 'unknown',
      input_tokens: toInteger(inputTokens, maxBudgetTokens),
      max_output_tokens: toInteger(maxOutputTokens, maxBudgetTokens),
      input_cost_micros: toMicros(inputCost),
      output_cost_micros: toMicros(outputCost),
    }
    const answer = await this.#ask(id, body, signal)
    if (typeof answer === 'string') {
      // The answer may be what was lost, or the question arrives later.
      this.#inBackground(this.#repeat(id, { input_tokens: 0, output_tokens: 0, cost_micros: 0 }, lateTries))
      if (signal.aborted) return { code: 'LLMServiceUnavailableError', refusal: 'The run was stopped.' }
      if (this.#unlimitedUntil !== undefined) {
        this.#unlimitedUntil = clock.monotonic() + unlimitedMs
        return undefined
      }
      this.#awayUntil = clock.monotonic() + awayMs
      log('warn', 'the sandbox server does not say whether a budget allows a model call', { reason: answer })
      return {
        code: 'LLMServiceUnavailableError',
        refusal: `The sandbox server cannot be asked whether the budget allows this call (${answer}). Send a message to try again.`,
      }
    }
    const reservation = budgetReservation.safeParse(answer.body).data
    // A sandbox server without budgets.
    if (answer.status === 404 || reservation?.status === 'unlimited') {
      this.#unlimitedUntil = clock.monotonic() + unlimitedMs
      return undefined
    }
    this.#unlimitedUntil = undefined
    if (reservation?.status !== 'granted')
      return {
        code: 'BudgetExceeded',
        refusal: reservation?.message ?? `The sandbox server refuses this call (HTTP ${answer.status}).`,
      }
    return {
      maxOutputTokens: reservation.max_output_tokens ?? maxOutputTokens,
      settle: (use) => this.#settle(id, use),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#settling)
  }

  /** Repeats the question until there is an answer; a text says why there is none. */
  async #ask(id: string, body: object, signal: AbortSignal): Promise<Answer | string> {
    const { clock } = this.#options
    const began = clock.monotonic()
    const isRepeated = this.#unlimitedUntil === undefined && began >= this.#awayUntil
    const until = began + (isRepeated ? askMs : 0)
    for (let wait = retryMs; ; wait *= 2) {
      const answer = await this.#send('PUT', id, body, signal)
      const isFinal = typeof answer !== 'string' && answer.status < 500 && answer.status !== 429
      if (isFinal || signal.aborted || clock.monotonic() + wait > until)
        return typeof answer === 'string' || isFinal ? answer : `HTTP ${answer.status}`
      await clock.sleep(wait, { signal }).catch(() => {})
    }
  }

  /** Tells the cost; repeats continue after it resolves. */
  async #settle(id: string, { inputTokens, outputTokens, cost }: CallUse): Promise<void> {
    const body: BudgetSettlementRequest = {
      input_tokens: toInteger(inputTokens, maxBudgetTokens),
      output_tokens: toInteger(outputTokens, maxBudgetTokens),
      cost_micros: toMicros(cost),
    }
    if ((await this.#tell(id, body)) !== undefined) return
    this.#inBackground(this.#repeat(id, body))
  }

  #inBackground(work: Promise<void>): void {
    const tracked = work.finally(() => this.#settling.delete(tracked))
    this.#settling.add(tracked)
  }

  /** `unknownTries`: so often it is repeated where the reservation is not known there. */
  async #repeat(id: string, body: BudgetSettlementRequest, unknownTries = 0): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#closing
    for (let at = 0; at < maxSettlements; at++) {
      await clock.sleep(Math.min(maxRetryMs, retryMs * 2 ** at), { signal, ref: false }).catch(() => {})
      const status = await this.#tell(id, body)
      if (status !== undefined && (status !== 404 || at >= unknownTries || signal.aborted)) return
      if (signal.aborted) break
    }
    log('warn', 'the cost of a model call was not reported: it counts as the most that it could be', {
      reservation: id,
    })
  }

  /** The status of a final answer; undefined: it is to be reported again. */
  async #tell(id: string, body: object): Promise<number | undefined> {
    const answer = await this.#send('POST', `${id}/settle`, body)
    if (typeof answer === 'string' || answer.status >= 500) return undefined
    return [401, 429].includes(answer.status) ? undefined : answer.status
  }

  async #send(method: string, path: string, body: object, signal?: AbortSignal): Promise<Answer | string> {
    const { url, key, fetch, clock } = this.#options
    const timeout = clock.timeout(answerMs)
    try {
      const response = await fetch(`${url}/${path}`, {
        method,
        headers: { 'content-type': 'application/json', 'x-session-api-key': key.reveal() },
        body: JSON.stringify(body),
        // Its place would get the key.
        redirect: 'error',
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      })
      const bytes = await readLimited(response, maxBytes)
      return { status: response.status, body: parseJson(bytes?.toString() ?? '') }
    } catch {
      // Errors may have the address.
      return timeout.aborted ? `no answer within ${answerMs / 1000} s` : 'no connection'
    }
  }
}

function toMicros(cost: number | undefined): number | null {
  return cost === undefined ? null : toInteger(cost, maxBudgetMicros)
}

/** The nearest that the sandbox server takes: prices are settings, and counts come from providers. */
function toInteger(value: number, most: number): number {
  return Number.isNaN(value) ? most : Math.min(most, Math.max(0, Math.ceil(value)))
}
