import type { Llm } from '@slipway/protocol'
import { providers } from '../capabilities/provider-table.ts'
import { isOpenaiName, type ModelRoute } from '../route.ts'

/** Facts about a model from the bundled price list; fetches nothing. */
export interface ModelFacts {
  readonly contextWindow: number | undefined
  /** Dollars for these tokens at a date; undefined when no price is known. */
  cost(tokens: TokenCounts, at: Date): number | undefined
}

export interface TokenCounts {
  /** Includes tokens read from or written to a cache. */
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly output: number
}

type PricedName = { readonly provider: string | undefined; readonly model: string }

/** The providers of the price list by our names for them. */
export const pricedProviders: ReadonlyMap<string, string> = new Map(
  providers.flatMap(({ prefixes, prices }) =>
    prices === undefined ? [] : prefixes.map((prefix) => [prefix, prices] as const),
  ),
)

export const noModelFacts: ModelFacts = { contextWindow: undefined, cost: () => undefined }

/** Loads the price list and finds a model in it. */
export async function loadModelFacts(llm: Llm, route: ModelRoute): Promise<ModelFacts> {
  const name = pricedName(llm, route)
  if (name === undefined) return noModelFacts
  const { calcPrice } = await import('@pydantic/genai-prices')
  const look = (usage: Record<string, number>, timestamp: Date) => {
    try {
      const options = { timestamp, ...(name.provider === undefined ? {} : { providerId: name.provider }) }
      return calcPrice(usage, name.model, options) ?? undefined
    } catch {
      // The library rejects inconsistent usage; the reply does not fail for that.
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

/** The name in the price list; undefined for self-hosted servers, which cost nothing. */
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
