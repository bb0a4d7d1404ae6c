import type { Model } from '../../llm/model.ts'

/** The size of one message to a model. */
export interface MessageLimits {
  /** Of one text. */
  readonly chars: number
  /** Of all its texts, as estimated. */
  readonly tokens: number
}

export const defaultMessageLimits: MessageLimits = { chars: 30_000, tokens: Number.POSITIVE_INFINITY }

/**
 * Share of the window without the reply: beside the system prompt a request has room for two such messages
 * and an answer.
 */
const windowShare = 0.25

/** One message never fills the window: a condensation keeps the first and the latest one. */
export function messageLimits(model: Model): MessageLimits {
  const window = windowOf(model)
  const requests = [window && window - replyReserve(model, window), model.learnedWindow?.tokens]
  return {
    chars: model.llm.max_message_chars,
    tokens: Math.floor(Math.min(...requests.filter((tokens) => tokens !== undefined)) * windowShare),
  }
}

/** Tokens of a window that the reply may take; `max_input_tokens` is without them. */
export function replyReserve({ llm }: Model, window: number): number {
  const { max_input_tokens, max_output_tokens = 0 } = llm
  return max_input_tokens === undefined ? Math.min(max_output_tokens, window / 2) : 0
}

/** The most tokens of a prompt: of the settings or the price list, and not more than a refusal has named. */
export function windowOf(model: Model): number | undefined {
  const known = model.llm.max_input_tokens ?? model.contextWindow
  const { tokens, isNamed = false } = model.learnedWindow ?? {}
  if (tokens === undefined || !isNamed) return known
  return known === undefined ? tokens : Math.min(known, tokens)
}
