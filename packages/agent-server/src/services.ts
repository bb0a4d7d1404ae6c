import { homedir } from 'node:os'
import { join } from 'node:path'
import { type AppOptions, reach, type SocketRoute } from '@slipway/http'
import type { Log } from '@slipway/protocol'
import { Cipher, type SqliteStorage } from '@slipway/storage'
import { Bash } from './bash/bash-service.ts'
import { bashSocket } from './bash/socket.ts'
import type { Config } from './config/config.ts'
import { Conversations } from './conversations/conversation-info.ts'
import { Agents } from './conversations/registry.ts'
import { openExtensions } from './extension-services.ts'
import { SubAgentList } from './extensions/sub-agent-list.ts'
import { Gateway } from './gateway/gateway.ts'
import { Git } from './git/git-reader.ts'
import { controlHandlers } from './handlers/conversations/commands.ts'
import { conversationHandlers } from './handlers/conversations/conversations.ts'
import { eventHandlers } from './handlers/conversations/events.ts'
import { gatewayHandlers } from './handlers/conversations/gateway.ts'
import { subAgentHandlers } from './handlers/extensions/sub-agents.ts'
import { toolHandlers } from './handlers/extensions/tools.ts'
import { agentProfileHandlers } from './handlers/profiles/agent-profiles.ts'
import { llmCatalogueHandlers } from './handlers/profiles/llm-catalogue.ts'
import { profileHandlers } from './handlers/profiles/llm-profiles.ts'
import { providerConnectionHandlers } from './handlers/profiles/provider-connections.ts'
import { editorHandlers } from './handlers/server/editor.ts'
import { mcpHandlers } from './handlers/settings/mcp.ts'
import { settingsHandlers } from './handlers/settings/settings.ts'
import { bashHandlers } from './handlers/workspaces/bash.ts'
import { fileHandlers } from './handlers/workspaces/files.ts'
import { gitHandlers } from './handlers/workspaces/git.ts'
import { workspaceHandlers } from './handlers/workspaces/workspace-files.ts'
import { workspacesListHandlers } from './handlers/workspaces/workspaces-list.ts'
import { stateNumbers } from './metrics/state-metrics.ts'
import type { WorkNumbers } from './metrics/work-metrics.ts'
import { ActiveModel } from './profiles/active-profile.ts'
import { AgentProfiles } from './profiles/agent-profiles.ts'
import { Profiles } from './profiles/llm-profiles.ts'
import { isConnectionUsed, ProviderConnections } from './profiles/provider-connections.ts'
import { ServerSecrets } from './secrets/server-secrets.ts'
import { ServerSettings } from './settings/server-settings.ts'
import { eventsSocket } from './streams/events-socket.ts'
import { Webhooks } from './webhooks/webhooks.ts'
import { Tickets } from './workspaces/tickets.ts'
import { WorkspaceFiles } from './workspaces/workspace-files.ts'
import { WorkspacesList } from './workspaces/workspaces-list.ts'

export interface PartsOptions {
  /** With what a server that waited for its settings has been given. */
  readonly config: Config
  readonly directory: string
  readonly storage: SqliteStorage
  readonly log: Log
  /** Called by what changes something. */
  readonly touch: () => void
  /** Counts and traces what conversations do. */
  readonly work: WorkNumbers
}

export type Parts = Awaited<ReturnType<typeof openParts>>

/** Everything that depends on keys and secrets. Nobody is answered before: what was running when the process died is paused. */
export async function openParts({ config, directory, storage, log, touch, work }: PartsOptions) {
  await using opened = new AsyncDisposableStack()
  const now = () => Date.now() * 1000
  const { toolEnvironment: environment } = config
  const conversations = new Conversations(storage, directory)
  const cipher = await Cipher.open({ directory, secretKey: config.secretKey, log })
  const settings = new ServerSettings({ directory, cipher })
  const secrets = new ServerSecrets({ directory, cipher })
  const profiles = new Profiles({
    directory: join(directory, 'profiles'),
    cipher,
    max: config.maxProfiles,
    active: new ActiveModel(settings),
    connection: (id) => connections.resolve(id),
    references: {
      refersTo: (name) => agentProfiles.refersTo(name),
      renamed: (name, newName) => agentProfiles.renamed(name, newName),
    },
  })
  const connections = new ProviderConnections({
    path: join(directory, 'provider-connections.sealed'),
    cipher,
    isUsed: async (id) => await isConnectionUsed(id, { profiles, settings }),
  })
  const agentProfiles = new AgentProfiles({
    path: join(directory, 'agent-profiles.sealed'),
    cipher,
    models: profiles,
    settings,
    skills: (signal) => extensions.userSkills(signal),
  })
  const hidden = [...config.secrets.map((secret) => secret.open()), ...cipher.texts]
  const webhooks = opened.use(
    new Webhooks({
      storage,
      receivers: config.webhooks,
      info: async (record) => await conversations.info(record, { loaded: await agents.peek(record.id) }),
      sessionKey: config.keys[0],
      fetch: reach,
      log,
    }),
  )
  const extensions = opened.use(
    openExtensions({
      directory,
      environment,
      home: environment.HOME,
      skillsSource: config.skillsSource,
      marketplaces: config.marketplaces,
      log,
    }),
  )
  const agents = opened.use(
    new Agents({
      extensions: extensions.extensions,
      storage,
      cipher,
      profiles,
      secrets,
      events: work.traced(storage.log),
      watch: work.watch,
      log,
      now,
      directory: join(directory, 'conversations'),
      environment,
      home: environment.HOME,
      isConfined: config.confineFiles,
      hidden,
      confirmationDeadlineMs: config.confirmationDeadlineMs,
      maxRuns: config.maxConcurrentRuns,
      idleMs: config.conversationIdleMs,
    }),
  )
  const bash = opened.use(
    await Bash.open({
      directory: join(directory, 'bash'),
      workingDirectory: process.cwd(),
      environment,
      hidden,
      retentionMs: config.bashRetentionMs,
      log,
      now,
    }),
  )
  await agents.recover()
  webhooks.start()
  const tickets = new Tickets({
    key: cipher.keyFor('workspace tickets'),
    sessionKeys: config.keys,
    now: Date.now,
  })
  const worktrees = join(directory, 'worktrees')
  const { wire } = config
  const create = { storage, agents, worktrees, environment, cipher, profiles, agentProfiles, wire }
  const handlers = {
    ...conversationHandlers({ create, conversations, touch, now }),
    ...controlHandlers({ storage, agents, profiles, cipher, touch }),
    ...eventHandlers({ storage, agents, touch, heartbeatMs: config.heartbeatMs }),
    ...profileHandlers({ profiles, cipher, log, touch }),
    ...settingsHandlers({ settings, secrets, profiles, agentProfiles, cipher, log, touch }),
    ...agentProfileHandlers({ profiles: agentProfiles, touch }),
    ...providerConnectionHandlers({ connections, touch }),
    ...workspacesListHandlers({
      workspaces: new WorkspacesList({ path: join(directory, 'workspaces.json') }),
      touch,
    }),
    ...llmCatalogueHandlers(),
    ...mcpHandlers({ cipher, environment }),
    ...subAgentHandlers({ agents: new SubAgentList({ home: environment.HOME, log }) }),
    ...editorHandlers(),
    ...bashHandlers({ bash, touch }),
    ...gatewayHandlers({
      gateway: new Gateway({ create, profiles, directory: join(directory, 'gateway') }),
      touch,
      heartbeatMs: config.heartbeatMs,
    }),
    ...gitHandlers({ git: new Git(environment) }),
    ...extensions.handlers({ agents, touch }),
    ...toolHandlers(),
    ...workspaceHandlers({
      conversations,
      files: new WorkspaceFiles({ directory, worktrees: create.worktrees }),
      tickets,
    }),
    ...fileHandlers({
      home: environment.HOME ?? homedir(),
      log: storage.log,
      conversations,
      directory,
      environment,
      touch,
    }),
  }
  const sockets = {
    events: eventsSocket({ storage, agents, conversations, touch, now }),
    bash: bashSocket({ bash, touch, now }),
  } satisfies Record<string, SocketRoute>
  const pass: AppOptions['pass'] = (url, header) => tickets.pass(url, header)
  const numbers = () => stateNumbers({ records: storage.conversations, agents, bash, webhooks })
  const parts = opened.move()
  return { handlers, sockets, pass, numbers, [Symbol.asyncDispose]: () => parts.disposeAsync() }
}
