import type { Llm } from '@slipway/protocol'
import { type Provider, plainServer, providers, type ServerCapabilities } from './provider-table.ts'

const byPrefix: ReadonlyMap<string, Provider> = new Map(
  providers.flatMap((provider) => provider.prefixes.map((prefix) => [prefix, provider] as const)),
)
const byHost: ReadonlyMap<string, Provider> = new Map(
  providers.flatMap((provider) =>
    provider.baseUrl?.startsWith('https:') ? [[new URL(provider.baseUrl).hostname, provider] as const] : [],
  ),
)

/** The provider with a prefix of model names. */
export function findProvider(prefix: string): Provider | undefined {
  return byPrefix.get(prefix)
}

/**
 * The provider of a route: by the host of its address where the interface is OpenAI's, else by its prefix.
 */
export function providerOf(route: RouteFacts): Provider | undefined {
  const named = byPrefix.get(route.provider)
  if (named !== undefined && !['openai', 'compatible'].includes(named.api)) return named
  const url = route.baseUrl === undefined ? null : URL.parse(route.baseUrl)
  const atHost = url === null ? undefined : byHost.get(url.hostname)
  if (atHost !== undefined) return atHost
  // `openai/` with its own address is a server that nothing is known about.
  return route.provider === 'openai' && url !== null ? undefined : named
}

interface RouteFacts {
  readonly provider: string
  readonly name: string
  readonly baseUrl: string | undefined
}

/** What one model accepts at its server. */
export interface ModelCapabilities extends Omit<ServerCapabilities, 'cacheMarks'> {
  readonly cacheMarks: 'none' | 'cacheControl' | 'cachePoint' | 'cache_control'
}

const reasoningMembers: readonly unknown[] = ['none', 'reasoning', 'reasoning_content']

/**
 * The capabilities of a route. `capability_overrides` of the settings win: `supports_prompt_cache`,
 * `supports_vision`, and `reasoning_member` (`none`, `reasoning` or `reasoning_content`).
 */
export function modelCapabilities(
  route: RouteFacts,
  overrides: Llm['capability_overrides'] = {},
): ModelCapabilities {
  const server: ServerCapabilities = providerOf(route) ?? plainServer
  const { supports_prompt_cache, supports_vision, reasoning_member } = overrides
  const isPlainWire = server.reasoning !== 'own'
  const reasoning =
    isPlainWire && reasoningMembers.includes(reasoning_member)
      ? (reasoning_member as ServerCapabilities['reasoning']) // one of the list
      : server.reasoning
  return {
    ...server,
    reasoning,
    images: imageForm(server.images, supports_vision),
    cacheMarks: cacheMarks(server, route.name, supports_prompt_cache),
  }
}

function imageForm(images: ServerCapabilities['images'], override: unknown): ServerCapabilities['images'] {
  if (override === false) return 'none'
  return override === true && images === 'none' ? 'any' : images
}

function cacheMarks(
  { cacheMarks, reasoning }: ServerCapabilities,
  model: string,
  override: unknown,
): ModelCapabilities['cacheMarks'] {
  if (override === false) return 'none'
  if (cacheMarks === 'claude') return /claude/i.test(model) || override === true ? 'cache_control' : 'none'
  if (cacheMarks === 'none' && override === true && reasoning !== 'own') return 'cache_control'
  return cacheMarks
}
