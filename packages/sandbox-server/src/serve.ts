import { join, resolve } from 'node:path'
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
  RecentAudit,
  tracedFetch,
} from '@slipway/http'
import { sandboxServerOpenApi, sandboxServerRoutes } from '@slipway/protocol'
import { hideFromDebuggers } from '@slipway/shared/process'
import { type Clock, systemClock } from '@slipway/shared/time'
import { openControlPlane } from '@slipway/storage/control-plane'
import ownPackage from '../package.json' with { type: 'json' }
import { Accounts } from './accounts/accounts.ts'
import { LookupSecrets } from './accounts/lookup-secrets.ts'
import { Quota } from './accounts/quota.ts'
import { removeUser } from './accounts/remove-user.ts'
import { StorageQuota } from './accounts/storage-quota.ts'
import { bootstrapKey } from './auth/api-keys.ts'
import { Authenticator, auditCaller } from './auth/authenticator.ts'
import { consoleAccounts } from './auth/console-accounts.ts'
import type { Backend } from './backends/backend.ts'
import { type Config, readConfig } from './config/config.ts'
import { AgentCalls } from './conversations/agent-calls.ts'
import { Conversations } from './conversations/conversations.ts'
import { ConversationDownloads } from './conversations/download.ts'
import { PendingMessages } from './conversations/pending-messages.ts'
import type { ConversationContext } from './conversations/records/conversation-context.ts'
import { RemovedConversations } from './conversations/records/removed-conversations.ts'
import { appConversationHandlers } from './handlers/app-conversations.ts'
import { eventHandlers } from './handlers/events.ts'
import { healthHandlers } from './handlers/health.ts'
import { keyHandlers } from './handlers/keys.ts'
import { sandboxHandlers } from './handlers/sandboxes.ts'
import { scriptConsentHandlers } from './handlers/script-consents.ts'
import { secretHandlers } from './handlers/secrets.ts'
import { settingsHandlers } from './handlers/settings.ts'
import { startTaskHandlers } from './handlers/start-tasks.ts'
import { webhookHandlers } from './handlers/webhooks.ts'
import { EventIngest } from './ingest/event-ingest.ts'
import { allowedHostNames, InternalListeners } from './network/internal-listeners.ts'
import { sandboxFetch } from './network/sandbox-fetch.ts'
import { sandboxProxyRoute } from './network/sandbox-proxy.ts'
import { Sandboxes } from './sandboxes/sandboxes.ts'
import { SandboxSpecs } from './sandboxes/state/specs.ts'
import { openBackends } from './server/open-backends.ts'
import { openCipher } from './server/open-cipher.ts'
import { createStateMetrics } from './server/state-metrics.ts'
import { unlimitedNotes } from './server/unlimited-notes.ts'
import { ConversationStarter } from './start/conversation-starter.ts'
import { createModelAddressCheck } from './start/model-address.ts'
import { defaultPrepareTimeouts } from './start/prepare-workspace.ts'

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

/** The wiring, from top to bottom. Resolves after a graceful stop; rejects when it cannot start. */
export async function serve(options: ServeOptions): Promise<void> {
  const config = readConfig(options.env)
  const directory = resolve(options.data)
  const log = createLogger(process.stderr, config.logLevel)
  const serviceInfo = { service: 'slipway-sandbox-server', version: ownPackage.version, log }
  await using openedTelemetry = await openTelemetry(config.telemetry, serviceInfo)
  const telemetry = { ...openedTelemetry, recentAudit: new RecentAudit(config.telemetry.auditLog) }
  const fetch = tracedFetch(sandboxFetch, telemetry.traces)
  const { clock = systemClock } = options
  const now = () => clock.now() * 1000
  await using opened = await openControlPlane({
    directory,
    url: config.databaseUrl?.reveal(),
    leaseMs: config.leaseMs,
    log,
  })
  const { storage, controlPlane } = opened
  const { leases } = controlPlane
  const { isShared } = leases
  const cipher = await leases.runExclusive('start', () => openCipher(config, directory, controlPlane, log))
  const key = await leases.runExclusive('start', () =>
    bootstrapKey(controlPlane.users, {
      isRequested: options.isKeyWanted,
      isConfigured: config.keys.length > 0,
      now: now(),
    }),
  )
  const socketDirectory = join(directory, 'door')
  const backends = await openBackends(config, {
    ...options,
    directory,
    socketDirectory,
    ledgerId: controlPlane.id,
    isShared,
    log,
  })
  const specs = new SandboxSpecs(config.specs, now())
  // Set when the server listens, before the first use.
  const listenAddress = { url: '', port: 0 }
  await using sandboxes = new Sandboxes({
    ...config,
    clock,
    controlPlane,
    cipher,
    backends: [...backends.values()],
    specs,
    log,
    publicUrl: () => config.publicUrl ?? listenAddress.url,
    hostPort: () => listenAddress.port,
    allowedOrigins: agentServerOrigins(config),
    trustsRepositories: config.repositoryScripts === 'always',
    diskReserve: { directory, bytes: config.diskReserveBytes },
    maxDiskBytes: config.maxDiskBytes,
    onRunning: (id) => pendingMessages.deliverToSandbox(id),
    onStep: options.onStep,
  })
  const accounts = new Accounts({ ...config, documents: controlPlane.documents, cipher })
  const lookupSecrets = new LookupSecrets(accounts, controlPlane.sandboxes)
  const quota = new Quota({
    users: controlPlane.users,
    rows: controlPlane.quota,
    limit: config.dailyLimit,
    now,
  })
  const storageQuota = new StorageQuota({
    ...config,
    users: controlPlane.users,
    conversations: controlPlane.conversations,
    records: storage.conversations,
    isShared,
  })
  const authenticator = new Authenticator({ users: controlPlane.users, sandboxes, keys: config.keys, now })
  const removedConversations = new RemovedConversations(controlPlane.documents, leases)
  const conversationMutex: ConversationContext['conversationMutex'] = {
    runExclusive: (key, work) => leases.runExclusive(`conversation ${key}`, work),
  }
  const common = {
    controlPlane,
    storage,
    sandboxes,
    accounts,
    storageQuota,
    removedConversations,
    conversationMutex,
    fetch,
    log,
    clock,
  }
  await using pendingMessages = new PendingMessages(common)
  await using starter = new ConversationStarter({
    ...common,
    quota,
    waitMs: config.startWaitMs,
    limits: defaultPrepareTimeouts,
    scriptTrust: config.repositoryScripts,
    scriptConsents: accounts.scriptConsents,
    deliver: (conversation) => pendingMessages.deliver(conversation),
    checkModelAddress: createModelAddressCheck(specs, backends),
  })
  const conversations = new Conversations({ ...common, starter, pendingMessages })
  const ingest = new EventIngest({
    ...common,
    onRemoved: (conversation, sandbox) => void conversations.removeFromSandbox(conversation, sandbox),
  })
  const readiness = new Readiness({ drainMs: config.drainMs, clock })
  const sandboxFacingHandlers = {
    ...webhookHandlers({ ingest, pendingMessages }),
    ...secretHandlers({ accounts, lookupSecrets }),
  }
  const handlers = {
    ...sandboxFacingHandlers,
    ...healthHandlers({
      version: ownPackage.version,
      backends,
      readiness,
      checkStorage: () => storage.health.check(),
    }),
    ...sandboxHandlers({ sandboxes, specs, lookupSecrets }),
    ...startTaskHandlers({ starter, startTasks: controlPlane.startTasks }),
    ...appConversationHandlers({
      conversations,
      calls: new AgentCalls(common),
      downloads: new ConversationDownloads(storage),
      pendingMessages,
      accounts,
    }),
    ...eventHandlers({ conversations, storage }),
    ...keyHandlers({
      recentAudit: telemetry.recentAudit,
      users: controlPlane.users,
      sandboxes: controlPlane.sandboxes,
      quota,
      storageQuota,
      maxSandboxes: config.maxSandboxes,
      removeUser: (id, how) => removeUser({ controlPlane, conversations, sandboxes, starter }, id, how),
      now,
    }),
    ...settingsHandlers({ accounts, users: controlPlane.users, sandboxes }),
    ...scriptConsentHandlers({ consents: accounts.scriptConsents, trust: config.repositoryScripts }),
  }
  const tokens = new ConsoleTokens()
  const basePath = config.publicUrl === undefined ? '/' : new URL(config.publicUrl).pathname
  const publicHandlers = {
    ...handlers,
    ...consoleHandlers({
      ...{ server: 'sandbox', version: ownPackage.version, tokens },
      publicUrl: () => config.publicUrl,
      accounts: consoleAccounts({ users: controlPlane.users, authenticator, now }),
    }),
  }
  const site =
    options.console === undefined || !config.hasConsole ? undefined : new ConsoleSite(options.console)
  const identify = authenticator.authenticate.bind(authenticator)
  const authenticateCaller = authenticator.authenticateCaller.bind(authenticator)
  const httpApp = createApp(sandboxServerRoutes, publicHandlers, {
    clock,
    readiness,
    site,
    openapi: sandboxServerOpenApi,
    openDocs: true,
    proxyRoutes: [sandboxProxyRoute({ sandboxes, authenticateCaller })],
    identify,
    ...telemetry,
    auditCaller,
    ...(basePath === '/' ? {} : { basePath }),
    log,
    allowedHosts: allowedHostNames(config.allowedHosts, backends.values()),
    isOwnHost: (host) => isHostNameOf(config.publicUrl, host),
    allowedOrigins: config.allowedOrigins,
  })
  const metrics = createStateMetrics({
    rows: controlPlane.sandboxes,
    steps: sandboxes.steps,
    starter,
    ingest,
    storageQuota,
    records: storage.conversations,
  })
  telemetry.metrics.registry.add(
    () => storage.metrics,
    () => metrics,
  )
  await starter.recover()
  const listening = await listen(httpApp, { host: options.host, port: options.port })
  await using cleanup = new AsyncDisposableStack()
  // Also on a later failure: an open listener would keep the process alive.
  cleanup.defer(() => listening.close())
  listenAddress.url = listening.url
  listenAddress.port = listening.port
  await using _internalListeners = new InternalListeners({
    clock,
    handlers: sandboxFacingHandlers,
    identify,
    backends,
    port: listening.port,
    host: options.host,
    socketDirectory,
    leases,
    telemetry,
    log,
  })
  await sandboxes.startReconciling()
  log('debug', 'listening', { url: listening.url })
  void hideFromDebuggers()
  const url = config.publicUrl ?? listening.url
  const link = key === undefined ? '' : `#token=${tokens.create(key).token}`
  options.ready?.({
    url,
    consoleUrl: site && `${url}/${link}`,
    key,
    notes: [...(await isolationNotes(backends)), ...unlimitedNotes(config.specs, config.maxDiskBytes)],
  })
  await listening.serveUntil(options.signal)
}

/** Origins whose pages may call agent servers: configured ones, and this server. */
function agentServerOrigins({ allowedOrigins, publicUrl }: Config): string[] {
  return [...allowedOrigins, ...(publicUrl === undefined ? [] : [new URL(publicUrl).origin])]
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
