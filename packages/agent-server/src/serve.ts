import { resolve } from 'node:path'
import {
  type AppOptions,
  type AuditCaller,
  ConsoleSite,
  ConsoleTokens,
  consoleHandlers,
  createApp,
  createLogger,
  isHostNameOf,
  listen,
  openTelemetry,
  Readiness,
  type ScopedKey,
  StaticFolder,
} from '@slipway/http'
import {
  agentServerOpenApiOf,
  consoleRoutes,
  healthRoutes,
  initRoutes,
  type LogFunction,
  type RouteTable,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { hideFromDebuggers, loadLibc } from '@slipway/shared/process'
import { type Clock, systemClock } from '@slipway/shared/time'
import { isLoopback } from '@slipway/shared/url'
import { Cipher, openServerStorage, type ServerStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { type Config, readConfig } from './core/config/config.ts'
import { openSessionKey, type StoredSessionKey } from './core/config/session-key.ts'
import { compatSettings } from './core/config/settings.ts'
import { DeferredInit } from './core/init/deferred-init.ts'
import { initHandlers } from './core/init/handlers.ts'
import { WorkMetrics } from './core/metrics/work-metrics.ts'
import type { Module } from './core/module.ts'
import { type CoreOptions, coreSockets, killLeftovers } from './core/open-core.ts'
import { derivePeerKey, withPeerKey } from './core/peers/peer-key.ts'
import { Activity } from './core/server/activity.ts'
import { ConsoleSessions } from './core/server/console-sessions.ts'
import { healthHandlers } from './core/server/health-handlers.ts'
import { collectGarbage, relaxHeapGrowth, shrinkHeapWhenIdle } from './core/server/heap.ts'
import { Ingress } from './core/server/ingress.ts'
import { lazyBridgeRoute, lazyHandlers, lazySocketRoute } from './core/server/lazy-handlers.ts'
import { startToolUser } from './core/server/tool-user.ts'
import { openWebClient } from './core/server/web-client.ts'
import { loadModules, type OpenServer, openServer, routesOf } from './server.ts'

export interface ServeOptions {
  readonly host: string
  readonly port: number
  /** Path of a Unix socket to listen on instead. */
  readonly socket?: string | undefined
  /** Data directory; created when missing. */
  readonly data: string
  /** Directory of a web client that is served at `/`; `SLIPWAY_WEB` unless passed. */
  readonly web?: string | undefined
  /**
   * Directory of the built console, or a promise of it, which is served at `/` unless there is a web client.
   */
  readonly console?: string | Promise<string | undefined> | undefined
  /** Makes no session key, like `SLIPWAY_NO_KEY`: without configured keys every local user may call. */
  readonly noKey?: boolean | undefined
  /** The environment: settings named `SLIPWAY_*`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Decides when time passes; that of the machine unless given. */
  readonly clock?: Clock | undefined
  /** Aborting it stops the server gracefully; see `abortAtStopSignals`. */
  readonly signal: AbortSignal
  /**
   * `sessionKey` is the one of the data directory; undefined where keys are configured, or none is needed.
   * `consoleUrl` is the address of the console, with a token that signs in once where a key is needed;
   * undefined without a console.
   */
  ready?(url: string, sessionKey?: StoredSessionKey, consoleUrl?: string): void
}

/** Runs the server. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  relaxHeapGrowth()
  const libc = await loadLibc()
  libc?.returnFreedMemory()
  const settings = readConfig(options.env)
  assertInitKey(settings, options)
  const { clock = systemClock, data } = options
  const directory = resolve(data)
  const log = createLogger(process.stderr, settings.logLevel)
  await using telemetry = await openTelemetry(settings.telemetry, {
    service: 'slipway-agent-server',
    version: ownPackage.version,
    log,
  })
  const workMetrics = new WorkMetrics({
    traces: telemetry.traces,
    hasLatestGenAi: settings.telemetry.traces?.hasLatestGenAi,
    metricsExport: telemetry.metricsExport,
  })
  const modules = await loadModules(settings)
  if (!settings.hasCompat) warnOfUnusedSettings(options.env, log)
  const pages = await openPages(options, settings, () => deferredInit.keys?.length !== 0)
  await using storage = await openServerStorage({
    ...{ directory, log, limits: settings.storageLimits },
    database: settings.databaseUrl && {
      url: settings.databaseUrl.reveal(),
      directUrl: settings.databaseDirectUrl?.reveal(),
      leaseMs: settings.sharing?.leaseMs,
    },
  })
  await startToolUser(settings.toolUser, directory)
  const storedKey = makesKey(settings, options) ? await openSessionKey(directory, log) : undefined
  const config = storedKey === undefined ? settings : withSessionKey(settings, storedKey)
  if (config.sessionKeys.some((key) => key.reveal().length < minKeyLength))
    log('warn', `a session key has fewer than ${minKeyLength} characters`)
  const ingress = new Ingress(config.applicationIngress)
  const peerKey = settings.sharing && settings.secretKey && derivePeerKey(settings.secretKey)
  const activity = new Activity()
  let ownPort: number | undefined
  const active: ActiveStorage = { storage }
  const common = { clock, ingress, log, activity, workMetrics, peerKey, port: () => ownPort }
  await using deferredInit = new DeferredInit({
    config,
    isExposed: options.socket === undefined && !isLoopback(options.host),
    log,
    openServer: serverOpener({ ...common, directory, modules, active, config }),
  })
  await (config.isDeferred ? prepareInit(directory, config, log) : deferredInit.start())
  telemetry.metrics.registry.add(
    () => active.storage.metrics,
    () => workMetrics.all,
    () => (deferredInit.state === 'ready' ? deferredInit.server.metrics : []),
  )
  const tokens = new ConsoleTokens()
  const listening = await listen(
    openApp({
      ...{ config, deferredInit, modules, pages, active, telemetry, ingress, activity, peerKey, clock, log },
      tokens,
      consoleSessions: await ConsoleSessions.open(directory, () => deferredInit.keys),
    }),
    options.socket === undefined
      ? { host: options.host, port: options.port }
      : { socketPath: resolve(options.socket) },
  )
  ownPort = options.socket === undefined ? Number(new URL(listening.url).port) : undefined
  if (settings.sharing !== undefined)
    await storage.leases?.announce(settings.sharing.peerUrl ?? ownPeerUrl(listening.url))
  log('debug', 'listening', { url: listening.url })
  await hideFromDebuggers()
  const [key] = deferredInit.keys ?? []
  const link = key === undefined ? '' : `#token=${tokens.create(key.reveal()).token}`
  options.ready?.(listening.url, storedKey, pages.consoleSite && `${config.webUrl ?? listening.url}/${link}`)
  using _ = config.isDeferred
    ? undefined
    : shrinkHeapWhenIdle(clock, async () => {
        await deferredInit.server.releaseMemory()
        active.storage.releaseMemory()
      })
  await listening.serveUntil(options.signal)
}

/** That of the start, or where init settings say. */
interface ActiveStorage {
  storage: ServerStorage
}

type OpenerOptions = Omit<CoreOptions, 'storage' | 'leftoversKilled'> & {
  readonly modules: readonly Module[]
  readonly active: ActiveStorage
}

/** What opens the server with the settings of the start, or with those that were delivered later. */
function serverOpener(options: OpenerOptions): (config: Config) => Promise<OpenServer> {
  const { directory, modules, active, log, config: settings } = options
  const homes = modules.flatMap(({ programHomes }) => programHomes ?? [])
  // The lock of the storage is held: no other server uses the directory.
  const leftoversKilled = killLeftovers(directory, settings, homes)
  leftoversKilled.catch(() => {})
  return async (config) => {
    const { dataDirectory } = config
    if (dataDirectory === undefined)
      return await openServer({ ...options, config, storage: active.storage, leftoversKilled }, modules)
    if (settings.databaseUrl !== undefined)
      throw new Error('conversations_path: the conversations of this server are in a database')
    await using resources = new AsyncDisposableStack()
    const limits = settings.storageLimits
    const storage = resources.use(
      await openServerStorage({ directory: dataDirectory, log, limits, database: undefined }),
    )
    const place = { directory: dataDirectory, storage }
    const delivered = { ...place, leftoversKilled: killLeftovers(dataDirectory, config, homes) }
    const server = resources.use(await openServer({ ...options, ...delivered, config }, modules))
    active.storage = storage
    const disposables = resources.move()
    return { ...server, [Symbol.asyncDispose]: () => disposables.disposeAsync() }
  }
}

/** What browsers get at `/`: a web client, the console, or files of a folder below `/static`. */
async function openPages(options: ServeOptions, settings: Config, isKeyNeeded: () => boolean) {
  const webDirectory = options.web ?? settings.webDirectory
  const webClient =
    webDirectory === undefined ? undefined : await openWebClient(resolve(webDirectory), isKeyNeeded)
  const consoleSite =
    options.console === undefined || webClient !== undefined || !settings.hasConsole
      ? undefined
      : new ConsoleSite(options.console)
  const page = webClient?.site ?? consoleSite
  const { staticDirectory } = settings
  const staticFolder =
    staticDirectory === undefined ? undefined : await StaticFolder.open(resolve(staticDirectory), page)
  return {
    consoleSite,
    site: staticFolder ?? page,
    root: staticFolder?.exists ? staticFolder : (webClient ?? consoleSite),
  }
}

interface AppDeps extends Pick<CoreOptions, 'config' | 'ingress' | 'activity' | 'peerKey' | 'clock' | 'log'> {
  readonly deferredInit: DeferredInit<OpenServer>
  readonly modules: readonly Module[]
  readonly pages: Awaited<ReturnType<typeof openPages>>
  readonly active: ActiveStorage
  readonly telemetry: Pick<AppOptions, 'metrics' | 'traces'>
  readonly tokens: ConsoleTokens
  readonly consoleSessions: ConsoleSessions
}

/** Every route, those of modules too: they answer once the server has its settings. */
function openApp(deps: AppDeps) {
  const { config, deferredInit, modules, pages, active, ingress, activity, peerKey, clock, log } = deps
  const { consoleSessions, tokens } = deps
  const readiness = new Readiness({ drainMs: config.drainMs, clock })
  const ownHandlers = {
    ...consoleHandlers({
      ...{ server: 'agent', version: ownPackage.version, accounts: consoleSessions, tokens },
      publicUrl: () => deferredInit.webUrl,
    }),
    ...healthHandlers({
      version: ownPackage.version,
      build: ownPackage.build,
      capabilities: modules.flatMap((module) => module.capabilities),
      browser: config.browser,
      ingressUrl: ingress.url,
      readiness,
      getLastActivityMs: () => activity.lastMs,
      getInitState: () => deferredInit.state,
      getModuleInfo: () => (deferredInit.state === 'ready' ? deferredInit.server.serverInfo() : {}),
      checkStorage: () => active.storage.health.check(),
      webClient: pages.root,
    }),
    ...initHandlers(deferredInit),
  }
  const moduleRoutes = routesOf(modules)
  const routes = { ...healthRoutes, ...consoleRoutes, ...initRoutes, ...moduleRoutes }
  const lazy = lazyHandlers(Object.keys(moduleRoutes), () => deferredInit.server.handlers, activity)
  const handlers = { ...ownHandlers, ...lazy }
  const sockets = [...coreSockets, ...modules.flatMap((module) => module.sockets)]
  const proxies = modules.flatMap((module) => module.proxies)
  return createApp<RouteTable>(routes, handlers, {
    openapi: agentServerOpenApiOf(Object.keys(routes)),
    openDocs: true,
    sockets: sockets.map((socket) => lazySocketRoute(socket, () => deferredInit.server.sockets)),
    ...definedMembers({ site: pages.site }),
    log,
    ...deps.telemetry,
    keys: peerKey === undefined ? () => deferredInit.keys : withPeerKey(() => deferredInit.keys, peerKey),
    isSessionKey: (key) => consoleSessions.isSessionKey(key),
    findScopedKey: async (key) =>
      deferredInit.state === 'ready' ? await deferredInit.server.findScopedKey(key) : undefined,
    auditCaller: auditedKey,
    pageCredential: (url, header, peer) =>
      deferredInit.state === 'ready' && !ingress.isHost(header('host') ?? '')
        ? deferredInit.server.authenticatePage(url, header, peer)
        : undefined,
    isForeignHost: (host) => ingress.isHost(host),
    proxyRoutes: proxies.map((prefix) => lazyBridgeRoute(prefix, () => deferredInit.server.proxies)),
    checkReady: deferredInit.checkRequest,
    basePath: config.isDeferred ? () => deferredInit.basePath : config.basePath,
    allowedHosts: config.allowedHosts,
    isOwnHost: (host) => ingress.isHost(host) || isHostNameOf(deferredInit.webUrl, host),
    allowedOrigins: () => deferredInit.allowedOrigins,
    maxSocketsPerKey: config.maxSocketsPerConversation,
    stallMs: config.stallMs,
    pingMs: config.heartbeatMs,
    readiness,
    clock,
  })
}

/** A key with scopes in the audit, by its id: the handler of a request with another key gets no caller. */
function auditedKey(caller: unknown): AuditCaller {
  return { caller: 'key', via: (caller as ScopedKey).id }
}

/** Says once which settings have no effect, because what they are for is left out. */
function warnOfUnusedSettings(env: ServeOptions['env'], log: LogFunction): void {
  const names = compatSettings.filter((name) => env[name])
  if (names.length > 0)
    log('warn', `settings without effect, because SLIPWAY_COMPAT is off: ${names.join(', ')}`)
}

/** The address by which other servers on the database reach this one, when the settings do not say. */
function ownPeerUrl(url: string): string {
  const { hostname } = new URL(url)
  if (hostname !== '0.0.0.0' && hostname !== '[::]') return url
  throw new Error('SLIPWAY_PEER_URL is missing: the address by which other servers reach this one')
}

/** Shorter keys are accepted with a warning. */
const minKeyLength = 16

/** What needs no init settings is done before them: somebody waits for the answer to those. */
async function prepareInit(directory: string, { secretKey }: Config, log: LogFunction): Promise<void> {
  await Cipher.open({ directory, secretKey, log })
  collectGarbage()
}

/** The first program to send init settings without a key would choose the keys of the server. */
function assertInitKey(
  { isDeferred, initKey, isKeyless }: Config,
  { noKey, socket }: Pick<ServeOptions, 'noKey' | 'socket'>,
): void {
  if (isDeferred && initKey === undefined && !isKeyless && noKey !== true && socket === undefined)
    throw new Error(
      'SLIPWAY_DEFERRED_INIT needs SLIPWAY_INIT_API_KEY or SLIPWAY_SECRET_KEY: without a key any program of this machine could send the settings first. SLIPWAY_NO_KEY=1 permits that.',
    )
}

/** A Unix socket admits its user alone, and a deferred server gets its keys with its settings. */
function makesKey({ sessionKeys, isKeyless, isDeferred }: Config, { noKey, socket }: ServeOptions): boolean {
  return sessionKeys.length === 0 && !isKeyless && noKey !== true && !isDeferred && socket === undefined
}

function withSessionKey(config: Config, { key }: StoredSessionKey): Config {
  return { ...config, sessionKeys: [key], secrets: [...config.secrets, key] }
}
