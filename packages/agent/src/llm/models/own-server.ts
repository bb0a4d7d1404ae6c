import { type Llm, llm as llmSchema } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import { asRecord } from '@slipway/shared/json'
import { isLoopback } from '@slipway/shared/url'
import { providerOf } from '../capabilities/capabilities.ts'
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

/** A server that somebody runs for themselves, and no hosted provider. */
export function isOwnServer(route: ModelRoute): boolean {
  return route.api === 'compatible' && providerOf(route)?.needsKey !== true
}

function isOnThisMachine({ baseUrl }: ModelRoute): boolean {
  const url = baseUrl === undefined ? null : URL.parse(baseUrl)
  return url !== null && isLoopback(url.hostname)
}

const defaultSeconds = llmSchema.parse({ model: 'any' }).timeout
/** On a slow machine a model reads a long prompt for many minutes. */
const patientMs = 3_600_000

/** Milliseconds until the first part of a reply: a server of this machine works on as long as it is let. */
export function firstPartLimit({ llm, route }: Pick<OwnServer, 'llm' | 'route'>): number | undefined {
  const { timeout } = llm
  if (timeout === defaultSeconds && isOwnServer(route) && isOnThisMachine(route)) return patientMs
  return timeout ? timeout * 1000 : undefined
}

/**
 * What a person can do about a failure of a local server: start it, name a model that it has, or take a
 * smaller one. A refused port of this machine is final, since nothing starts there while a run waits; and so
 * is a silence of an hour: asked again, the server would begin the same work again.
 */
export async function explainFailure(
  failure: ProviderFailure,
  { hasBegun, ...options }: OwnServer & { readonly hasBegun: boolean },
): Promise<ProviderFailure> {
  const { route } = options
  const url = route.baseUrl === undefined ? null : URL.parse(route.baseUrl)
  if (url === null || route.api !== 'compatible') return failure
  if (failure.isRefused && isLoopback(url.hostname)) {
    const detail = `${failure.detail}: nothing listens at ${url.host}. Is the model server running?`
    return { ...failure, detail, isRetryable: false }
  }
  const isSilent = failure.code === 'LLMTimeoutError' && failure.status === undefined && !hasBegun
  if (isSilent && firstPartLimit(options) === patientMs) {
    const detail = `${failure.detail} The server at ${url.host} may still read the prompt: set a longer \`timeout\` of the model, or use a smaller model.`
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
