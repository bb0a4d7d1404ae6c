import type { Llm } from '@slipway/protocol'
import { isOpenaiName, type ModelRoute } from '../route.ts'

/** What is known of a model beside its settings. Nothing is fetched: prices are those that the library was packed with. */
export interface ModelFacts {
  readonly contextWindow: number | undefined
  /** Dollars for these tokens at a time; undefined when no price is known. */
  cost(tokens: TokenCounts, at: Date): number | undefined
}

export interface TokenCounts {
  /** With those that were read from a cache or written to it. */
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly output: number
}

type PricedName = { readonly provider: string | undefined; readonly model: string }

/** The providers of the price list by our names for them. */
export const pricedProviders: ReadonlyMap<string, string> = new Map([
  ['openai', 'openai'],
  ['azure', 'azure'],
  ['anthropic', 'anthropic'],
  ['google', 'google'],
  ['gemini', 'google'],
  ['bedrock', 'aws'],
  ['openrouter', 'openrouter'],
  ['deepseek', 'deepseek'],
  ['groq', 'groq'],
  ['mistral', 'mistral'],
  ['xai', 'x-ai'],
])

export const noModelFacts: ModelFacts = { contextWindow: undefined, cost: () => undefined }

/** Looks a model up in the price list, which is loaded here. */
export async function loadModelFacts(llm: Llm, route: ModelRoute): Promise<ModelFacts> {
  const name = pricedName(llm, route)
  if (name === undefined) return noModelFacts
  const { calcPrice } = await import('@pydantic/genai-prices')
  const look = (usage: Record<string, number>, timestamp: Date) => {
    try {
      const options = { timestamp, ...(name.provider === undefined ? {} : { providerId: name.provider }) }
      return calcPrice(usage, name.model, options) ?? undefined
    } catch {
      // It refuses a usage that does not add up; that is no reason to fail an answer.
      return undefined
    }
  }
  return {
    contextWindow: look({ input_tokens: 1, output_tokens: 1 }, new Date())?.model.context_window,
    cost: ({ input, cacheRead, cacheWrite, output }, at) => {
      const usage = {
        input_tokens: input,
        cache_read_tokens: cacheRead,
        cache_write_tokens: cacheWrite,
        output_tokens: output,
      }
      return look(usage, at)?.total_price
    },
  }
}

/** The name to look up; none for servers of one's own, where a name that is sold elsewhere costs nothing. */
function pricedName(llm: Llm, { provider, name, baseUrl }: ModelRoute): PricedName | undefined {
  const canonical = llm.model_canonical_name
  if (canonical !== undefined) return split(canonical)
  if (provider === 'litellm_proxy') return split(name)
  if (provider === 'openai' && baseUrl !== undefined && !isOpenaiName(name)) return undefined
  const listed = pricedProviders.get(provider)
  return listed === undefined || provider === 'gemini' ? undefined : { provider: listed, model: name }
}

function split(name: string): PricedName {
  const at = name.indexOf('/')
  if (at < 0) return { provider: undefined, model: name }
  const provider = name.slice(0, at)
  return { provider: pricedProviders.get(provider) ?? provider, model: name.slice(at + 1) }
}
