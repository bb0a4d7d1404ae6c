import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { app, listen, logTo } from '@slipway/http'
import { agentOpenApi, agentRoutes } from '@slipway/protocol'
import { Cipher, openStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { Agents } from './agents.ts'
import { readConfig } from './config.ts'
import { Conversations } from './conversations.ts'
import { eventsSocket } from './events-socket.ts'
import { controlHandlers } from './handlers/control.ts'
import { conversationHandlers } from './handlers/conversations.ts'
import { eventHandlers } from './handlers/events.ts'
import { healthHandlers } from './handlers/health.ts'
import { profileHandlers } from './handlers/profiles.ts'
import { Profiles } from './profiles.ts'

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
  const cipher = await Cipher.open({ directory, secretKey: config.secretKey, log })
  const profiles = new Profiles({ directory: join(directory, 'profiles'), cipher })
  let lastChange = Date.now()
  const touch = () => {
    lastChange = Date.now()
  }
  const now = () => Date.now() * 1000
  await using agents = new Agents({
    storage,
    cipher,
    profiles,
    log,
    now,
    directory: join(directory, 'conversations'),
    environment: config.toolEnvironment,
    home: config.toolEnvironment.HOME,
    isConfined: config.confineFiles,
    hidden: [
      ...[...config.keys, ...config.secretValues].map((key) => key.open()),
      ...(config.secretKey === undefined ? [] : [config.secretKey.open()]),
      ...cipher.texts,
    ],
    confirmationDeadlineMs: config.confirmationDeadlineMs,
    maxRuns: config.maxConcurrentRuns,
    idleMs: config.conversationIdleMs,
  })
  const create = {
    storage,
    agents,
    worktrees: join(directory, 'worktrees'),
    environment: config.toolEnvironment,
  }
  const handlers = {
    ...healthHandlers({ version: ownPackage.version, idleSince: () => lastChange }),
    ...conversationHandlers({ create, conversations, touch, now }),
    ...controlHandlers({ storage, agents, profiles, touch }),
    ...eventHandlers({ storage, agents, touch, heartbeatMs: config.heartbeatMs }),
    ...profileHandlers({ profiles, touch }),
  }
  const web = app(agentRoutes, handlers, {
    openapi: agentOpenApi,
    sockets: [eventsSocket({ storage, agents, conversations, touch, now })],
    log,
    keys: config.keys,
    allowedHosts: config.allowedHosts,
    allowedOrigins: config.allowedOrigins,
    maxSocketsPerKey: config.maxSocketsPerConversation,
    stallMs: config.stallMs,
  })
  // Before anybody is answered: what was running when the process died is paused.
  await agents.recover()
  const listening = await listen(web, { host: options.host, port: options.port })
  log('debug', 'listening', { url: listening.url })
  options.ready?.(listening.url)
  if (!options.signal.aborted) await once(options.signal, 'abort')
  await listening.close()
}
