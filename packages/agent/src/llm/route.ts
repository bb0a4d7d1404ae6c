import type { Llm } from '@slipway/protocol'

export type ProviderApi = 'chat' | 'responses' | 'anthropic' | 'google' | 'bedrock' | 'compatible'

export interface ModelRoute {
  /** The prefix of the model's name, or a guess: `openai`, `anthropic`, `openrouter`, ... */
  readonly provider: string
  readonly name: string
  readonly api: ProviderApi
  /** Undefined: the provider's own. */
  readonly baseUrl: string | undefined
}

/** Servers with an interface like OpenAI's, by prefix, with their addresses if known. */
const compatibleServers: ReadonlyMap<string, string | undefined> = new Map([
  ['openrouter', 'https://openrouter.ai/api/v1'],
  ['ollama', 'http://127.0.0.1:11434/v1'],
  ['ollama_chat', 'http://127.0.0.1:11434/v1'],
  ['deepseek', 'https://api.deepseek.com/v1'],
  ['groq', 'https://api.groq.com/openai/v1'],
  ['mistral', 'https://api.mistral.ai/v1'],
  ['xai', 'https://api.x.ai/v1'],
  ['litellm_proxy', undefined],
  ['openai-compatible', undefined],
  ['openai_compatible', undefined],
  ['openai_like', undefined],
  ['hosted_vllm', undefined],
  ['vllm', undefined],
  ['lm_studio', undefined],
])

const openaiNames = /^(gpt-(?!oss)|chatgpt-|o\d|codex|computer-use)/
/** Models whose reasoning only the Responses interface returns. */
const responsesNames = /^(gpt-(?:[5-9]|\d\d)|o\d|codex|computer-use)/

/** Other spellings of a prefix. */
const prefixAliases = ['ollama_chat', 'openai-compatible', 'openai_like']

/** The prefixes that a model's name may have, each in one spelling. */
export function providerNames(): readonly string[] {
  const own = ['openai', 'anthropic', 'gemini', 'bedrock', 'azure']
  return [...own, ...[...compatibleServers.keys()].filter((name) => !prefixAliases.includes(name))]
}

export function isOpenaiName(name: string): boolean {
  return openaiNames.test(name)
}

/** The route of a model, or what is missing for one. `scripted/` models have none. */
export function resolveRoute(llm: Llm): ModelRoute | { readonly issue: string } {
  const { provider, name } = splitModelName(llm)
  const baseUrl = normalizeBaseUrl(llm, provider)
  const route = (api: ProviderApi) => ({ provider, name, api, baseUrl })
  switch (provider) {
    case 'openai':
      return route(openaiApi(llm, name, baseUrl))
    case 'azure':
      if (baseUrl === undefined) return { issue: 'An azure/ model needs a base_url.' }
      return route(llm.api_mode === 'responses' ? 'responses' : 'chat')
    case 'anthropic':
    case 'google':
    case 'bedrock':
      return route(provider)
    default: {
      const url = baseUrl ?? compatibleServers.get(provider)
      if (url !== undefined) return { provider, name, api: 'compatible', baseUrl: url }
      return {
        issue: `Nothing is known about the provider of the model "${llm.model}": give its base_url, or a prefix such as openai/ or anthropic/.`,
      }
    }
  }
}

function splitModelName(llm: Llm): { provider: string; name: string } {
  const { model } = llm
  const at = model.indexOf('/')
  const prefix = model.slice(0, Math.max(at, 0))
  const rest = model.slice(at + 1)
  if (prefix === 'gemini' || prefix === 'google') return { provider: 'google', name: rest }
  if (['openai', 'azure', 'anthropic', 'bedrock'].includes(prefix)) return { provider: prefix, name: rest }
  if (compatibleServers.has(prefix)) return { provider: prefix, name: rest }
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
