import type { Llm } from '@slipway/protocol'
import type { ModelFacts, TokenCounts } from '../catalogue/prices.ts'
import type { ProviderFailure } from '../failures.ts'
import type { ModelRequest } from '../model.ts'
import { reasoningBudget } from '../request/call-options.ts'
import type { ModelRoute } from '../route.ts'
import type { CallEstimate } from '../spending-guard.ts'
import { countTokens, countToolTokens } from '../tokens.ts'

/** Assumed where neither the request nor the settings limit the output. */
const usualMaxOutput = 32_768

/** Dollars for tokens: by the settings of a model, or by the price list; undefined without a price. */
function priceTokens(llm: Llm, facts: ModelFacts, tokens: TokenCounts, at: Date): number | undefined {
  return settingsPrice(llm, tokens) ?? facts.cost(tokens, at)
}

/** Undefined when the settings of the model have no price. */
export function settingsPrice(
  { input_cost_per_token: input, output_cost_per_token: output }: Llm,
  tokens: Pick<TokenCounts, 'input' | 'output'>,
): number | undefined {
  if (input === undefined && output === undefined) return undefined
  return tokens.input * (input ?? 0) + tokens.output * (output ?? 0)
}

export function estimateCall(
  { llm, route }: { readonly llm: Llm; readonly route: ModelRoute },
  facts: ModelFacts,
  request: Pick<ModelRequest, 'messages' | 'tools' | 'maxOutputTokens'>,
  at: Date,
): CallEstimate {
  const inputTokens = countTokens(request.messages) + countToolTokens(request.tools)
  const ofSettings = (llm.max_output_tokens ?? usualMaxOutput) + reasoningBudget(llm, route, request)
  const maxOutputTokens = Math.min(request.maxOutputTokens ?? ofSettings, ofSettings)
  const price = (cacheWrite: number, output: number) =>
    priceTokens(llm, facts, { input: inputTokens, cacheRead: 0, cacheWrite, output }, at)
  // A prompt that the provider writes to its cache may cost more.
  const prompts = [price(0, 0), price(inputTokens, 0)].filter((cost) => cost !== undefined)
  const [plain] = prompts
  const whole = price(0, maxOutputTokens)
  const isPriced = plain !== undefined && whole !== undefined
  return {
    model: llm.model,
    inputTokens,
    maxOutputTokens,
    inputCost: isPriced ? toMicros(Math.max(...prompts)) : undefined,
    outputCost: isPriced ? toMicros(Math.max(0, whole - plain)) : undefined,
  }
}

/** Whether a provider may charge for the prompt of a request that failed before its reply began. */
export function mayBeCharged({ status, isUnsent }: ProviderFailure): boolean {
  return status === undefined && isUnsent !== true
}

/** Millionths of a dollar. */
export function toMicros(dollars: number): number {
  return Math.ceil(Number((dollars * 1e6).toFixed(3)))
}
