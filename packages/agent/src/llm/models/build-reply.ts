import type { Llm, Message } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import type { TokenCounts } from '../catalogue/prices.ts'
import { attachCompletionLog } from '../completion-log.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import { settingsPrice } from './spending.ts'

export type ReplyTokens = TokenCounts & { readonly reasoning: number }

interface ReplyParts extends Pick<ModelReply, 'responseId' | 'stop' | 'isPaused' | 'latencyMs' | 'tokenIds'> {
  readonly llm: Llm
  readonly secrets: Secrets
  readonly request: ModelRequest
  readonly message: Message
  readonly tokens: ReplyTokens
  readonly contextWindow: number | undefined
  /** Dollars, when the model's settings have no price. */
  readonly cost: number
  readonly nowMs: number
}

/** A reply of a model, with its completion log when the settings ask for one. */
export function buildReply(parts: ReplyParts): ModelReply {
  const { llm, secrets, request, tokens, contextWindow, nowMs, cost, ...members } = parts
  const { model, usage_id: usageId } = llm
  const reply: ModelReply = {
    kind: 'reply',
    ...members,
    model,
    usageId,
    usage: {
      model,
      prompt_tokens: tokens.input,
      completion_tokens: tokens.output,
      cache_read_tokens: tokens.cacheRead,
      cache_write_tokens: tokens.cacheWrite,
      reasoning_tokens: tokens.reasoning,
      context_window: contextWindow ?? 0,
      per_turn_token: tokens.input + tokens.output,
      response_id: parts.responseId,
    },
    cost: settingsPrice(llm, tokens) ?? cost,
  }
  return attachCompletionLog(reply, { llm, request, nowMs, secrets })
}
