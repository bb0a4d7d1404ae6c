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
import { applicationHomes } from './applications/application-backends.ts'
import type { Ingress } from './applications/bridge/ingress.ts'
import { BashService } from './bash/bash-service.ts'
import { bashSocket } from './bash/socket.ts'
import type { Config } from './config/config.ts'
import { ConversationInfoReader } from './conversations/conversation-info.ts'
import { ConversationRegistry } from './conversations/registry.ts'
import { startRetention } from './conversations/retention.ts'
import { Editor } from './editor/editor.ts'
import { applicationDirectory, openExtensionServices } from './extension-services.ts'
import { Gateway } from './gateway/gateway.ts'
import { GitReader } from './git/git-reader.ts'
import { RepositorySearch } from './git/repository-search.ts'
import { checkpointHandlers } from './handlers/conversations/checkpoints.ts'
import { conversationCommandHandlers } from './handlers/conversations/commands.ts'
import { conversationHandlers } from './handlers/conversations/conversations.ts'
import { credentialBindingHandlers } from './handlers/conversations/credential-bindings.ts'
import { eventHandlers } from './handlers/conversations/events.ts'
import { gatewayHandlers } from './handlers/conversations/gateway.ts'
import { timelineHandlers } from './handlers/conversations/timeline.ts'
import { subAgentHandlers } from './handlers/extensions/sub-agents.ts'
import { toolHandlers } from './handlers/extensions/tools.ts'
import { acpModelHandlers } from './handlers/profiles/acp-models.ts'
import { agentProfileHandlers } from './handlers/profiles/agent-profiles.ts'
import { llmCatalogueHandlers } from './handlers/profiles/llm-catalogue.ts'
import { llmProfileHandlers } from './handlers/profiles/llm-profiles.ts'
import { metaProfileHandlers } from './handlers/profiles/meta-profiles.ts'
import { providerConnectionHandlers } from './handlers/profiles/provider-connections.ts'
import { repositoryConsentHandlers } from './handlers/repositories/consents.ts'
import { editorHandlers } from './handlers/server/editor.ts'
import { maintenanceHandlers } from './handlers/server/maintenance.ts'
import { mcpHandlers } from './handlers/settings/mcp.ts'
import { settingsHandlers } from './handlers/settings/settings.ts'
import { bashHandlers } from './handlers/workspaces/bash.ts'
import { conversationWorkspaceHandlers } from './handlers/workspaces/conversation-workspace.ts'
import { fileHandlers } from './handlers/workspaces/files.ts'
import { gitHandlers } from './handlers/workspaces/git.ts'
import { workspaceHandlers } from './handlers/workspaces/workspace-files.ts'
import { workspacesListHandlers } from './handlers/workspaces/workspaces-list.ts'
import { createStateMetrics } from './metrics/state-metrics.ts'
import type { WorkMetrics } from './metrics/work-metrics.ts'
import { Peers } from './peers/peers.ts'
import { AgentProfiles } from './profiles/agent-profiles.ts'
import { LlmProfiles } from './profiles/llm-profiles.ts'
import { createKeyRefresh } from './profiles/managed-keys.ts'
import { MetaProfiles } from './profiles/meta-profiles.ts'
import { findConnectionUsers, ProviderConnections } from './profiles/provider-connections.ts'
import { SubscriptionLogin } from './profiles/subscription-login.ts'
import { RepositoryConsents } from './repositories/repository-consents.ts'
import { CredentialBindings } from './secrets/credential-bindings.ts'
import { ServerSecrets } from './secrets/server-secrets.ts'
import type { Activity } from './server/activity.ts'
import {
  protectedDirectories,
  toolFilesDirectory,
  warnIfKeysAreReadable,
  withToolUser,
} from './server/tool-user.ts'
import { McpOAuthJobs } from './settings/mcp-oauth-jobs.ts'
import { SavedMcpOAuthStates } from './settings/mcp-oauth-states.ts'
import { testMcpServer } from './settings/mcp-probe.ts'
import { ServerSettings } from './settings/server-settings.ts'
import { eventsSocket } from './streams/events-socket.ts'
import { LiveEvents } from './streams/live-events.ts'
import { sessionSocket } from './streams/session-socket.ts'
import { stateUpdateEvent } from './streams/transient-buffer.ts'
import { Webhooks } from './webhooks/webhooks.ts'
import { WorkspaceTickets } from './workspaces/tickets.ts'
import { WorkspaceFiles } from './workspaces/workspace-files.ts'
import { WorkspacesList } from './workspaces/workspaces-list.ts'

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
