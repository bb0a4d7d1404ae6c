import type { Llm } from '@slipway/protocol'
import { limitAnswer, Turnstile } from '@slipway/shared/async'
import { findProvider, modelCapabilities } from '../capabilities/capabilities.ts'
import type { ProviderFailure } from '../failures.ts'
import { isOpenaiName, type ModelRoute } from '../route.ts'
import { fitCompatibleBody } from './compatible-body.ts'
import { findIdleTimeout } from './idle-timeout.ts'
import { fitCompatibleAnswer } from './loose-wire.ts'
import type { SdkModel } from './sdk-types.ts'
import { bedrockRegion, signingFetch } from './signing-fetch.ts'

type Fetch = typeof fetch

/** Stands in when a library requires a key and the server does not. */
const placeholderKey = 'no-key-is-set'
/** 200,000 tokens with an event each are below 100 MiB. */
const answerLimits = { maxBytes: 256 * 1024 * 1024, maxEventBytes: 32 * 1024 * 1024 }

/**
 * The library's model for a route, or why there is none. Sets every option that the library would otherwise
 * read from the environment.
 */
export async function openProvider(
  llm: Llm,
  route: ModelRoute,
  plainFetch: Fetch,
): Promise<SdkModel | ProviderFailure> {
  const failure = findMissingKey(llm, route)
  if (failure !== undefined) return failure
  const sending = route.api === 'bedrock' ? signingFetch(plainFetch, llm) : plainFetch
  const common = {
    fetch: wrapFetch(sending, createBodyEdit(llm, route)),
    headers: llm.extra_headers ?? {},
    apiKey: llm.api_key ?? placeholderKey,
  }
  switch (route.api) {
    case 'chat':
    case 'responses':
      return await (route.provider === 'azure' ? azure(llm, route, common) : openai(route, common))
    case 'anthropic': {
      const { createAnthropic } = await import('@ai-sdk/anthropic')
      const baseURL = route.baseUrl ?? 'https://api.anthropic.com/v1'
      return createAnthropic({ ...common, baseURL })(route.name)
    }
    case 'google': {
      const { createGoogle } = await import('@ai-sdk/google')
      const baseURL = route.baseUrl ?? 'https://generativelanguage.googleapis.com/v1beta'
      return createGoogle({ ...common, baseURL })(route.name)
    }
    case 'bedrock':
      return await bedrock(llm, route, common)
    case 'compatible': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      const { apiKey: _, ...options } = common
      return createOpenAICompatible({
        ...options,
        ...(llm.api_key === undefined ? {} : { apiKey: llm.api_key }),
        name: 'openaiCompatible',
        fetch: async (...sent) => fitCompatibleAnswer(await options.fetch(...sent)),
        baseURL: route.baseUrl ?? '',
        includeUsage: true,
      })(route.name)
    }
  }
}

interface Common {
  readonly fetch: Fetch
  readonly headers: Record<string, string>
  readonly apiKey: string
}

async function openai(route: ModelRoute, common: Common): Promise<SdkModel> {
  const { createOpenAI } = await import('@ai-sdk/openai')
  const baseURL = route.baseUrl ?? 'https://api.openai.com/v1'
  const provider = createOpenAI({ ...common, baseURL })
  return route.api === 'responses' ? provider.responses(route.name) : provider.chat(route.name)
}

/** Azure's Chat interface has an address for each deployment, its Responses interface one for all. */
async function azure(llm: Llm, route: ModelRoute, common: Common): Promise<SdkModel> {
  const { createAzure } = await import('@ai-sdk/azure')
  const base = route.baseUrl ?? ''
  const isVersioned = /\/openai\/v1$/.test(base)
  const useDeploymentBasedUrls = route.api === 'chat' && !isVersioned
  const provider = createAzure({
    ...common,
    baseURL: /\/openai(\/v1)?$/.test(base) ? base : `${base}/openai`,
    useDeploymentBasedUrls,
    apiVersion: llm.api_version ?? (useDeploymentBasedUrls ? '2024-12-01-preview' : 'v1'),
  })
  return route.api === 'responses' ? provider.responses(route.name) : provider.chat(route.name)
}

/** The library would sign a body before it is edited: it is given a key, and `signingFetch` signs. */
async function bedrock(llm: Llm, route: ModelRoute, common: Common): Promise<SdkModel> {
  const { createAmazonBedrock } = await import('@ai-sdk/amazon-bedrock')
  const region = bedrockRegion(llm)
  const baseURL = route.baseUrl ?? `https://bedrock-runtime.${region}.amazonaws.com`
  return createAmazonBedrock({ ...common, region, baseURL })(route.name)
}

function findMissingKey(llm: Llm, route: ModelRoute): ProviderFailure | undefined {
  const { provider, baseUrl } = route
  if (llm.api_key !== undefined || hasAuthHeader(llm)) return undefined
  if (provider === 'bedrock') {
    const isSigned = llm.aws_access_key_id !== undefined && llm.aws_secret_access_key !== undefined
    return isSigned ? undefined : missingKeyFailure('aws_access_key_id and aws_secret_access_key, or api_key')
  }
  const isOwnServer = baseUrl !== undefined && llm.base_url !== undefined
  const isFree = route.api === 'compatible' && findProvider(provider)?.needsKey !== true
  return isOwnServer || isFree ? undefined : missingKeyFailure('api_key')
}

function hasAuthHeader({ extra_headers = {} }: Llm): boolean {
  const names = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key']
  return Object.keys(extra_headers).some((name) => names.includes(name.toLowerCase()))
}

function missingKeyFailure(members: string): ProviderFailure {
  return {
    code: 'LLMAuthenticationError',
    detail: `This model has no key: set ${members} in its settings.`,
    isRetryable: false,
  }
}

/** A key that a library required and no one has set is not sent, beside a header of the settings neither. */
function withoutPlaceholders(given: RequestInit['headers']): Record<string, string> {
  const isSet = (one: string) => one !== placeholderKey && one !== `Bearer ${placeholderKey}`
  const all = [...new Headers(given)].map(
    ([name, value]) => [name, value.split(', ').filter(isSet).join(', ')] as const,
  )
  return Object.fromEntries(all.filter(([, value]) => value !== ''))
}

/** A response that has come as a whole is read in one piece, in some 2 ms. */
const responseTurns = new Turnstile(8)

/** Does not follow redirects: keys go to no other host. */
function wrapFetch(fetch: Fetch, edit: ((body: string) => string) | undefined): Fetch {
  return async (input, init) => {
    const idleTimeout = findIdleTimeout(init?.signal)
    const edits = [edit, idleTimeout?.edit].filter((one) => one !== undefined)
    const given = init?.body
    const body = typeof given === 'string' ? edits.reduce((text, one) => one(text), given) : given
    const headers = withoutPlaceholders(init?.headers)
    const sent = { ...init, headers, ...(body == null ? {} : { body }), redirect: 'manual' } as const
    const received = await fetch(input, sent)
    await responseTurns.pass()
    const response = limitAnswer(received, answerLimits)
    if (idleTimeout === undefined || response.body === null) return response
    idleTimeout.touch()
    idleTimeout.hasResponse = true
    const touchOnChunk = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        idleTimeout.touch()
        controller.enqueue(chunk)
      },
    })
    return new Response(response.body.pipeThrough(touchOnChunk), response)
  }
}

/** Edits request bodies where the library has no option; undefined for most models. */
function createBodyEdit(llm: Llm, route: ModelRoute): ((body: string) => string) | undefined {
  const { api, name } = route
  const isOpenai = api === 'chat' || api === 'responses' || api === 'compatible'
  const extra = isOpenai ? llm.litellm_extra_body : {}
  const dropsReasoning = !llm.enable_encrypted_reasoning && isOpenaiName(name)
  // The text cites the pages of a search; that xAI knows the other name is not documented.
  const dropped = [
    ...(llm.web_search === true ? ['web_search_call.action.sources'] : []),
    ...(dropsReasoning ? ['reasoning.encrypted_content'] : []),
  ]
  const isDropping = api === 'responses' && dropped.length > 0
  const isCompatible = api === 'compatible'
  if (Object.keys(extra).length === 0 && !isDropping && !isCompatible) return undefined
  const capabilities = modelCapabilities(route, llm.capability_overrides)
  return (body) => {
    const parsed: Record<string, unknown> = JSON.parse(body)
    const members = { ...(isCompatible ? fitCompatibleBody(parsed, capabilities) : parsed), ...extra }
    if (isDropping && Array.isArray(members.include)) {
      members.include = members.include.filter((one: string) => !dropped.includes(one))
    }
    return JSON.stringify(members)
  }
}
