import { findProviderOf } from '@slipway/agent'
import type { Handlers, Socket, SocketRequest, SocketRoute } from '@slipway/http'
import { type Agent, type agentServerRoutes, conversationId, isAcpAgent, Problem } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { DocumentStore, JsonDocument } from '@slipway/storage'
import type { BoundCredentials } from '../../core/conversations/parts.ts'
import { openDocument } from '../../core/documents/document.ts'
import { type CredentialSource, rejectedBinding } from './credential-source.ts'

/** The only credential that is bound. */
export const boundSecret = 'CODEX_AUTH_JSON'
/** Bindings for conversations that do not exist yet; the oldest is dropped above it. */
const maxPending = 1_000
const requiredReason = 'credential_binding_activation_required'
const tryLaterCode = 1013

/** The conversations that need their credential. */
type Required = { readonly conversations: readonly string[] }

/** Need the conversation itself, and so its credential. */
const guardedRoutes: ReadonlySet<string> = new Set<keyof typeof agentServerRoutes>([
  'searchEvents',
  'countEvents',
  'getEvent',
  'getEvents',
  'streamEvents',
  'sendMessage',
  'respondToConfirmation',
  'runConversation',
  'askAgent',
  'condenseConversation',
  'generateTitle',
  'navigateConversation',
  'switchAcpModel',
  'finalResponse',
])

/** The conversation that a source is bound to. */
export interface BindingTarget {
  readonly agent: Agent | undefined
  /** The secrets that its profile allows; undefined when it allows all. */
  readonly secretNames: readonly string[] | undefined
  /** Whether its external agent has begun without a binding. */
  hasBegun(): Promise<boolean>
  /** Removes a stored secret. */
  removeSecret(name: string): Promise<void>
}

/**
 * Sources of the credential `CODEX_AUTH_JSON` of conversations. Sources are in memory alone; that a conversation
 * needs one is stored, so that after a pause or a restart nothing of it runs until its source is bound again.
 */
export class CredentialBindings implements BoundCredentials {
  readonly #required: JsonDocument<Required>
  readonly #sources = new Map<string, CredentialSource>()
  readonly #pending = new Map<string, CredentialSource>()

  constructor(documents: DocumentStore) {
    this.#required = openDocument(documents, 'credential-bindings.json', {
      empty: { conversations: [] },
      parse: parseRequired,
    })
  }

  /** The source of a conversation's credential. */
  find(id: string, name: string): CredentialSource | undefined {
    return name === boundSecret ? this.#sources.get(id) : undefined
  }

  /** Whether nothing of the conversation runs until its source is bound again. */
  async isMissing(id: string): Promise<boolean> {
    return !this.#sources.has(id) && (await this.#isRequired(id))
  }

  /**
   * Binds a source that has been asked; without a target it waits for a new conversation. Problems:
   * `conflict` for a conversation that uses no such credential, has begun without it or has another source,
   * `forbidden` where the profile of its agent leaves the credential out.
   */
  async activate(id: string, source: CredentialSource, target: BindingTarget | undefined): Promise<void> {
    if (target === undefined) return this.#keep(id, source)
    const { agent, secretNames } = target
    if (agent === undefined || !usesBoundSecret(agent)) throw tooLate()
    if (secretNames?.includes(boundSecret) === false) throw rejectedBinding()
    const existing = this.#sources.get(id)
    if (existing !== undefined) {
      if (!existing.reauthorize(source)) throw tooLate()
      return
    }
    if (!(await this.#isRequired(id)) && (await target.hasBegun())) throw tooLate()
    await this.#require(id)
    await target.removeSecret(boundSecret)
    this.#sources.set(id, source)
  }

  async takePending(
    id: string,
    agent: Agent,
    secretNames: readonly string[] | undefined,
  ): Promise<string | undefined> {
    const source = this.#pending.get(id)
    this.#pending.delete(id)
    if (source === undefined || !usesBoundSecret(agent) || secretNames?.includes(boundSecret) === false)
      return undefined
    await this.#require(id)
    this.#sources.set(id, source)
    return boundSecret
  }

  /** The sandbox may wake up where they are not valid. */
  async release(close: (id: string) => Promise<void>): Promise<void> {
    const ids = [...this.#sources.keys()]
    this.#sources.clear()
    this.#pending.clear()
    await Promise.all(ids.map(close))
  }

  /** Of a conversation that is gone. */
  async remove(id: string): Promise<void> {
    this.#sources.delete(id)
    this.#pending.delete(id)
    await this.#required.update((all) =>
      all.conversations.includes(id) ? { conversations: all.conversations.filter((one) => one !== id) } : all,
    )
  }

  wrap<H extends Partial<Handlers<typeof agentServerRoutes>>>(handlers: H): H {
    const guarded = Object.entries(handlers).map(([name, handle]) => {
      if (!guardedRoutes.has(name)) return [name, handle]
      const handleRequest = handle as (request: { readonly params: unknown }) => unknown
      return [
        name,
        async (request: { readonly params: unknown }) => {
          const { params } = request
          const isMissing = isRecord(params) && (await this.isMissing(String(params.conversation_id)))
          return isMissing ? requiredReply : await handleRequest(request)
        },
      ]
    })
    return Object.fromEntries(guarded) // all names of the table
  }

  /** The same socket, which is closed for a conversation whose credential is missing. */
  wrapSocket(route: SocketRoute): SocketRoute {
    return {
      ...route,
      serve: async (socket: Socket, request: SocketRequest) => {
        const id = conversationId.safeParse(request.params.conversation_id).data
        if (id !== undefined && (await this.isMissing(id))) return socket.close(tryLaterCode, requiredReason)
        await route.serve(socket, request)
      },
    }
  }

  #keep(id: string, source: CredentialSource): void {
    this.#pending.delete(id)
    this.#pending.set(id, source)
    const [oldest] = this.#pending.keys()
    if (this.#pending.size > maxPending && oldest !== undefined) this.#pending.delete(oldest)
  }

  async #require(id: string): Promise<void> {
    await this.#required.update((all) =>
      all.conversations.includes(id) ? all : { conversations: [...all.conversations, id] },
    )
  }

  async #isRequired(id: string): Promise<boolean> {
    return (await this.#required.read()).conversations.includes(id)
  }
}

function parseRequired(value: unknown): Required {
  const { conversations }: { conversations?: unknown } = Object(value)
  if (!Array.isArray(conversations) || !conversations.every((id) => typeof id === 'string'))
    throw new Error('It is no list of conversations')
  return { conversations }
}

const requiredReply = { status: 409, json: { detail: requiredReason, retryable: true } }

function usesBoundSecret(agent: Agent): boolean {
  if (!isAcpAgent(agent)) return false
  const { acp_file_secrets, acp_command } = agent
  const provider = findProviderOf(agent, acp_command)
  const files = acp_file_secrets ?? provider?.fileSecrets ?? []
  return files.some(({ secret_name }) => secret_name === boundSecret)
}

function tooLate(): Problem {
  return new Problem('conflict', 'Credential binding activation arrived after ACP initialization')
}
