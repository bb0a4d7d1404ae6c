import type { Message } from '@slipway/protocol'
import type { Model, ModelTool } from '../../llm/model.ts'
import { countToolTokens } from '../../llm/tokens.ts'

interface Measurement {
  readonly estimated: number
  readonly reported: number
}

/**
 * Further from the estimate, a count is not that of the whole request: some servers leave out cached tokens.
 */
const minScale = 0.3
const maxScale = 4

/**
 * Sizes of requests in tokens: what the provider reported of the last one, and an estimate of the difference.
 */
export class RequestSizes {
  readonly #measured = new WeakMap<Model, Measurement>()
  readonly #counted = new WeakSet<Model>()

  /** Whether the provider has counted a request. */
  isMeasured(model: Model): boolean {
    return this.#counted.has(model)
  }

  /** What the provider counted for a request. */
  record(model: Model, request: SizedRequest, reported: number): void {
    this.#counted.add(model)
    const estimated = estimate(model, request)
    const scale = reported / estimated
    if (scale >= minScale && scale <= maxScale) this.#measured.set(model, { estimated, reported })
  }

  /** Tokens of a request, its tools included. What is new counts at least as much as estimated. */
  sizeOf(model: Model, request: SizedRequest): number {
    const estimated = estimate(model, request)
    const last = this.#measured.get(model)
    if (last === undefined) return estimated
    const added = estimated - last.estimated
    const scale = this.scaleOf(model)
    return Math.ceil(last.reported + added * (added > 0 ? Math.max(1, scale) : scale))
  }

  /** The provider's tokens for each estimated one; 1 while nothing is known. */
  scaleOf(model: Model): number {
    const last = this.#measured.get(model)
    return last === undefined ? 1 : last.reported / last.estimated
  }
}

interface SizedRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly ModelTool[]
}

function estimate(model: Model, { messages, tools }: SizedRequest): number {
  return model.countTokens(messages) + countToolTokens(tools)
}
