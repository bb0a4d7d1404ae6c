import type { Model } from '../../llm/model.ts'

/** The size of one message to a model. */
export interface MessageLimits {
  /** Of one text. */
  readonly chars: number
  /** Of all its texts, as estimated. */
  readonly tokens: number
}

export const defaultMessageLimits: MessageLimits = { chars: 30_000, tokens: Number.POSITIVE_INFINITY }

/** Share of the window: beside the system prompt a request has room for two such messages and an answer. */
const windowShare = 0.25

/** One message never fills the window: a condensation keeps the first and the latest one. */
export function messageLimits(model: Model): MessageLimits {
  const windows = [windowOf(model), model.learnedWindow?.tokens].filter((tokens) => tokens !== undefined)
  return {
    chars: model.llm.max_message_chars,
    tokens: Math.floor(Math.min(...windows) * windowShare),
  }
}

/** The most tokens of a prompt: of the settings or the price list, and not more than a refusal has named. */
export function windowOf(model: Model): number | undefined {
  const known = model.llm.max_input_tokens ?? model.contextWindow
  const { tokens, isNamed = false } = model.learnedWindow ?? {}
  if (tokens === undefined || !isNamed) return known
  return known === undefined ? tokens : Math.min(known, tokens)
}
