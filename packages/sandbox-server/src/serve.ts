import { join, resolve } from 'node:path'
import {
  type AppOptions,
  ConsoleSite,
  ConsoleTokens,
  consoleHandlers,
  createApp,
  createLogger,
  isHostNameOf,
  listen,
  openTelemetry,
  Readiness,
  tracedFetch,
} from '@slipway/http'
import { sandboxServerOpenApi, sandboxServerRoutes } from '@slipway/protocol'
import { hideFromDebuggers } from '@slipway/shared/process'
import { type Clock, systemClock } from '@slipway/shared/time'
import { openControlPlane } from '@slipway/storage/control-plane'
import ownPackage from '../package.json' with { type: 'json' }
import { bootstrapKey } from './auth/api-keys.ts'
import { Authenticator, auditCaller } from './auth/authenticator.ts'
import { consoleAccounts } from './auth/console-accounts.ts'
import type { Backend } from './backends/backend.ts'
import { readConfig } from './config/config.ts'
import { automationProxyRoute } from './network/automation-proxy.ts'
import { allowedHostNames, InternalListeners } from './network/internal-listeners.ts'
import { sandboxFetch } from './network/sandbox-fetch.ts'
import { SandboxPorts } from './network/sandbox-ports.ts'
import { sandboxProxyRoute } from './network/sandbox-proxy.ts'
import { healthHandlers } from './server/health-handlers.ts'
import { openBackends } from './server/open-backends.ts'
import { openCipher } from './server/open-cipher.ts'
import { createStateMetrics } from './server/state-metrics.ts'
import { unlimitedNotes } from './server/unlimited-notes.ts'
import { callerHandlers, openServices, pageOrigins, type Services, sandboxFacingHandlers } from './server.ts'

export interface ServeOptions {
  readonly host: string
  /** 0 is any free port. Sandboxes that survive a restart reach the server only on the same port. */
  readonly port: number
  /** Data directory, created when missing. */
  readonly data: string
  /** The environment: settings named `SLIPWAY_*`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The command of agent servers in process sandboxes, and the paths it reads. Absolute. */
  readonly agent: { readonly command: readonly string[]; readonly readable: readonly string[] }
  /** Create another API key of the administrator. */
  readonly isKeyWanted: boolean
  /** Directory of the built console, or a promise of it, which is served at `/`. */
  readonly console?: string | Promise<string | undefined> | undefined
  /** Decides when time passes; that of the machine unless given. */
  readonly clock?: Clock | undefined
  /** Abort it to stop gracefully; see `abortAtStopSignals`. Sandboxes stay as they are. */
  readonly signal: AbortSignal
  /** Called before and after each step of the life of a sandbox; for tests. */
  readonly onStep?: (name: string) => void
  /**
   * Called once the server answers. `key` is a new API key, available only here; `consoleUrl` is the address
   * of the console, with a token that signs in once where there is such a key.
   */
  ready?(about: {
    readonly url: string
    readonly consoleUrl: string | undefined
    readonly key: string | undefined
    readonly notes: readonly string[]
  }): void
  /**
   * Accept sandboxes that are ordinary processes, without `SLIPWAY_ISOLATION=none`: for one user's own
   * machine.
   */
  readonly isIsolationOptional?: boolean
}

/** Runs the server. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  const config = readConfig(options.env)
  const directory = resolve(options.data)
  const log = createLogger(process.stderr, config.logLevel)
  const serviceInfo = { service: 'slipway-sandbox-server', version: ownPackage.version, log }
  await using telemetry = await openTelemetry(config.telemetry, serviceInfo)
  const { clock = systemClock } = options
  await using opened = await openControlPlane({
    directory,
    url: config.databaseUrl?.reveal(),
    leaseMs: config.leaseMs,
    log,
  })
  const { controlPlane } = opened
  const { leases } = controlPlane
  const cipher = await leases.runExclusive('start', () => openCipher(config, directory, controlPlane, log))
  const key = await leases.runExclusive('start', () =>
    bootstrapKey(controlPlane.users, {
      isRequested: options.isKeyWanted,
      isConfigured: config.keys.length > 0,
      now: clock.now() * 1000,
    }),
  )
  const socketDirectory = join(directory, 'door')
  const place = { directory, socketDirectory, ledgerId: controlPlane.id, isShared: leases.isShared, log }
  const backends = await openBackends(config, { ...options, ...place })
  const listenAddress = { url: '', port: 0 }
  await using services = await openServices({
    ...{ config, opened, directory, cipher, backends, listenAddress, clock, log, onStep: options.onStep },
    fetch: tracedFetch(sandboxFetch, telemetry.traces),
    openPort: (id) => ports.open(id),
  })
  const tokens = new ConsoleTokens()
  const site =
    options.console === undefined || !config.hasConsole ? undefined : new ConsoleSite(options.console)
  const { users } = controlPlane
  const { sandboxes } = services.common
  const authenticator = new Authenticator({ users, sandboxes, keys: config.keys, now: services.now })
  const identify = authenticator.authenticate.bind(authenticator)
  const app = openApp({ services, backends, authenticator, identify, telemetry, tokens, site })
  const publicUrl = () => config.publicUrl ?? listenAddress.url
  await using ports = createPorts({ services, authenticator, identify, telemetry }, options.host, publicUrl)
  const metrics = createStateMetrics(stateOf(services))
  telemetry.metrics.registry.add(
    () => opened.storage.metrics,
    () => metrics,
  )
  await services.starter.recover()
  const listening = await listen(app, { host: options.host, port: options.port })
  await using cleanup = new AsyncDisposableStack()
  // Also on a later failure: an open listener would keep the process alive.
  cleanup.defer(() => listening.close())
  Object.assign(listenAddress, { url: listening.url, port: listening.port })
  await using _internalListeners = new InternalListeners({
    ...{ clock, identify, backends, socketDirectory, leases, log },
    telemetry: { ...telemetry, openTrail: services.auditLog.openTrail },
    handlers: sandboxFacingHandlers(services),
    port: listening.port,
    host: options.host,
  })
  await ports.restore()
  await sandboxes.startReconciling()
  services.eventPull.start()
  log('debug', 'listening', { url: listening.url })
  void hideFromDebuggers()
  const url = publicUrl()
  const link = key === undefined ? '' : `#token=${tokens.create(key).token}`
  const notes = [...(await isolationNotes(backends)), ...unlimitedNotes(config.specs, config.maxDiskBytes)]
  options.ready?.({ url, consoleUrl: site && `${url}/${link}`, key, notes })
  await listening.serveUntil(options.signal, () => ports[Symbol.asyncDispose]())
}

interface AppDeps {
  readonly services: Services
  readonly backends: ReadonlyMap<string, Backend>
  readonly authenticator: Authenticator
  readonly identify: NonNullable<AppOptions['identify']>
  readonly telemetry: Pick<AppOptions, 'metrics' | 'traces' | 'audit'>
  readonly tokens: ConsoleTokens
  readonly site: ConsoleSite | undefined
}

function openApp({ services, backends, authenticator, identify, telemetry, tokens, site }: AppDeps) {
  const { config, common, now } = services
  const { controlPlane, storage, sandboxes, clock, log } = common
  const readiness = new Readiness({ drainMs: config.drainMs, clock })
  const basePath = config.publicUrl === undefined ? '/' : new URL(config.publicUrl).pathname
  const handlers = {
    ...sandboxFacingHandlers(services),
    ...callerHandlers(services),
    ...healthHandlers({
      version: ownPackage.version,
      backends,
      readiness,
      checkStorage: () => storage.health.check(),
    }),
    ...consoleHandlers({
      ...{ server: 'sandbox', version: ownPackage.version, tokens },
      publicUrl: () => config.publicUrl,
      accounts: consoleAccounts({ users: controlPlane.users, authenticator, now }),
    }),
  }
  const authenticateCaller = authenticator.authenticateCaller.bind(authenticator)
  return createApp(sandboxServerRoutes, handlers, {
    ...{ clock, readiness, site, identify, ...telemetry, auditCaller, log },
    openTrail: services.auditLog.openTrail,
    openapi: sandboxServerOpenApi,
    openDocs: true,
    proxyRoutes: [
      sandboxProxyRoute({ sandboxes, authenticateCaller }),
      automationProxyRoute(config.automationUrl),
    ],
    ...(basePath === '/' ? {} : { basePath }),
    allowedHosts: allowedHostNames(config.allowedHosts, backends.values()),
    isOwnHost: (host) => isHostNameOf(config.publicUrl, host),
    allowedOrigins: pageOrigins(config),
  })
}

/** The ports of sandboxes without one. What the server itself serves is at none of them. */
function createPorts(
  deps: Pick<AppDeps, 'services' | 'authenticator' | 'identify' | 'telemetry'>,
  host: string,
  publicUrl: () => string,
): SandboxPorts {
  const {
    services,
    authenticator,
    identify,
    telemetry: { audit, traces },
  } = deps
  const { config, common } = services
  const { sandboxes, controlPlane, clock, log } = common
  const authenticateCaller = authenticator.authenticateCaller.bind(authenticator)
  return new SandboxPorts({
    ...{ host, publicUrl, expose: config.expose, isShared: controlPlane.leases.isShared },
    documents: controlPlane.documents,
    proxy: { sandboxes, authenticateCaller },
    app: {
      ...{ clock, log, identify, auditCaller, audit, traces },
      allowedHosts: config.allowedHosts,
      allowedOrigins: pageOrigins(config),
    },
  })
}

/** What the metrics of the state are read from. */
function stateOf({ common, starter, ingest }: Services): Parameters<typeof createStateMetrics>[0] {
  const { controlPlane, sandboxes, storage, storageQuota } = common
  return {
    ...{ starter, ingest, storageQuota, steps: sandboxes.steps },
    rows: controlPlane.sandboxes,
    records: storage.conversations,
  }
}

/** Notes of the backends about isolation, for the operator. */
async function isolationNotes(backends: ReadonlyMap<string, Backend>): Promise<string[]> {
  const noteLists = await Promise.all(
    [...backends.values()].map(async (backend) => {
      const { notes } = await backend.isolation().catch((error: Error) => ({ notes: [error.message] }))
      return notes.map((note) => `${backend.name}: ${note}`)
    }),
  )
  return noteLists.flat()
}
