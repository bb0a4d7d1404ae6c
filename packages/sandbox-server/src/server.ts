import type { LogFunction } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { Cipher } from '@slipway/storage'
import type { openControlPlane } from '@slipway/storage/control-plane'
import { Accounts } from './accounts/accounts.ts'
import { eraseUser, repeatErasure } from './accounts/erase-user.ts'
import { LookupSecrets } from './accounts/lookup-secrets.ts'
import { offerHandlers } from './accounts/offer-handlers.ts'
import { ownOrganizationHandlers } from './accounts/own-organization-handlers.ts'
import { profileHandlers } from './accounts/profile-handlers.ts'
import { Quota } from './accounts/quota.ts'
import { removeUser } from './accounts/remove-user.ts'
import { scriptConsentHandlers } from './accounts/script-consent-handlers.ts'
import { secretHandlers } from './accounts/secret-handlers.ts'
import { settingsHandlers } from './accounts/settings-handlers.ts'
import { StorageQuota } from './accounts/storage-quota.ts'
import { keyHandlers, userKeyHandlers } from './admin/key-handlers.ts'
import { organizationHandlers } from './admin/organization-handlers.ts'
import { overviewHandlers } from './admin/overview-handlers.ts'
import { quotaHandlers } from './admin/quota-handlers.ts'
import { usageHandlers } from './admin/usage-handlers.ts'
import { userHandlers } from './admin/user-handlers.ts'
import { auditHandlers } from './audit/audit-handlers.ts'
import { AuditLog } from './audit/audit-log.ts'
import type { Backend } from './backends/backend.ts'
import { findOtherDisks } from './backends/other-disks.ts'
import { budgetHandlers } from './budgets/budget-handlers.ts'
import { Budgets } from './budgets/budgets.ts'
import { ownBudgetHandlers } from './budgets/own-budget-handlers.ts'
import { reservationHandlers } from './budgets/reservation-handlers.ts'
import type { Config } from './config/config.ts'
import { AgentCalls } from './conversations/agent-calls.ts'
import { Conversations } from './conversations/conversations.ts'
import { ConversationDownloads } from './conversations/download.ts'
import { eventHandlers } from './conversations/event-handlers.ts'
import { appConversationHandlers } from './conversations/handlers.ts'
import { PendingMessages } from './conversations/pending-messages.ts'
import { RemovedConversations } from './conversations/records/removed-conversations.ts'
import { timelineHandlers } from './conversations/timeline-handlers.ts'
import { workspaceHandlers } from './conversations/workspace-handlers.ts'
import { gitHandlers } from './git/handlers.ts'
import { EventIngest } from './ingest/event-ingest.ts'
import { EventPull } from './ingest/event-pull.ts'
import { webhookHandlers } from './ingest/handlers.ts'
import { Organizations } from './organizations/organizations.ts'
import { sharingHandlers } from './organizations/sharing-handlers.ts'
import { sandboxHandlers } from './sandboxes/handlers.ts'
import { operateHandlers } from './sandboxes/operate-handlers.ts'
import { Sandboxes } from './sandboxes/sandboxes.ts'
import type { SandboxesOptions } from './sandboxes/state/context.ts'
import { SandboxSpecs } from './sandboxes/state/specs.ts'
import { ConversationStarter } from './start/conversation-starter.ts'
import { startTaskHandlers } from './start/handlers.ts'
import { createModelAddressCheck } from './start/model-address.ts'
import { defaultPrepareTimeouts } from './start/prepare-workspace.ts'
import { renewSandbox } from './start/renew-sandbox.ts'

export interface ServicesOptions {
  readonly config: Config
  readonly opened: Pick<Awaited<ReturnType<typeof openControlPlane>>, 'storage' | 'controlPlane'>
  /** The data directory. */
  readonly directory: string
  readonly cipher: Cipher
  readonly backends: ReadonlyMap<string, Backend>
  /** The address of this server for agent servers, set when it listens, before the first use. */
  readonly listenAddress: { readonly url: string; readonly port: number }
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: LogFunction
  readonly onStep?: ((name: string) => void) | undefined
  /** See `SandboxesOptions`. */
  readonly openPort?: SandboxesOptions['openPort']
}

export type Services = Awaited<ReturnType<typeof openServices>>

/**
 * Sandboxes, accounts and conversations of a control plane. Nothing runs before `recover` and
 * `startReconciling`.
 */
export async function openServices(options: ServicesOptions) {
  const { config, opened, directory, cipher, backends, listenAddress, fetch, clock, log, onStep, openPort } =
    options
  await using resources = new AsyncDisposableStack()
  const { storage, controlPlane } = opened
  const { leases, users, documents } = controlPlane
  const now = () => clock.now() * 1000
  const auditLog = resources.use(new AuditLog({ rows: controlPlane.audit, clock, log }))
  const specs = new SandboxSpecs(config.specs, now())
  const otherDisks = await findOtherDisks(directory, backends.values())
  const sandboxes = resources.use(
    new Sandboxes({
      ...{ ...config, clock, controlPlane, cipher, backends: [...backends.values()], specs, log, onStep },
      openPort,
      publicUrl: () => config.publicUrl ?? listenAddress.url,
      hostPort: () => listenAddress.port,
      allowedOrigins: pageOrigins(config),
      trustsRepositories: config.repositoryScripts === 'always',
      diskReserve: { directory, bytes: config.diskReserveBytes, otherDisks },
      maxDiskBytes: config.maxDiskBytes,
      maxForkBytes: config.maxForkBytes,
      chooseSpec: async (org, spec) => (await organizations.limitsOf(org)).chooseSpec(spec),
      findSecrets: (owner) => lookupSecrets.listTexts(owner),
      hasAllEvents: (sandbox, log) => ingest.hasAll(sandbox, log),
      onReady: (row, target, signal) =>
        renewSandbox({ controlPlane, storage, accounts, clock, log }, row, target, signal),
      onRunning: (id) => pendingMessages.deliverToSandbox(id),
    }),
  )
  const accounts = new Accounts({ ...config, documents, cipher })
  const organizations = new Organizations({ ...accounts, users, documents, cipher, specs })
  const lookupSecrets = new LookupSecrets(accounts, controlPlane.sandboxes)
  const { dailyLimit: limit, exemptOrgs } = config
  const quota = new Quota({ users, rows: controlPlane.quota, limit, exemptOrgs, now })
  const storageQuota = new StorageQuota({
    ...{ ...config, users, conversations: controlPlane.conversations, isShared: leases.isShared },
    records: storage.conversations,
  })
  const removedConversations = new RemovedConversations(documents, leases)
  const common = {
    ...{ controlPlane, storage, sandboxes, accounts, organizations, storageQuota, removedConversations },
    ...{ fetch, log, clock },
    conversationMutex: {
      runExclusive: <T>(key: string, work: () => Promise<T>) =>
        leases.runExclusive(`conversation ${key}`, work),
    },
  }
  const pendingMessages = resources.use(new PendingMessages(common))
  const starter = resources.use(
    new ConversationStarter({
      ...{ ...common, quota, waitMs: config.startWaitMs, limits: defaultPrepareTimeouts },
      scriptTrust: config.repositoryScripts,
      scriptConsents: accounts.scriptConsents,
      deliver: (conversation) => pendingMessages.deliver(conversation),
      checkModelAddress: createModelAddressCheck(specs, backends),
    }),
  )
  const conversations = new Conversations({ ...common, starter, pendingMessages })
  const ingest = new EventIngest({
    ...common,
    onRemoved: (conversation, sandbox) => void conversations.removeFromSandbox(conversation, sandbox),
  })
  const eventPull = resources.use(new EventPull({ ...common, ingest, leases }))
  const disposables = resources.move()
  return {
    ...{ config, common, auditLog, cipher, specs, quota, pendingMessages, starter, conversations },
    ...{ ingest, eventPull, lookupSecrets, now },
    budgets: new Budgets({ controlPlane, defaultPrice: config.defaultPrice, now }),
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  }
}

/** What agent servers in sandboxes call. */
export function sandboxFacingHandlers(services: Services) {
  const { common, ingest, pendingMessages, eventPull, lookupSecrets, budgets, config, now } = services
  const { controlPlane } = common
  return {
    ...webhookHandlers({ ingest, pendingMessages, eventPull }),
    ...secretHandlers({ accounts: common.accounts, lookupSecrets }),
    ...reservationHandlers({ controlPlane, budgets, defaultPrice: config.defaultPrice, now }),
  }
}

/** What callers with an API key call. */
export function callerHandlers(services: Services) {
  const { common, auditLog, specs, quota, pendingMessages, starter, conversations } = services
  const { lookupSecrets, budgets, config, now } = services
  const { controlPlane, storage, sandboxes, accounts, organizations, storageQuota } = common
  const { users } = controlPlane
  const calls = new AgentCalls(common)
  const erasing = {
    ...{ controlPlane, storage, conversations, sandboxes, starter, accounts, cipher: services.cipher, now },
  }
  return {
    ...sandboxHandlers({ sandboxes, specs, lookupSecrets }),
    ...operateHandlers({ sandboxes, controlPlane, lookupSecrets, clock: common.clock }),
    ...startTaskHandlers({ starter, conversations, startTasks: controlPlane.startTasks }),
    ...appConversationHandlers({
      ...{ conversations, calls, pendingMessages, accounts, organizations },
      downloads: new ConversationDownloads(storage),
    }),
    ...workspaceHandlers({ conversations, calls }),
    ...eventHandlers({ conversations, storage }),
    ...timelineHandlers({ conversations, storage }),
    ...keyHandlers({ users, now }),
    ...userKeyHandlers({ users, now }),
    ...userHandlers({
      users,
      removeUser: (id, how) => removeUser({ controlPlane, conversations, sandboxes, starter }, id, how),
      eraseUser: (id, signal) => eraseUser(erasing, id, signal),
      repeatErasure: (id, signal) => repeatErasure(erasing, id, signal),
      now,
    }),
    ...organizationHandlers({ users, specs, exemptOrgs: config.exemptOrgs, now }),
    ...sharingHandlers({ users, accounts, organizations }),
    ...quotaHandlers({
      ...{ users, quota, storageQuota, maxSandboxes: config.maxSandboxes },
      sandboxes: controlPlane.sandboxes,
    }),
    ...overviewHandlers({ controlPlane, sandboxes, specs, log: common.log }),
    ...usageHandlers({ controlPlane, now }),
    ...budgetHandlers({ controlPlane, budgets, now }),
    ...ownBudgetHandlers({ controlPlane, budgets, now }),
    ...auditHandlers({ auditLog }),
    ...settingsHandlers({ accounts, users, sandboxes }),
    ...profileHandlers({ accounts }),
    ...ownOrganizationHandlers({ accounts, users }),
    ...offerHandlers(),
    ...gitHandlers({ gitProviders: accounts.gitProviders, clock: common.clock }),
    ...scriptConsentHandlers({ consents: accounts.scriptConsents, trust: config.repositoryScripts }),
  }
}

/**
 * Origins whose pages may call this server and agent servers: configured ones, and that of its public
 * address.
 */
export function pageOrigins({ allowedOrigins, publicUrl }: Config): string[] {
  return [...allowedOrigins, ...(publicUrl === undefined ? [] : [new URL(publicUrl).origin])]
}
