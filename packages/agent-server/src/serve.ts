import { once } from 'node:events'
import { resolve } from 'node:path'
import { app, isLoopback, listen, logTo, openTelemetry } from '@slipway/http'
import { agentOpenApi, agentRoutes } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { readConfig } from './config/config.ts'
import { healthHandlers } from './handlers/server/health.ts'
import { initHandlers } from './handlers/server/init.ts'
import { Init } from './init/deferred-init.ts'
import { WorkNumbers } from './metrics/work-metrics.ts'
import { giveBackWhenCalm, growFreely } from './server/heap.ts'
import { late, lateSocket } from './server/lazy-handlers.ts'
import { openWeb } from './server/web-client.ts'
import { openParts } from './services.ts'

export interface ServeOptions {
  readonly host: string
  /** 0 means any free one. */
  readonly port: number
  /** Path of a Unix socket to listen on instead. */
  readonly socket?: string | undefined
  /** Directory of the logs; it is made when it is not there. */
  readonly data: string
  /** Directory of a web client that is shown at `/`; `SLIPWAY_WEB` unless given. */
  readonly web?: string | undefined
  /** The environment: settings named `SLIPWAY_*`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Abort it to stop gracefully. */
  readonly signal: AbortSignal
  /** Called once the server answers. */
  ready?(url: string): void
}

/** The wiring, from top to bottom. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  growFreely()
  const config = readConfig(options.env)
  const directory = resolve(options.data)
  const log = logTo(process.stderr, config.logLevel)
  const about = { service: 'slipway-agent-server', version: ownPackage.version, log }
  await using telemetry = await openTelemetry(config.telemetry, about)
  const work = new WorkNumbers(telemetry.traces)
  const webDirectory = options.web ?? config.web
  const isKeyNeeded = () => init.keys?.length !== 0
  const web = webDirectory === undefined ? undefined : await openWeb(resolve(webDirectory), isKeyNeeded)
  await using storage = await openStorage({ directory, log })
  let lastChange = Date.now()
  const touch = () => {
    lastChange = Date.now()
  }
  await using init = new Init({
    config,
    isExposed: options.socket === undefined && !isLoopback(options.host),
    log,
    open: (config) => openParts({ config, directory, storage, log, touch, work }),
  })
  if (!config.isDeferred) await init.start()
  telemetry.metrics.from.add(
    () => storage.measures(),
    () => work.families(),
    () => (init.state === 'ready' ? init.parts.numbers() : []),
  )
  const health = healthHandlers({
    version: ownPackage.version,
    idleSince: () => lastChange,
    state: () => init.state,
    web,
  })
  const own = { ...health, ...initHandlers({ init, isDeferred: config.isDeferred, key: config.initKey }) }
  const others = Object.keys(agentRoutes).filter((name) => !Object.hasOwn(own, name))
  const server = app(
    agentRoutes,
    { ...own, ...late(others, () => init.parts.handlers) },
    {
      openapi: agentOpenApi,
      sockets: [
        lateSocket('/sockets/events/{conversation_id}', () => init.parts.sockets.events),
        lateSocket('/sockets/bash-events', () => init.parts.sockets.bash),
      ],
      ...(web === undefined ? {} : { site: web.site }),
      log,
      ...telemetry,
      keys: () => init.keys,
      pass: (url, header) => (init.state === 'ready' ? init.parts.pass(url, header) : undefined),
      ...(config.isDeferred ? { gate: (path: string) => init.gate(path) } : {}),
      allowedHosts: config.allowedHosts,
      allowedOrigins: () => init.allowedOrigins,
      maxSocketsPerKey: config.maxSocketsPerConversation,
      stallMs: config.stallMs,
    },
  )
  const { host, port, socket } = options
  const listening = await listen(
    server,
    socket === undefined ? { host, port } : { socketPath: resolve(socket) },
  )
  log('debug', 'listening', { url: listening.url })
  options.ready?.(listening.url)
  using _ = giveBackWhenCalm()
  if (!options.signal.aborted) await once(options.signal, 'abort')
  await listening.close()
}
