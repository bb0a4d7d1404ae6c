import { hash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { ProgramFolder, Workspace } from '@slipway/agent'
import { unixFetch } from '@slipway/http'
import { conversationRoutes, eventRoutes, type LogFunction, runtimeRoutes } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import type { Clock } from '@slipway/shared/time'
import { removeTemporaryLeftovers } from '@slipway/shared/tool-files'
import { assertSealingKey, Cipher, importDocumentFiles, type ServerStorage } from '@slipway/storage'
import type { Config } from './config/config.ts'
import { ConversationInfoReader } from './conversations/conversation-info.ts'
import { conversationCommandHandlers } from './conversations/handlers/commands.ts'
import { conversationHandlers } from './conversations/handlers/conversations.ts'
import { eventHandlers } from './conversations/handlers/events.ts'
import type { CreateConversationDeps } from './conversations/lifecycle/create.ts'
import { startRetention } from './conversations/lifecycle/retention.ts'
import { ConversationParts } from './conversations/parts.ts'
import { ConversationRegistry } from './conversations/registry.ts'
import { type ServerDocuments, withConfiguredDocuments } from './documents/configured-documents.ts'
import { createStateMetrics } from './metrics/state-metrics.ts'
import type { WorkMetrics } from './metrics/work-metrics.ts'
import type { Core, ProgramSettings } from './module.ts'
import type { PageTokens } from './peers/page-tokens.ts'
import { Peers } from './peers/peers.ts'
import { controlPlaneFetch } from './secrets/control-plane-fetch.ts'
import { ServerSecrets } from './secrets/server-secrets.ts'
import type { Activity } from './server/activity.ts'
import type { Ingress } from './server/ingress.ts'
import type { SocketPath } from './server/lazy-handlers.ts'
import {
  type Directories,
  protectedDirectories,
  toolFilesDirectory,
  warnIfKeysAreReadable,
  withToolUser,
} from './server/tool-user.ts'
import { eventsSocket } from './streams/events-socket.ts'
import { LiveEvents } from './streams/live-events.ts'
import { sessionSocket } from './streams/session-socket.ts'
import { stateUpdateEvent } from './streams/transient-buffer.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** Conversations as files are of the module `formats`. */
const { importConversation: _in, exportConversation: _out, ...ownRoutes } = conversationRoutes
/** Routes and sockets that the core answers once it is open. */
export const coreRoutes = { ...ownRoutes, ...eventRoutes, ...runtimeRoutes }
export const coreSockets: readonly SocketPath[] = [
  { path: '/sockets/events/{conversation_id}' },
  { path: '/sockets/session/{conversation_id}', takesBinary: true },
]

export interface CoreOptions {
  /** Includes the init settings of a deferred server. */
  readonly config: Config
  readonly directory: string
  readonly storage: ServerStorage
  readonly clock: Clock
  readonly log: LogFunction
  readonly activity: Activity
  readonly workMetrics: WorkMetrics
  /** See `killLeftovers`. */
  readonly leftoversKilled: Promise<void>
  readonly ingress: Ingress
  /** The key of other servers, where several share the database. */
  readonly peerKey?: Secret | undefined
  /** Its port, once it listens on one. */
  readonly port: () => number | undefined
}

/**
 * The value of `SLIPWAY_SERVER` in the environment of all programs that this server starts, except those of
 * applications, which have their own `HOME` in the data directory.
 */
async function serverMarker(directory: string): Promise<string> {
  const path = await realpath(directory)
  return hash('sha256', path).slice(0, 16)
}

/**
 * Ends the programs that the last process on this directory left running, and removes their folders and the
 * temporary folders of processes that have ended. `findHomes`: those of programs with their own `HOME`.
 */
export async function killLeftovers(
  directory: string,
  { toolEnvironment }: Pick<Config, 'toolEnvironment'>,
  findHomes: readonly ((dataDirectory: string) => string)[],
): Promise<void> {
  const server = await serverMarker(directory)
  const path = await realpath(directory)
  await Workspace.killLeftovers(
    server,
    findHomes.map((find) => find(path)),
  )
  await ProgramFolder.removeLeftovers(withToolUser({ ...toolEnvironment, SLIPWAY_SERVER: server }))
  await removeTemporaryLeftovers()
}

/** The documents of the storage, with the files of earlier versions, under those that files set. */
async function openDocuments(
  { config, directory, storage: { documents }, log }: CoreOptions,
  cipher: Cipher,
): Promise<ServerDocuments> {
  const isShared = config.databaseUrl !== undefined
  if (isShared) await assertSealingKey(documents, cipher, log)
  await importDocumentFiles({ directory, documents, cipher, isShared, log })
  const { documentsDirectory } = config
  if (documentsDirectory === undefined) return documents
  const options = { directory: documentsDirectory, dataDirectory: directory, cipher }
  return await withConfiguredDocuments(documents, options)
}

/** Opens conversations, their streams and webhooks. Nothing runs before `start`. */
export async function openCore(
  options: CoreOptions,
  { call, findPageTokens }: Pick<Core, 'call'> & { readonly findPageTokens: () => PageTokens | undefined },
) {
  const { config, directory, storage, clock, log, ingress, port, leftoversKilled } = options
  await using resources = new AsyncDisposableStack()
  const now = () => clock.now() * 1000
  const server = await serverMarker(directory)
  const environment: Config['toolEnvironment'] = withToolUser({
    // Programs that behave differently for agents look for it.
    AI_AGENT: 'openhands',
    ...config.toolEnvironment,
    SLIPWAY_SERVER: server,
  })
  const files = toolFilesDirectory(directory, server)
  const directories = { data: directory, files, hidden: join(files, 'hidden') }
  const infoReader = new ConversationInfoReader(storage, files)
  const cipher = await Cipher.open({ directory, secretKey: config.secretKey, log })
  void warnIfKeysAreReadable(config, log)
  const documents = await openDocuments(options, cipher)
  const secrets = new ServerSecrets({ documents, cipher })
  const redactedValues = [...config.secrets.map((secret) => secret.reveal()), ...cipher.keyTexts]
  const parts = new ConversationParts()
  const worktrees = config.worktreeRoot ?? join(files, 'worktrees')
  const webhooks = resources.use(
    new Webhooks({
      storage,
      receivers: config.webhooks,
      readInfo: async (record) =>
        await infoReader.readInfo(record, { loaded: await registry.peek(record.id) }),
      readSnapshot: async (record) =>
        stateUpdateEvent('full_state', await infoReader.readArchivedState(record), now()),
      sessionKey: config.sessionKeys[0],
      fetch: unixFetch,
      clock,
      log,
    }),
  )
  const programs = { environment, redactedValues, leftoversKilled }
  const opened = { ...options, cipher, secrets, parts, directories, programs, worktrees }
  const registry = await openRegistry(opened)
  resources.use(registry)
  const creation = { ...{ storage, registry, worktrees, environment, cipher, parts }, wire: config.wire }
  const host = { clock, log, activity: options.activity, ingress, port }
  const core: Core = {
    ...{ config, directories, host, storage, documents, cipher, secrets, registry },
    ...{ creation, infoReader, webhooks, parts, programs, call },
  }
  const peers = openPeers(options, registry, findPageTokens)
  if (peers !== undefined) parts.add({ isInUse: (id) => peers.isInUse(id) })
  const closing = resources.move()
  return {
    core,
    peers,
    handlers: {
      ...conversationHandlers({ createDeps: creation, infoReader, webhooks }),
      ...conversationCommandHandlers({ storage, registry, parts, cipher, webhooks }),
      ...eventHandlers({ storage, registry, heartbeatMs: config.heartbeatMs, clock }),
    },
    sockets: openSockets(options, { registry, infoReader, peers }),
    metrics: [
      ...createStateMetrics({ records: storage.conversations, registry, webhooks }),
      ...(peers === undefined ? [] : [peers.requests, registry.takeovers]),
    ],
    /** Continues the runs of the last process. Modules are open, and nothing of that process runs. */
    async start(): Promise<void> {
      await leftoversKilled
      await registry.recover()
      webhooks.start()
      const { retentionMs } = config
      if (retentionMs === undefined) return
      closing.use(startRetention({ ...creation, infoReader, webhooks, retentionMs, clock, log }))
    },
    /** Ends all runs and closes their conversations. */
    stop: () => registry[Symbol.asyncDispose](),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  }
}

interface RegistryDeps extends CoreOptions, Pick<Core, 'cipher' | 'secrets' | 'parts'> {
  readonly directories: Directories
  readonly programs: ProgramSettings
  readonly worktrees: CreateConversationDeps['worktrees']
}

async function openRegistry(deps: RegistryDeps): Promise<ConversationRegistry> {
  const { config, storage, cipher, secrets, parts, workMetrics, clock, log, port, worktrees } = deps
  const { directories, programs } = deps
  const { environment, redactedValues } = programs
  return new ConversationRegistry({
    server: {
      directories: await protectedDirectories(config, directories),
      isHidden: config.hidesKeys,
      worktrees: [worktrees],
      port,
    },
    ...{ storage, cipher, parts, secrets, clock, log, environment, redactedValues },
    events: workMetrics.traceLog(storage.log),
    monitor: workMetrics.monitor,
    directory: join(directories.files, 'conversations'),
    homeDirectory: environment.HOME,
    isConfined: config.confineFiles,
    lookupFetch: controlPlaneFetch(config),
    confirmationDeadlineMs: config.confirmationDeadlineMs,
    commandRules: config.commandRules,
    commandSandbox: config.commandSandbox,
    hasCheckpoints: config.hasCheckpoints,
    hasLanguageServers: config.hasLanguageServers,
    browser: config.browser,
    maxConcurrentRuns: config.maxConcurrentRuns,
    queuesRuns: config.queuesRuns,
    maxRunRecoveries: config.maxRunRecoveries,
    idleMs: config.conversationIdleMs,
  })
}

/** The other servers on the database, where there are some. */
function openPeers(
  { storage, peerKey, clock, log }: CoreOptions,
  registry: ConversationRegistry,
  findPageTokens: () => PageTokens | undefined,
): Peers | undefined {
  const { leases } = storage
  if (leases === undefined || peerKey === undefined) return undefined
  return new Peers({
    ...{ leases, key: peerKey, fetch: unixFetch, clock, log },
    tickets: { createPeerToken: (...request) => findPageTokens()?.createPeerToken(...request) },
    continueRun: (id) => registry.continueRun(id),
    exists: async (id) => (await storage.conversations.get([id]))[0] !== undefined,
  })
}

function openSockets(
  { storage, activity, clock }: CoreOptions,
  deps: {
    readonly registry: ConversationRegistry
    readonly infoReader: ConversationInfoReader
    readonly peers: Peers | undefined
  },
) {
  const options = { ...deps, storage, activity, clock, live: new LiveEvents(storage.log) }
  return [eventsSocket(options), sessionSocket(options)]
}
