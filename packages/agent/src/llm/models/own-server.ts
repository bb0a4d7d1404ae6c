import type { Llm } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import { asRecord } from '@slipway/shared/json'
import { isLoopback } from '@slipway/shared/url'
import type { ProviderFailure } from '../failures.ts'
import type { ModelEnvironment } from '../model.ts'
import type { ModelRoute } from '../route.ts'

const askMs = 2_000
const maxListBytes = 1024 * 1024
const maxNamed = 10

export interface OwnServer {
  readonly llm: Llm
  readonly route: ModelRoute
  readonly environment: Pick<ModelEnvironment, 'clock' | 'fetch'>
}

/**
 * What a person can do about a failure of a server of their own: start it, or name a model that it has. A
 * refused port of this machine is final, since nothing starts there while a run waits.
 */
export async function explainFailure(failure: ProviderFailure, options: OwnServer): Promise<ProviderFailure> {
  const { route } = options
  const url = route.baseUrl === undefined ? null : URL.parse(route.baseUrl)
  if (url === null || route.api !== 'compatible') return failure
  if (failure.isRefused && isLoopback(url.hostname)) {
    const detail = `${failure.detail}: nothing listens at ${url.host}. Is the model server running?`
    return { ...failure, detail, isRetryable: false }
  }
  if (failure.status !== 404) return failure
  const names = await listModels(options)
  if (names.includes(route.name)) return failure
  const pull = route.provider.startsWith('ollama') ? ` Get it with \`ollama pull ${route.name}\`.` : ''
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : ''
  const has = names.length === 0 ? '' : ` The server has ${names.slice(0, maxNamed).join(', ')}${more}.`
  return { ...failure, detail: failure.detail + pull + has }
}

/** Empty when the server does not tell. */
async function listModels(options: OwnServer): Promise<readonly string[]> {
  const { data } = asRecord(await askServer(options, `${options.route.baseUrl}/models`))
  const ids = Array.isArray(data) ? data.map((one: unknown) => asRecord(one).id) : []
  return ids.filter((id) => typeof id === 'string')
}

/** What a server answers at one of its addresses, to `body` if there is one; undefined when it does not. */
export async function askServer(
  { llm, environment }: OwnServer,
  url: string,
  body?: object,
): Promise<unknown> {
  const { api_key, extra_headers } = llm
  const key = api_key === undefined ? {} : { authorization: `Bearer ${api_key}` }
  const headers = { ...key, ...extra_headers }
  const posted = body && { method: 'POST', body: JSON.stringify(body) }
  const signal = environment.clock.timeout(askMs)
  try {
    const answer = await environment.fetch(url, { ...posted, headers, redirect: 'manual', signal })
    return answer.ok ? await readJson(answer, maxListBytes) : undefined
  } catch {
    return undefined
  }
}
