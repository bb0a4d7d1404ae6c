import { hash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { ProgramFolder, Workspace } from '@slipway/agent'
import { type AppOptions, type SocketRoute, unixFetch } from '@slipway/http'
import type { LogFunction } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import type { Clock } from '@slipway/shared/time'
import { removeTemporaryLeftovers, toolUser } from '@slipway/shared/tool-files'
import { Cipher, type ServerStorage } from '@slipway/storage'
import { AgentProfiles } from './compat/agent-profiles/agent-profiles.ts'
import { agentProfileHandlers } from './compat/agent-profiles/handlers.ts'
import { applicationHomes } from './compat/applications/application-backends.ts'
import { CredentialBindings } from './compat/credential-bindings/credential-bindings.ts'
import { credentialBindingHandlers } from './compat/credential-bindings/handlers.ts'
import { Editor } from './compat/editor/editor.ts'
import { editorHandlers } from './compat/editor/handlers.ts'
import { createKeyRefresh } from './compat/managed-models/managed-keys.ts'
import { metaProfileHandlers } from './compat/meta-profiles/handlers.ts'
import { MetaProfiles } from './compat/meta-profiles/meta-profiles.ts'
import { providerConnectionHandlers } from './compat/provider-connections/handlers.ts'
import {
  findConnectionUsers,
  ProviderConnections,
} from './compat/provider-connections/provider-connections.ts'
import { conversationWorkspaceHandlers } from './compat/route-mirrors/handlers.ts'
import { workspacesListHandlers } from './compat/saved-workspaces/handlers.ts'
import { WorkspacesList } from './compat/saved-workspaces/workspaces-list.ts'
import type { Config } from './core/config/config.ts'
import { ConversationInfoReader } from './core/conversations/conversation-info.ts'
import { conversationCommandHandlers } from './core/conversations/handlers/commands.ts'
import { conversationHandlers } from './core/conversations/handlers/conversations.ts'
import { eventHandlers } from './core/conversations/handlers/events.ts'
import { ConversationRegistry } from './core/conversations/registry.ts'
import { startRetention } from './core/conversations/retention.ts'
import { createStateMetrics } from './core/metrics/state-metrics.ts'
import type { WorkMetrics } from './core/metrics/work-metrics.ts'
import { Peers } from './core/peers/peers.ts'
import { ServerSecrets } from './core/secrets/server-secrets.ts'
import type { Activity } from './core/server/activity.ts'
import type { Ingress } from './core/server/ingress.ts'
import {
  protectedDirectories,
  toolFilesDirectory,
  warnIfKeysAreReadable,
  withToolUser,
} from './core/server/tool-user.ts'
import { eventsSocket } from './core/streams/events-socket.ts'
import { LiveEvents } from './core/streams/live-events.ts'
import { sessionSocket } from './core/streams/session-socket.ts'
import { stateUpdateEvent } from './core/streams/transient-buffer.ts'
import { Webhooks } from './core/webhooks/webhooks.ts'
import { applicationDirectory, openExtensionServices } from './extension-services.ts'
import { BashService } from './modules/bash/bash-service.ts'
import { bashHandlers } from './modules/bash/handlers.ts'
import { bashSocket } from './modules/bash/socket.ts'
import { checkpointHandlers } from './modules/checkpoints/handlers.ts'
import { fileHandlers } from './modules/files/handlers.ts'
import { Gateway } from './modules/gateway/gateway.ts'
import { gatewayHandlers } from './modules/gateway/handlers.ts'
import { GitReader } from './modules/git/git-reader.ts'
import { gitHandlers } from './modules/git/handlers.ts'
import { RepositorySearch } from './modules/git/repository-search.ts'
import { acpModelHandlers } from './modules/llm-profiles/acp-models.ts'
import { llmCatalogueHandlers } from './modules/llm-profiles/catalogue-handlers.ts'
import { llmProfileHandlers } from './modules/llm-profiles/handlers.ts'
import { LlmProfiles } from './modules/llm-profiles/llm-profiles.ts'
import { SubscriptionLogin } from './modules/llm-profiles/subscription-login.ts'
import { maintenanceHandlers } from './modules/maintenance/handlers.ts'
import { mcpHandlers } from './modules/mcp/handlers.ts'
import { McpOAuthJobs } from './modules/mcp/mcp-oauth-jobs.ts'
import { SavedMcpOAuthStates } from './modules/mcp/mcp-oauth-states.ts'
import { testMcpServer } from './modules/mcp/mcp-probe.ts'
import { repositoryConsentHandlers } from './modules/repository-consents/handlers.ts'
import { RepositoryConsents } from './modules/repository-consents/repository-consents.ts'
import { settingsHandlers } from './modules/settings/handlers.ts'
import { ServerSettings } from './modules/settings/server-settings.ts'
import { subAgentHandlers } from './modules/sub-agents/handlers.ts'
import { timelineHandlers } from './modules/timeline/handlers.ts'
import { toolHandlers } from './modules/tools/handlers.ts'
import { workspaceHandlers } from './modules/workspace-pages/handlers.ts'
import { WorkspaceTickets } from './modules/workspace-pages/tickets.ts'
import { WorkspaceFiles } from './modules/workspace-pages/workspace-files.ts'

interface ServicesOptions {
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
 * applications, which have a `HOME` of their own in the data directory.
 */
async function serverMarker(directory: string): Promise<string> {
  const path = await realpath(directory)
  return hash('sha256', path).slice(0, 16)
}

/**
 * Ends the programs that the last process on this directory left running, and removes their folders and the
 * temporary folders of processes that have ended.
 */
export async function killLeftovers(
  directory: string,
  { toolEnvironment }: Pick<Config, 'toolEnvironment'>,
): Promise<void> {
  const server = await serverMarker(directory)
  const homes = applicationHomes(applicationDirectory(await realpath(directory)))
  await Workspace.killLeftovers(server, homes)
  await ProgramFolder.removeLeftovers(withToolUser({ ...toolEnvironment, SLIPWAY_SERVER: server }))
  await removeTemporaryLeftovers()
}

/** Opens everything that depends on keys and secrets, and continues the runs of the last process. */
export async function openServices(options: ServicesOptions) {
  const { config, directory: dataDirectory, storage, clock, log, activity, workMetrics, port } = options
  await using resources = new AsyncDisposableStack()
  const now = () => clock.now() * 1000
  const server = await serverMarker(dataDirectory)
  const environment: Config['toolEnvironment'] = withToolUser({
    // Programs that behave differently for agents look for it.
    AI_AGENT: 'openhands',
    ...config.toolEnvironment,
    SLIPWAY_SERVER: server,
  })
  const filesDirectory = toolFilesDirectory(dataDirectory, server)
  // Hidden from sandboxed commands: its socket leads out of the sandbox.
  const editorDirectory = join(filesDirectory, 'editor')
  const worktrees = config.worktreeRoot ?? join(filesDirectory, 'worktrees')
  const infoReader = new ConversationInfoReader(storage, filesDirectory)
  const cipher = await Cipher.open({ directory: dataDirectory, secretKey: config.secretKey, log })
  void warnIfKeysAreReadable(config, log)
  const settings = new ServerSettings({ directory: dataDirectory, cipher })
  const secrets = new ServerSecrets({ directory: dataDirectory, cipher })
  const llmProfiles = new LlmProfiles({
    directory: join(dataDirectory, 'profiles'),
    cipher,
    max: config.maxProfiles,
    settings,
    findConnection: (id) => connections.resolve(id),
    references: {
      findReferences: (name) => agentProfiles.findReferences(name),
      renameReferences: (name, newName) => agentProfiles.renameReferences(name, newName),
    },
  })
  const connections = new ProviderConnections({
    path: join(dataDirectory, 'provider-connections.sealed'),
    cipher,
    findUsers: async (id) => await findConnectionUsers(id, { profiles: llmProfiles, settings }),
  })
  const subscription = new SubscriptionLogin({ directory: dataDirectory, cipher, ...config.subscription })
  const metaProfiles = new MetaProfiles({ path: join(dataDirectory, 'meta-profiles.json'), settings })
  const agentProfiles = new AgentProfiles({
    path: join(dataDirectory, 'agent-profiles.sealed'),
    cipher,
    llmProfiles,
    findMetaProfile: (name) => metaProfiles.get(name),
    settings,
    listUserSkills: (signal) => extensionServices.userSkills(signal),
  })
  const redactedValues = [...config.secrets.map((secret) => secret.reveal()), ...cipher.keyTexts]
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
  const extensionServices = resources.use(
    openExtensionServices({
      directory: dataDirectory,
      environment,
      homeDirectory: environment.HOME,
      skillsSource: config.skillsSource,
      marketplaces: config.marketplaces,
      ingress: options.ingress,
      applicationSessionMs: config.applicationSessionMs,
      hasKeys: () => config.sessionKeys.length > 0,
      findSecret: (name) => secrets.getValue(name),
      log,
    }),
  )
  const repositoryConsents = new RepositoryConsents({
    path: join(dataDirectory, 'repository-consents.sealed'),
    cipher,
    trust: config.repositoryTrust,
  })
  const mcpOAuth = new SavedMcpOAuthStates({
    settings,
    announce: (state) => void webhooks.postOAuthState(state),
  })
  const mcpOAuthJobs = resources.use(
    new McpOAuthJobs((request, signal) => testMcpServer(request, environment, signal)),
  )
  const bindings = await CredentialBindings.open(join(dataDirectory, 'credential-bindings.json'))
  const { leases } = storage
  const tickets = new WorkspaceTickets({
    key: cipher.deriveKey('workspace tickets'),
    sessionKeys: config.sessionKeys,
    now: () => clock.now(),
  })
  const { peerKey } = options
  const peers: Peers | undefined =
    leases === undefined || peerKey === undefined
      ? undefined
      : new Peers({
          ...{ leases, key: peerKey, tickets, fetch: unixFetch, clock, log },
          continueRun: (id) => registry.continueRun(id),
          exists: async (id) => (await storage.conversations.get([id]))[0] !== undefined,
        })
  const registry: ConversationRegistry = resources.use(
    new ConversationRegistry({
      isInUse: (id) => (peers?.isInUse(id) ?? false) || bash.isRunning(id),
      extensions: extensionServices.extensions,
      repositoryConsents,
      mcpOAuth,
      findCredential: (id, name) => bindings.find(id, name),
      server: {
        directories: await protectedDirectories(config, dataDirectory, editorDirectory),
        isHidden: config.hidesKeys,
        worktrees: [worktrees],
        port,
      },
      storage,
      cipher,
      profiles: llmProfiles,
      subscription,
      ...(config.keyRefresh === undefined
        ? {}
        : { refreshKey: createKeyRefresh({ ...config.keyRefresh, fetch, log }) }),
      findMetaProfile: (name) => metaProfiles.get(name),
      secrets,
      events: workMetrics.traceLog(storage.log),
      monitor: workMetrics.monitor,
      log,
      clock,
      directory: join(filesDirectory, 'conversations'),
      environment,
      homeDirectory: environment.HOME,
      isConfined: config.confineFiles,
      redactedValues,
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
    }),
  )
  const bash = resources.use(
    await BashService.open({
      directory: config.bashDirectory ?? dataDirectory,
      workingDirectory: toolUser()?.home ?? process.cwd(),
      environment,
      redactedValues,
      retentionMs: config.bashRetentionMs,
      health: storage.health,
      log,
      now,
    }),
  )
  const runningEditor =
    config.editor &&
    resources.use(
      await Editor.start({
        settings: config.editor,
        directory: editorDirectory,
        environment,
        allowedOrigins: config.allowedOrigins,
        leftoversKilled: options.leftoversKilled,
        log,
      }),
    )
  await options.leftoversKilled
  await registry.recover()
  webhooks.start()
  const { retentionMs } = config
  if (retentionMs !== undefined)
    resources.use(
      startRetention({
        ...{
          storage,
          registry,
          infoReader,
          bash,
          bindings,
          worktrees,
          environment,
          webhooks,
          retentionMs,
          clock,
          log,
        },
      }),
    )
  const { wire } = config
  const createDeps = {
    ...{ storage, registry, worktrees, environment, cipher, llmProfiles, agentProfiles, wire },
    repositoryConsents,
    bindings,
    launchedProfile: config.launchedProfile,
  }
  const files = (root?: string) =>
    fileHandlers({
      root,
      homeDirectory: environment.HOME ?? homedir(),
      log: storage.log,
      infoReader,
      dataDirectory,
      environment,
    })
  const git = gitHandlers({
    reader: new GitReader(environment),
    repositories: new RepositorySearch({ secrets, apiUrl: config.githubApiUrl, fetch }),
  })
  const editor = editorHandlers(runningEditor)
  const handlers = {
    ...conversationHandlers({ createDeps, infoReader, bash, webhooks, now }),
    ...conversationCommandHandlers({ storage, registry, llmProfiles, cipher, webhooks, bindings }),
    ...credentialBindingHandlers({ bindings, storage, registry, fetch: unixFetch }),
    ...eventHandlers({ storage, registry, heartbeatMs: config.heartbeatMs, clock }),
    ...llmProfileHandlers({ profiles: llmProfiles, subscription, cipher, log }),
    ...settingsHandlers({ settings, secrets, llmProfiles, agentProfiles, metaProfiles, cipher, log }),
    ...agentProfileHandlers({ profiles: agentProfiles }),
    ...metaProfileHandlers({ profiles: metaProfiles }),
    ...providerConnectionHandlers({ connections }),
    ...workspacesListHandlers({
      workspaces: new WorkspacesList({ path: join(dataDirectory, 'workspaces.json') }),
    }),
    ...llmCatalogueHandlers({ subscription }),
    ...acpModelHandlers({ cipher, environment, serverSecrets: secrets, redactedValues }),
    ...mcpHandlers({ cipher, environment, jobs: mcpOAuthJobs }),
    ...subAgentHandlers({ homeDirectory: environment.HOME, hasBrowser: !config.browser.isOff, log }),
    ...timelineHandlers({ storage, registry }),
    ...checkpointHandlers({ registry }),
    ...repositoryConsentHandlers({ consents: repositoryConsents, registry }),
    ...editor,
    ...maintenanceHandlers({ directory: dataDirectory, storage, bash: bash.events }),
    ...bashHandlers({ bash }),
    ...gatewayHandlers({
      gateway: new Gateway({
        createDeps,
        llmProfiles,
        readConfirmation: () => settings.getConfirmation(),
        directory: join(filesDirectory, 'gateway'),
        timeoutMs: config.gatewayTimeoutMs,
        clock,
      }),
      heartbeatMs: config.heartbeatMs,
    }),
    ...git,
    ...extensionServices.handlers({ registry }),
    ...toolHandlers(config.browser),
    ...workspaceHandlers({
      infoReader,
      files: new WorkspaceFiles({ directory: dataDirectory, worktrees: createDeps.worktrees }),
      tickets,
      basePath: config.basePath,
    }),
    ...files(),
    ...conversationWorkspaceHandlers({
      infoReader,
      bash: (scope) => bashHandlers({ bash, scope }),
      files,
      git,
      editor,
    }),
  }
  const guarded = bindings.wrap(handlers)
  const live = new LiveEvents(storage.log)
  const socketOptions = { storage, registry, infoReader, activity, live, peers, clock }
  const sockets = {
    events: bindings.wrapSocket(eventsSocket(socketOptions)),
    session: bindings.wrapSocket(sessionSocket(socketOptions)),
    bash: bashSocket({ bash, activity, now }),
  } satisfies Record<string, SocketRoute>
  const pass: AppOptions['pageCredential'] = (url, header, peer) => tickets.authenticate(url, header, peer)
  const disposables = resources.move()
  return {
    handlers: peers?.wrap(guarded) ?? guarded,
    sockets,
    applicationProxy: extensionServices.applicationProxy,
    releaseMemory: () => registry.releaseMemory(),
    pass,
    metrics: [
      ...createStateMetrics({ records: storage.conversations, registry, bash, webhooks }),
      ...(peers === undefined ? [] : [peers.requests, registry.takeovers]),
    ],
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  }
}
