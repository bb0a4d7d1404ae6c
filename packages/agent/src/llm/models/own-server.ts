import type { Llm } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import { asRecord } from '@slipway/shared/json'
import { isLoopback } from '@slipway/shared/url'
import type { ProviderFailure } from '../failures.ts'
import type { ModelRoute } from '../route.ts'

const askMs = 2_000
const maxListBytes = 1024 * 1024
const maxNamed = 10

/**
 * What a person can do about a failure of a server of their own: start it, or name a model that it has. A refused
 * port of this machine is final, since nothing starts there while a run waits.
 */
export async function explainFailure(
  failure: ProviderFailure,
  {
    llm,
    route,
    fetch,
  }: { readonly llm: Llm; readonly route: ModelRoute; readonly fetch: typeof globalThis.fetch },
): Promise<ProviderFailure> {
  const url = route.baseUrl === undefined ? null : URL.parse(route.baseUrl)
  if (url === null || route.api !== 'compatible') return failure
  if (failure.isRefused && isLoopback(url.hostname)) {
    const detail = `${failure.detail}: nothing listens at ${url.host}. Is the model server running?`
    return { ...failure, detail, isRetryable: false }
  }
  if (failure.status !== 404) return failure
  const names = await listModels(llm, route, fetch)
  if (names.includes(route.name)) return failure
  const pull = route.provider.startsWith('ollama') ? ` Get it with \`ollama pull ${route.name}\`.` : ''
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : ''
  const has = names.length === 0 ? '' : ` The server has ${names.slice(0, maxNamed).join(', ')}${more}.`
  return { ...failure, detail: failure.detail + pull + has }
}

/** Empty when the server does not tell. */
async function listModels(
  { api_key, extra_headers }: Llm,
  route: ModelRoute,
  fetch: typeof globalThis.fetch,
) {
  const key = api_key === undefined ? {} : { authorization: `Bearer ${api_key}` }
  const signal = AbortSignal.timeout(askMs)
  try {
    const headers = { ...key, ...extra_headers }
    const answer = await fetch(`${route.baseUrl}/models`, { headers, redirect: 'manual', signal })
    const { data } = asRecord(await readJson(answer, maxListBytes))
    const ids = Array.isArray(data) ? data.map((one: unknown) => asRecord(one).id) : []
    return ids.filter((id) => typeof id === 'string')
  } catch {
    return []
  }
}
