import { once } from 'node:events'
import { resolve } from 'node:path'
import { app, listen, logTo } from '@slipway/http'
import { agentOpenApi, agentRoutes } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { readConfig } from './config.ts'
import { Conversations } from './conversations.ts'
import { eventsSocket } from './events-socket.ts'
import { conversationHandlers } from './handlers/conversations.ts'
import { eventHandlers } from './handlers/events.ts'
import { healthHandlers } from './handlers/health.ts'

export interface ServeOptions {
  readonly host: string
  /** 0 means any free one. */
  readonly port: number
  /** Directory of the logs; it is made when it is not there. */
  readonly data: string
  /** The environment: settings named `SLIPWAY_*`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Abort it to stop gracefully. */
  readonly signal: AbortSignal
  /** Called once the server answers. */
  ready?(url: string): void
}

/** The wiring, from top to bottom. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  const config = readConfig(options.env)
  const directory = resolve(options.data)
  const log = logTo(process.stderr, config.logLevel)
  await using storage = await openStorage({ directory, log })
  const conversations = new Conversations(storage, directory)
  let lastChange = Date.now()
  const touch = () => {
    lastChange = Date.now()
  }
  const now = () => Date.now() * 1000
  const handlers = {
    ...healthHandlers({ version: ownPackage.version, idleSince: () => lastChange }),
    ...conversationHandlers({ storage, conversations, touch, now }),
    ...eventHandlers({ storage, touch, heartbeatMs: config.heartbeatMs }),
  }
  const web = app(agentRoutes, handlers, {
    openapi: agentOpenApi,
    sockets: [eventsSocket({ storage, conversations, touch, now })],
    log,
    keys: config.keys,
    allowedHosts: config.allowedHosts,
    allowedOrigins: config.allowedOrigins,
    maxSocketsPerKey: config.maxSocketsPerConversation,
    stallMs: config.stallMs,
  })
  const listening = await listen(web, { host: options.host, port: options.port })
  log('debug', 'listening', { url: listening.url })
  options.ready?.(listening.url)
  if (!options.signal.aborted) await once(options.signal, 'abort')
  await listening.close()
}
