import type { Handlers, PageCredential, ProxyRoute, ScopedKey, SocketRoute } from '@slipway/http'
import type { agentServerRoutes, Problem, RouteTable } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import type { Module, OpenedModule } from './core/module.ts'
import { type CoreOptions, coreRoutes, openCore } from './core/open-core.ts'
import type { PageTokens } from './core/peers/page-tokens.ts'
import { routeCaller } from './core/server/call-route.ts'
import { doors, ownModules } from './modules/modules.ts'

/**
 * The agent server is a core (conversations, streams, webhooks, peers) and a list of modules. Modules are
 * opened in the order of the list and closed in reverse; each gets the core, and what the modules that it
 * names offer. Routes, sockets and proxies of all modules are known before any of them is open, because a
 * deferred server listens first.
 */

type AnyHandlers = Partial<Handlers<typeof agentServerRoutes>>
type AnyOpened = OpenedModule<RouteTable, unknown>

/** The modules that a server is made of; `compat`: also those that only clients of the reference ask for. */
export async function loadModules(
  config: Readonly<Record<'hasCompat' | keyof typeof doors, boolean>>,
): Promise<Module[]> {
  const opened = Object.entries(doors).filter(([name]) => config[name as keyof typeof doors])
  const compat = config.hasCompat ? (await import('./compat/modules.ts')).compatModules : []
  return [...ownModules, ...opened.map(([, door]) => door), ...compat]
}

/** The routes of the core and of modules. */
export function routesOf(modules: readonly Module[]): RouteTable {
  return Object.assign({ ...coreRoutes }, ...modules.map(({ routes }) => routes))
}

/** An open server, all of its modules included. */
export interface OpenServer extends AsyncDisposable {
  readonly handlers: AnyHandlers
  /** By path. */
  readonly sockets: Readonly<Record<string, SocketRoute>>
  /** By prefix. */
  readonly proxies: Readonly<Record<string, ProxyRoute>>
  readonly metrics: readonly Metric[]
  /** Of its modules. */
  serverInfo(): Readonly<Record<string, unknown>>
  releaseMemory(): Promise<void>
  /** What admits a page without a session key. */
  authenticatePage(...request: Parameters<PageTokens['authenticate']>): PageCredential | Problem | undefined
  findScopedKey(key: string): Promise<ScopedKey | undefined>
}

/**
 * Opens everything that depends on keys and secrets, and continues the runs of the last process. Rejects when
 * a module needs one that is not in the list before it.
 */
export async function openServer(options: CoreOptions, modules: readonly Module[]): Promise<OpenServer> {
  await using resources = new AsyncDisposableStack()
  const opened = new Map<Module, AnyOpened>()
  let served: AnyHandlers = {}
  const findPageTokens = () => [...opened.values()].find((one) => one.pageTokens !== undefined)?.pageTokens
  const call = routeCaller(routesOf(modules), () => served)
  const opening = await openCore(options, { call, findPageTokens })
  const { core, peers } = opening
  resources.use(opening)
  for (const module of modules) {
    const missing = module.needs.find((needed) => !opened.has(needed))
    if (missing !== undefined)
      throw new Error(
        `The module ${module.name} needs the module ${missing.name}, which is not opened before it`,
      )
    const result = await module.open(core, <O>(needed: Module<O>) => opened.get(needed)?.offer as O)
    opened.set(module, result)
    if (result.conversations !== undefined) core.parts.add(result.conversations)
    if (result.close !== undefined) resources.use(asAsyncDisposable(result.close))
  }
  await opening.start()
  const all = [...opened.values()]
  const { credentials } = core.parts
  const wrapSocket = (route: SocketRoute) => credentials?.wrapSocket(route) ?? route
  const handlers = Object.assign({ ...opening.handlers }, ...all.map((one) => one.handlers)) as AnyHandlers
  const guarded = credentials?.wrap(handlers) ?? handlers
  served = peers?.wrap(guarded) ?? guarded
  // Conversations end before what they use does.
  resources.defer(() => opening.stop())
  const closing = resources.move()
  return {
    handlers: served,
    sockets: Object.assign(
      Object.fromEntries(opening.sockets.map((route) => [route.path, wrapSocket(route)])),
      ...all.map((one) => one.sockets),
    ),
    proxies: Object.assign({}, ...all.map((one) => one.proxies)),
    metrics: [...opening.metrics, ...all.flatMap((one) => one.metrics ?? [])],
    serverInfo: () => Object.assign({}, ...all.map((one) => one.serverInfo?.())),
    releaseMemory: () => core.registry.releaseMemory(),
    findScopedKey: async (key) => await all.find((one) => one.findScopedKey)?.findScopedKey?.(key),
    authenticatePage: (...request) => findPageTokens()?.authenticate(...request),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  }
}

function asAsyncDisposable(resource: AsyncDisposable | Disposable): AsyncDisposable {
  if (Symbol.asyncDispose in resource) return resource
  return { [Symbol.asyncDispose]: async () => resource[Symbol.dispose]() }
}
