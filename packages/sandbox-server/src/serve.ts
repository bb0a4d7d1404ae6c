import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { app, listen, logTo, openTelemetry, reach as plainReach, tracedFetch } from '@slipway/http'
import { controlOpenApi, controlRoutes } from '@slipway/protocol'
import { Cipher, openLedger, openStorage } from '@slipway/storage'
import ownPackage from '../package.json' with { type: 'json' }
import { Accounts } from './accounts/accounts.ts'
import { Quota } from './accounts/quota.ts'
import { Documents } from './accounts/sealed-documents.ts'
import { Lanes } from './async/keyed-mutex.ts'
import { bootstrapKey } from './auth/api-keys.ts'
import { auditCaller, Callers } from './auth/authenticator.ts'
import type { Backend } from './backends/backend.ts'
import { type Config, readConfig } from './config/config.ts'
import { ConversationCalls } from './conversations/agent-calls.ts'
import { Conversations } from './conversations/conversations.ts'
import { Downloads } from './conversations/download.ts'
import { Pending } from './conversations/pending-messages.ts'
import { Removals } from './conversations/records/removed-conversations.ts'
import { appConversationHandlers } from './handlers/app-conversations.ts'
import { eventHandlers } from './handlers/events.ts'
import { healthHandlers } from './handlers/health.ts'
import { keyHandlers } from './handlers/keys.ts'
import { sandboxHandlers } from './handlers/sandboxes.ts'
import { secretHandlers } from './handlers/secrets.ts'
import { settingsHandlers } from './handlers/settings.ts'
import { startTaskHandlers } from './handlers/start-tasks.ts'
import { webhookHandlers } from './handlers/webhooks.ts'
import { Home } from './ingest/event-ingest.ts'
import { hostNames, SideDoors } from './network/internal-listeners.ts'
import { sandboxRelay } from './network/sandbox-proxy.ts'
import { Sandboxes } from './sandboxes/sandboxes.ts'
import { Specs } from './sandboxes/specs.ts'
import { openBackends } from './server/open-backends.ts'
import { stateNumbers } from './server/state-metrics.ts'
import { Starts } from './start/conversation-starter.ts'
import { prepareLimits } from './start/prepare-workspace.ts'

export interface ServeOptions {
  readonly host: string
  /** 0 means any free one; sandboxes that live on over a restart find their events' way home only if it stays the same. */
  readonly port: number
  /** Directory of everything that is kept; it is made when it is not there. */
  readonly data: string
  /** The environment: settings named `SLIPWAY_*`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** How process sandboxes start their agent server, and what of the host it has to read. Absolute paths. */
  readonly agent: { readonly command: readonly string[]; readonly readable: readonly string[] }
  /** Make another API key of the administrator, also when there are some. */
  readonly isKeyWanted: boolean
  /** Abort it to stop gracefully. Sandboxes stay as they are. */
  readonly signal: AbortSignal
  /** Called before and after each step of the life of a sandbox; for tests. */
  readonly onStep?: (name: string) => void
  /** Called once the server answers. `key` is a new API key: it is told here and nowhere else. */
  ready?(about: {
    readonly url: string
    readonly key: string | undefined
    readonly notes: readonly string[]
  }): void
}

/** The wiring, from top to bottom. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  const config = readConfig(options.env)
  const directory = resolve(options.data)
  const log = logTo(process.stderr, config.logLevel)
  const about = { service: 'slipway-sandbox-server', version: ownPackage.version, log }
  await using telemetry = await openTelemetry(config.telemetry, about)
  const reach = tracedFetch(plainReach, telemetry.traces)
  const now = () => Date.now() * 1000
  await using storage = await openStorage({ directory, log })
  await using ledger = await openLedger({ directory, log })
  const cipher = await Cipher.open({ directory, secretKey: config.secretKey, log })
  const key = await bootstrapKey(ledger.people, {
    isWanted: options.isKeyWanted,
    isConfigured: config.keys.length > 0,
    now: now(),
  })
  const doorDirectory = join(directory, 'door')
  const backends = await openBackends(config, {
    directory,
    doorDirectory,
    ledgerId: ledger.id,
    agent: options.agent,
    log,
  })
  const specs = new Specs(config.specs, [...backends.keys()], now())
  // The address is known once the server listens; nothing asks for it before.
  const heard = { url: '', port: 0 }
  await using sandboxes = new Sandboxes({
    ledger,
    cipher,
    backends: [...backends.values()],
    specs,
    log,
    publicUrl: () => config.publicUrl ?? heard.url,
    hostPort: () => heard.port,
    expose: config.expose,
    allowedOrigins: origins(config),
    cap: { maxSandboxes: config.maxSandboxes, policy: config.maxSandboxesPolicy },
    startMs: config.startMs,
    reconcileMs: config.reconcileMs,
    idleSeconds: config.idleSeconds,
    maxSessionSeconds: config.maxSessionSeconds,
    deleteAfterSeconds: config.deleteAfterSeconds,
    onRunning: (id) => pending.deliverIn(id),
    ...(options.onStep === undefined ? {} : { onStep: options.onStep }),
  })
  const documents = new Documents(ledger.documents, cipher)
  const accounts = new Accounts({ documents, model: config.model, maxProfiles: config.maxProfiles })
  const quota = new Quota({ people: ledger.people, rows: ledger.quota, limit: config.dailyLimit, now })
  const callers = new Callers({ people: ledger.people, sandboxes, keys: config.keys, now })
  const removals = new Removals(ledger.documents)
  const lanes = new Lanes()
  await using pending = new Pending({ ledger, sandboxes, log, now }, lanes)
  await using starts = new Starts({
    ledger,
    storage,
    sandboxes,
    accounts,
    quota,
    removals,
    lanes,
    reach,
    now,
    log,
    waitMs: config.startWaitMs,
    limits: prepareLimits,
    deliver: (conversation) => pending.deliver(conversation),
  })
  const conversations = new Conversations({
    ledger,
    storage,
    sandboxes,
    starts,
    pending,
    removals,
    lanes,
    log,
    now,
  })
  const home = new Home({
    storage,
    conversations: ledger.conversations,
    removals,
    lanes,
    onRemoved: (conversation, sandbox) => conversations.removeLate(conversation, sandbox),
    log,
    now,
  })
  const inside = {
    ...webhookHandlers({ home, pending }),
    ...secretHandlers({ accounts }),
  }
  const handlers = {
    ...inside,
    ...healthHandlers({ version: ownPackage.version, backends }),
    ...sandboxHandlers({ sandboxes, specs }),
    ...startTaskHandlers({ starts, startTasks: ledger.startTasks }),
    ...appConversationHandlers({
      conversations,
      calls: new ConversationCalls({ ledger, sandboxes, lanes, reach }),
      downloads: new Downloads({ log: storage.log, records: storage.conversations }),
      pending,
      accounts,
      count: (scope, filter) => ledger.conversations.count(scope, filter),
    }),
    ...eventHandlers({ conversations, storage }),
    ...keyHandlers({ people: ledger.people, sandboxes: ledger.sandboxes, quota, now }),
    ...settingsHandlers({ accounts, people: ledger.people, sandboxes }),
  }
  const identify = callers.identify.bind(callers)
  const basePath = config.publicUrl === undefined ? '/' : new URL(config.publicUrl).pathname
  const web = app(controlRoutes, handlers, {
    openapi: controlOpenApi,
    openDocs: true,
    relays: [sandboxRelay({ sandboxes, callerOf: (header) => callers.of(header) })],
    identify,
    ...telemetry,
    auditCaller,
    ...(basePath === '/' ? {} : { basePath }),
    log,
    allowedHosts: hostNames(config.allowedHosts, backends.values()),
    allowedOrigins: config.allowedOrigins,
  })
  telemetry.metrics.from.add(
    () => storage.measures(),
    () => stateNumbers({ sandboxes: ledger.sandboxes, steps: sandboxes.steps, starts }),
  )
  await starts.recover()
  const listening = await listen(web, { host: options.host, port: options.port })
  await using cleanup = new AsyncDisposableStack()
  // Also when what follows fails: an open listener would keep the process alive, without anything behind it.
  cleanup.defer(() => listening.close())
  heard.url = listening.url
  heard.port = listening.port
  await using _doors = new SideDoors({
    handlers: inside,
    identify,
    backends,
    port: listening.port,
    host: options.host,
    doorDirectory,
    telemetry,
    log,
  })
  await sandboxes.begin()
  log('debug', 'listening', { url: listening.url })
  options.ready?.({ url: config.publicUrl ?? listening.url, key, notes: await notesOf(backends) })
  if (!options.signal.aborted) await once(options.signal, 'abort')
  await listening.close()
}

/** Pages of these origins may call the agent servers too: those of the configuration, and those of this server. */
function origins({ allowedOrigins, publicUrl }: Config): string[] {
  return [...allowedOrigins, ...(publicUrl === undefined ? [] : [new URL(publicUrl).origin])]
}

/** What an operator should know of the sandboxes, in words. */
async function notesOf(backends: ReadonlyMap<string, Backend>): Promise<string[]> {
  const told = await Promise.all(
    [...backends.values()].map(async (backend) => {
      const { notes } = await backend.isolation().catch((error: Error) => ({ notes: [error.message] }))
      return notes.map((note) => `${backend.name}: ${note}`)
    }),
  )
  return told.flat()
}
