import { resolve } from 'node:path'
import {
  ConsoleSite,
  ConsoleTokens,
  consoleHandlers,
  createApp,
  createLogger,
  isHostNameOf,
  listen,
  openTelemetry,
  Readiness,
  StaticFolder,
} from '@slipway/http'
import { agentServerOpenApi, agentServerRoutes, type LogFunction } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { hideFromDebuggers, loadLibc } from '@slipway/shared/process'
import { type Clock, systemClock } from '@slipway/shared/time'
import { isLoopback } from '@slipway/shared/url'
import { Cipher, openServerStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { type Config, readConfig } from './core/config/config.ts'
import { openSessionKey, type StoredSessionKey } from './core/config/session-key.ts'
import { DeferredInit } from './core/init/deferred-init.ts'
import { initHandlers } from './core/init/handlers.ts'
import { WorkMetrics } from './core/metrics/work-metrics.ts'
import { derivePeerKey, withPeerKey } from './core/peers/peer-key.ts'
import { Activity } from './core/server/activity.ts'
import { ConsoleSessions } from './core/server/console-sessions.ts'
import { healthHandlers } from './core/server/health-handlers.ts'
import { collectGarbage, relaxHeapGrowth, shrinkHeapWhenIdle } from './core/server/heap.ts'
import { applicationPrefix, Ingress } from './core/server/ingress.ts'
import { lazyBridgeRoute, lazyHandlers, lazySocketRoute } from './core/server/lazy-handlers.ts'
import { startToolUser } from './core/server/tool-user.ts'
import { openWebClient } from './core/server/web-client.ts'
import { killLeftovers, openServices } from './services.ts'

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
  const { clock = systemClock } = options
  const directory = resolve(options.data)
  const log = createLogger(process.stderr, settings.logLevel)
  const serviceInfo = { service: 'slipway-agent-server', version: ownPackage.version, log }
  await using telemetry = await openTelemetry(settings.telemetry, serviceInfo)
  const workMetrics = new WorkMetrics({
    traces: telemetry.traces,
    hasLatestGenAi: settings.telemetry.traces?.hasLatestGenAi,
    metricsExport: telemetry.metricsExport,
  })
  const webDirectory = options.web ?? settings.webDirectory
  const isKeyNeeded = () => deferredInit.keys?.length !== 0
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
  // The lock of the storage is held: no other server uses the directory.
  const leftoversKilled = killLeftovers(directory, config)
  leftoversKilled.catch(() => {})
  let ownPort: number | undefined
  /** That of the start, or where init settings say. */
  let activeStorage = storage
  await using deferredInit = new DeferredInit({
    config,
    isExposed: options.socket === undefined && !isLoopback(options.host),
    log,
    openServices: async (config) => {
      const common = { config, clock, ingress, log, activity, workMetrics, peerKey, port: () => ownPort }
      const { dataDirectory } = config
      if (dataDirectory === undefined)
        return await openServices({ ...common, directory, storage, leftoversKilled })
      if (settings.databaseUrl !== undefined)
        throw new Error('conversations_path: the conversations of this server are in a database')
      await using resources = new AsyncDisposableStack()
      const limits = settings.storageLimits
      const delivered = resources.use(
        await openServerStorage({ directory: dataDirectory, log, limits, database: undefined }),
      )
      const services = resources.use(
        await openServices({
          ...{ ...common, directory: dataDirectory, storage: delivered },
          leftoversKilled: killLeftovers(dataDirectory, config),
        }),
      )
      activeStorage = delivered
      const disposables = resources.move()
      return { ...services, [Symbol.asyncDispose]: () => disposables.disposeAsync() }
    },
  })
  if (!config.isDeferred) await deferredInit.start()
  else await prepareInit(directory, config, log)
  telemetry.metrics.registry.add(
    () => activeStorage.metrics,
    () => workMetrics.all,
    () => (deferredInit.state === 'ready' ? deferredInit.services.metrics : []),
  )
  const tokens = new ConsoleTokens()
  const readiness = new Readiness({ drainMs: config.drainMs, clock })
  const consoleSessions = await ConsoleSessions.open(directory, () => deferredInit.keys)
  const ownHandlers = {
    ...consoleHandlers({
      ...{ server: 'agent', version: ownPackage.version, accounts: consoleSessions, tokens },
      publicUrl: () => deferredInit.webUrl,
    }),
    ...healthHandlers({
      version: ownPackage.version,
      browser: config.browser,
      ingressUrl: ingress.url,
      readiness,
      getLastActivityMs: () => activity.lastMs,
      getInitState: () => deferredInit.state,
      checkStorage: () => activeStorage.health.check(),
      webClient: staticFolder?.exists ? staticFolder : (webClient ?? consoleSite),
    }),
    ...initHandlers(deferredInit),
  }
  const lazyNames = Object.keys(agentServerRoutes).filter((name) => !Object.hasOwn(ownHandlers, name))
  const server = createApp(
    agentServerRoutes,
    { ...ownHandlers, ...lazyHandlers(lazyNames, () => deferredInit.services.handlers, activity) },
    {
      openapi: agentServerOpenApi,
      openDocs: true,
      sockets: [
        lazySocketRoute('/sockets/events/{conversation_id}', () => deferredInit.services.sockets.events),
        lazySocketRoute('/sockets/session/{conversation_id}', () => deferredInit.services.sockets.session, {
          takesBinary: true,
        }),
        lazySocketRoute('/sockets/bash-events', () => deferredInit.services.sockets.bash),
      ],
      ...definedMembers({ site: staticFolder ?? page }),
      log,
      ...telemetry,
      keys: peerKey === undefined ? () => deferredInit.keys : withPeerKey(() => deferredInit.keys, peerKey),
      isSessionKey: (key) => consoleSessions.isSessionKey(key),
      pageCredential: (url, header, peer) =>
        deferredInit.state === 'ready' && !ingress.isHost(header('host') ?? '')
          ? deferredInit.services.pass(url, header, peer)
          : undefined,
      isForeignHost: (host) => ingress.isHost(host),
      proxyRoutes: [lazyBridgeRoute(applicationPrefix, () => deferredInit.services.applicationProxy)],
      checkReady: deferredInit.checkRequest,
      basePath: config.isDeferred ? () => deferredInit.basePath : config.basePath,
      allowedHosts: config.allowedHosts,
      isOwnHost: (host) => ingress.isHost(host) || isHostNameOf(deferredInit.webUrl, host),
      allowedOrigins: () => deferredInit.allowedOrigins,
      maxSocketsPerKey: config.maxSocketsPerConversation,
      stallMs: config.stallMs,
      readiness,
      clock,
    },
  )
  const { host, port, socket } = options
  const listening = await listen(
    server,
    socket === undefined ? { host, port } : { socketPath: resolve(socket) },
  )
  ownPort = socket === undefined ? Number(new URL(listening.url).port) : undefined
  if (settings.sharing !== undefined)
    await storage.leases?.announce(settings.sharing.peerUrl ?? ownPeerUrl(listening.url))
  log('debug', 'listening', { url: listening.url })
  await hideFromDebuggers()
  const [key] = deferredInit.keys ?? []
  const link = key === undefined ? '' : `#token=${tokens.create(key.reveal()).token}`
  options.ready?.(listening.url, storedKey, consoleSite && `${config.webUrl ?? listening.url}/${link}`)
  using _ = config.isDeferred
    ? undefined
    : shrinkHeapWhenIdle(clock, async () => {
        await deferredInit.services.releaseMemory()
        activeStorage.releaseMemory()
      })
  await listening.serveUntil(options.signal)
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

/** A Unix socket admits its user alone, and a deferred server gets its keys with its settings. */
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

function makesKey({ sessionKeys, isKeyless, isDeferred }: Config, { noKey, socket }: ServeOptions): boolean {
  return sessionKeys.length === 0 && !isKeyless && noKey !== true && !isDeferred && socket === undefined
}

function withSessionKey(config: Config, { key }: StoredSessionKey): Config {
  return { ...config, sessionKeys: [key], secrets: [...config.secrets, key] }
}
