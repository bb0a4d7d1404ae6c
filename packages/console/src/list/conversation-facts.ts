import type { CallOutput } from '@slipway/client'
import { recordOf, textOf } from '@slipway/protocol/event-text'

type Info = Pick<CallOutput<'searchConversations'>['items'][number], 'stats' | 'agent' | 'current_model_id'>

/** The name of the model; undefined for imported conversations, which have none. */
export function modelName(info: Info): string | undefined {
  const name = info.current_model_id ?? textOf(recordOf(recordOf(info.agent).llm).model)
  return name === 'none' ? undefined : (name ?? undefined)
}

/** One call of a model, as the stats of a conversation tell it. */
export interface ModelCall {
  readonly responseId: string
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cacheReadTokens: number
  readonly cost: number
  readonly seconds: number
}

/** What the conversation cost so far, in dollars. */
export function conversationCost(info: Info): number {
  const usages = Object.values(recordOf(recordOf(info.stats).usage_to_metrics))
  return usages.reduce<number>((sum, usage) => sum + numberOf(recordOf(usage).accumulated_cost), 0)
}

/** The model calls that the stats still list, in order. */
export function modelCalls(info: Info): ModelCall[] {
  const calls = new Map<string, ModelCall>()
  const add = (responseId: unknown, part: Partial<ModelCall>) => {
    const id = String(responseId ?? '')
    const none = {
      responseId: id,
      promptTokens: 0,
      completionTokens: 0,
      cacheReadTokens: 0,
      cost: 0,
      seconds: 0,
    }
    calls.set(id, { ...(calls.get(id) ?? none), ...part })
  }
  for (const usage of Object.values(recordOf(recordOf(info.stats).usage_to_metrics))) {
    const metrics = recordOf(usage)
    for (const one of listOf(metrics.token_usages))
      add(one.response_id, {
        promptTokens: numberOf(one.prompt_tokens),
        completionTokens: numberOf(one.completion_tokens),
        cacheReadTokens: numberOf(one.cache_read_tokens),
      })
    const latencies = listOf(metrics.response_latencies)
    for (const one of latencies) add(one.response_id, { seconds: numberOf(one.latency) })
    listOf(metrics.costs).forEach((one, at) => {
      const id = one.response_id ?? latencies[at]?.response_id
      if (id !== undefined) add(id, { cost: numberOf(one.cost) })
    })
  }
  return [...calls.values()]
}

function listOf(value: unknown): Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(recordOf) : []
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
