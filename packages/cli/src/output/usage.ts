import { asObject } from './action-text.ts'

/** `120 tokens in, 40 out` as the metrics of a conversation say; undefined when they do not. */
export function tokensText(metrics: unknown): string | undefined {
  const { prompt_tokens, completion_tokens } = asObject(asObject(metrics).accumulated_token_usage)
  if (typeof prompt_tokens !== 'number') return undefined
  return `${prompt_tokens} tokens in, ${Number(completion_tokens ?? 0)} out`
}

/** `$0.0123`, or that it is unknown; undefined when nothing was used. */
export function costText(metrics: unknown): string | undefined {
  const { accumulated_cost, accumulated_token_usage } = asObject(metrics)
  const { prompt_tokens } = asObject(accumulated_token_usage)
  if (typeof accumulated_cost === 'number' && accumulated_cost > 0) return `$${accumulated_cost.toFixed(4)}`
  const isUnknown = accumulated_cost === 0 && typeof prompt_tokens === 'number' && prompt_tokens > 0
  return isUnknown ? 'unknown: the model has no price' : undefined
}
