import type { ConversationDeps, OpenModel, RepositoryCode } from '@slipway/agent'
import type { Handlers, SocketRoute } from '@slipway/http'
import {
  type Agent,
  type agentServerRoutes,
  type LaunchedProfile,
  type Llm,
  type MetaProfile,
  type NamedMetaProfile,
  Problem,
  type ProfileSummary,
  type RepositoryConsent,
  type RepositoryDecision,
  type StoredAgentProfile,
} from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'

/** Saved models by name. */
export interface ModelSource {
  list(): Promise<readonly ProfileSummary[]>
  /** Undefined when there is none. */
  get(name: string): Promise<Llm | undefined>
  /** The same with the key and base URL of its connection. */
  resolve(name: string): Promise<Llm | undefined>
  getActiveName(): Promise<string | undefined>
  hasKey(model: Llm): Promise<boolean>
  /** A model with the key and base URL of its connection; undefined when there is no such connection. */
  applyConnection(model: Llm): Promise<Llm | undefined>
}

/** Saved agents by id. */
export interface AgentProfileSource {
  has(id: string): Promise<boolean>
  getById(id: string): Promise<StoredAgentProfile | undefined>
  /** The settings of a new conversation. Problems: `not_found` for the id, `invalid` for what it names. */
  resolve(id: string): Promise<{
    readonly agentSettings: Readonly<Record<string, unknown>>
    readonly profileReference: LaunchedProfile
  }>
}

/** Saved rules that choose a model. */
export interface MetaProfileSource {
  get(name: string): Promise<MetaProfile | undefined>
  /** A Problem `not_found` for an unknown name. */
  getOrThrow(name: string): Promise<NamedMetaProfile>
}

/** Credentials that live outside of the server, to which a conversation is bound. */
export interface BoundCredentials {
  find: NonNullable<ConversationDeps['findCredential']>
  /** Binds what waits for a new conversation: returns the name of the secret that it replaces, if any. */
  takePending(
    conversation: string,
    agent: Agent,
    secretNames: readonly string[] | undefined,
  ): Promise<string | undefined>
  /** Forgets all sources and closes their conversations. */
  release(close: (conversation: string) => Promise<void>): Promise<void>
  /** The same handlers; those that need a missing credential answer 409. */
  wrap<H extends Partial<Handlers<typeof agentServerRoutes>>>(handlers: H): H
  wrapSocket(route: SocketRoute): SocketRoute
}

/** The user's decisions about what repositories bring. */
export interface RepositoryDecisions {
  register(code: RepositoryCode): Promise<RepositoryConsent>
  decide(id: string, decision: RepositoryDecision): Promise<RepositoryConsent>
}

/** What a module adds to every conversation; a source has one module at most. */
export interface ConversationPart {
  readonly models?: ModelSource
  readonly agentProfiles?: AgentProfileSource
  readonly metaProfiles?: MetaProfileSource
  readonly credentials?: BoundCredentials
  readonly extensions?: ConversationDeps['extensions']
  readonly repositoryConsents?: ConversationDeps['repositoryConsents']
  readonly repositoryDecisions?: RepositoryDecisions
  readonly mcpOAuth?: ConversationDeps['mcpOAuth']
  /** The profile of conversations that name none. */
  readonly launchedProfile?: LaunchedProfile | undefined
  readonly wrapModel?: (open: OpenModel) => OpenModel
  /** Work of the conversation is in progress that its log does not show. */
  readonly isInUse?: (conversation: string) => boolean
  /** Removes what the module keeps of a conversation that is gone. */
  readonly onRemove?: (conversation: string) => Promise<void>
}

const noModels: ModelSource = {
  list: async () => [],
  get: async () => undefined,
  resolve: async () => undefined,
  getActiveName: async () => undefined,
  hasKey: async ({ api_key }) => api_key !== undefined,
  applyConnection: async (model) => (typeof model.provider_connection_id === 'string' ? undefined : model),
}

const noAgentProfiles: AgentProfileSource = {
  has: async () => false,
  getById: async () => undefined,
  async resolve(id) {
    throw new Problem('not_found', `Agent profile with id '${firstChars(id, 128)}' not found`)
  },
}

const noMetaProfiles: MetaProfileSource = {
  get: async () => undefined,
  async getOrThrow(name) {
    throw new Problem('not_found', `Meta-profile '${name}' not found`)
  },
}

/**
 * What all modules add to conversations. The core asks it when a conversation is made or opened, so modules
 * may be opened after the core; without a module its source is empty.
 */
export class ConversationParts {
  readonly #parts: ConversationPart[] = []

  add(part: ConversationPart): void {
    this.#parts.push(part)
  }

  get models(): ModelSource {
    return this.#find('models') ?? noModels
  }

  get agentProfiles(): AgentProfileSource {
    return this.#find('agentProfiles') ?? noAgentProfiles
  }

  get metaProfiles(): MetaProfileSource {
    return this.#find('metaProfiles') ?? noMetaProfiles
  }

  get credentials(): ConversationPart['credentials'] | undefined {
    return this.#find('credentials')
  }

  get extensions(): ConversationPart['extensions'] | undefined {
    return this.#find('extensions')
  }

  get repositoryConsents(): ConversationPart['repositoryConsents'] | undefined {
    return this.#find('repositoryConsents')
  }

  get repositoryDecisions(): ConversationPart['repositoryDecisions'] | undefined {
    return this.#find('repositoryDecisions')
  }

  get mcpOAuth(): ConversationPart['mcpOAuth'] | undefined {
    return this.#find('mcpOAuth')
  }

  get launchedProfile(): ConversationPart['launchedProfile'] | undefined {
    return this.#find('launchedProfile')
  }

  wrapModel(open: OpenModel): OpenModel {
    return this.#parts.reduce((wrapped, part) => part.wrapModel?.(wrapped) ?? wrapped, open)
  }

  isInUse(conversation: string): boolean {
    return this.#parts.some((part) => part.isInUse?.(conversation) === true)
  }

  async onRemove(conversation: string): Promise<void> {
    for (const part of this.#parts) await part.onRemove?.(conversation)
  }

  #find<K extends keyof ConversationPart>(name: K): ConversationPart[K] | undefined {
    return this.#parts.find((part) => part[name] !== undefined)?.[name]
  }
}
