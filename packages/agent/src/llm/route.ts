import type { Llm } from '@slipway/protocol'
import { findProvider } from './capabilities/capabilities.ts'
import { type ProviderApi, providers } from './capabilities/provider-table.ts'

export type { ProviderApi } from './capabilities/provider-table.ts'

export interface ModelRoute {
  /** The prefix of the model's name, or a guess: `openai`, `anthropic`, `openrouter`, ... */
  readonly provider: string
  readonly name: string
  readonly api: ProviderApi
  /** Undefined: the provider's own. */
  readonly baseUrl: string | undefined
}

const openaiNames = /^(gpt-(?!oss)|chatgpt-|o\d|codex|computer-use)/
/** Models whose reasoning only the Responses interface returns. */
const responsesNames = /^(gpt-(?:[5-9]|\d\d)|o\d|codex|computer-use)/

/** Other spellings of a prefix. */
const prefixAliases = ['google', 'ollama_chat', 'openai-compatible', 'openai_like']

/** The prefixes that a model's name may have, each in one spelling. */
export function providerNames(): readonly string[] {
  return providers.flatMap(({ prefixes }) => prefixes).filter((name) => !prefixAliases.includes(name))
}

export function isOpenaiName(name: string): boolean {
  return openaiNames.test(name)
}

/** Host and port of the address; undefined: the provider's own. */
export function serverOf({ baseUrl }: Pick<ModelRoute, 'baseUrl'>): string | undefined {
  return baseUrl === undefined ? undefined : URL.parse(baseUrl)?.host
}

/** A model's name with the host of its address: what a server takes is learned for both. */
export function learnedModelName({ model, base_url }: Pick<Llm, 'model' | 'base_url'>): string {
  const host = serverOf({ baseUrl: base_url })
  return host === undefined ? model : `${model} at ${host}`
}

/** The route of a model, or what is missing for one. `scripted/` models have none. */
export function resolveRoute(llm: Llm): ModelRoute | { readonly issue: string } {
  const { provider, name } = splitModelName(llm)
  const baseUrl = normalizeBaseUrl(llm, provider)
  const route = (api: ProviderApi) => ({ provider, name, api, baseUrl })
  const known = findProvider(provider)
  if (known?.hasDeployments) {
    if (baseUrl === undefined) return { issue: `An ${provider}/ model needs a base_url.` }
    return route(llm.api_mode === 'responses' ? 'responses' : 'chat')
  }
  if (known?.api === 'openai') return route(openaiApi(llm, name, baseUrl))
  if (known !== undefined && known.api !== 'compatible') return route(known.api)
  const url = baseUrl ?? known?.baseUrl
  const isSearching = llm.web_search === true && llm.api_mode !== 'chat' && known?.searchModels?.test(name)
  if (url !== undefined)
    return { provider, name, api: isSearching ? 'responses' : 'compatible', baseUrl: url }
  return {
    issue: `Nothing is known about the provider of the model "${llm.model}": give its base_url, or a prefix such as openai/ or anthropic/.`,
  }
}

function splitModelName(llm: Llm): { provider: string; name: string } {
  const { model } = llm
  const at = model.indexOf('/')
  const prefix = model.slice(0, Math.max(at, 0))
  const rest = model.slice(at + 1)
  const known = findProvider(prefix)
  if (known !== undefined) return { provider: known.api === 'google' ? 'google' : prefix, name: rest }
  if (at < 0 && llm.base_url === undefined) return { provider: guess(model), name: model }
  return { provider: prefix, name: model }
}

function guess(name: string): string {
  if (isOpenaiName(name)) return 'openai'
  if (name.startsWith('claude-')) return 'anthropic'
  if (name.startsWith('gemini-')) return 'google'
  return ''
}

function openaiApi(llm: Llm, name: string, baseUrl: string | undefined): ProviderApi {
  if (llm.api_mode === 'responses') return 'responses'
  // Such a server may send more than OpenAI does (reasoning_content), in a looser format.
  if (baseUrl !== undefined) return isOpenaiName(name) ? 'chat' : 'compatible'
  return llm.api_mode === 'auto' && responsesNames.test(name) ? 'responses' : 'chat'
}

/** The base URL in the form of the provider's library; undefined: the provider's own address. */
function normalizeBaseUrl({ base_url }: Llm, provider: string): string | undefined {
  if (base_url === undefined || base_url.trim() === '') return undefined
  const url = base_url.trim().replace(/\/+$/, '')
  if (provider === 'openai' && /^https:\/\/api\.openai\.com(\/v1)?$/.test(url)) return undefined
  if (provider === 'anthropic') return /\/v\d+$/.test(url) ? url : `${url}/v1`
  if (provider === 'google') return /\/v\d+(alpha|beta)?$/.test(url) ? url : `${url}/v1beta`
  return url
}
