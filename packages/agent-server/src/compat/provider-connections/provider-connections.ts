import { randomUUID } from 'node:crypto'
import {
  invalidInput,
  must,
  type NewProviderConnection,
  Problem,
  type ProviderConnection,
  type ProviderConnectionChange,
  providerConnection,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { redact } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import type { Cipher, DocumentStore, JsonDocument } from '@slipway/storage'
import { openDocument } from '../../core/documents/document.ts'
import { openSealedTexts } from '../../core/secrets/sealed-text.ts'
import type { ConnectionCredentials, LlmProfiles } from '../../modules/llm-profiles/module.ts'
import type { ServerSettings } from '../../modules/settings/module.ts'

type StoredConnection = Omit<ProviderConnection, 'api_key_set'> & { readonly api_key: string }

interface ProviderConnectionsOptions {
  readonly documents: DocumentStore
  readonly cipher: Cipher
  /** What names this connection, in words; empty when nothing does. */
  readonly findUsers: (id: string) => Promise<readonly string[]>
  readonly max?: number
  /** Milliseconds. */
  readonly now?: () => number
}

/**
 * Shared keys and base URLs of profiles: one sealed document. Only `resolve` returns a key. An unreadable
 * one is a Problem `bad_request`.
 */
export class ProviderConnections {
  readonly #options: ProviderConnectionsOptions
  readonly #document: JsonDocument<readonly StoredConnection[]>

  constructor(options: ProviderConnectionsOptions) {
    this.#options = options
    this.#document = openDocument(options.documents, 'provider-connections.sealed', {
      empty: [],
      parse: parseConnections,
      cipher: options.cipher,
      code: 'bad_request',
      headline: 'Provider connections file is unreadable',
    })
  }

  /** The oldest first. */
  async list(): Promise<ProviderConnection[]> {
    return (await this.#document.read()).map(toPublicConnection)
  }

  /** The key and base URL of a connection; undefined when there is none of this id. */
  async resolve(id: string): Promise<ConnectionCredentials | undefined> {
    const found = (await this.#document.read()).find((one) => one.id === id)
    return found === undefined ? undefined : { api_key: found.api_key, base_url: found.base_url ?? undefined }
  }

  /** Problems: `conflict` above the limit, `invalid` for an empty key or a placeholder. */
  async add(connection: NewProviderConnection): Promise<ProviderConnection> {
    const api_key = this.#parseKey(connection.api_key)
    const now = this.#nowSeconds()
    const id = randomUUID().replaceAll('-', '')
    const connectionRow = { ...connection, api_key, id, created_at: now, updated_at: now }
    const { max = 64 } = this.#options
    await this.#document.update((all) => {
      if (all.length >= max)
        throw new Problem(
          'conflict',
          `Provider connection limit reached (${max}). Delete one before adding another.`,
        )
      return [...all, connectionRow]
    })
    return toPublicConnection(connectionRow)
  }

  /** Undefined members do not change. Problems: `not_found`, `invalid` for an empty key or a placeholder. */
  async update(id: string, change: ProviderConnectionChange): Promise<ProviderConnection> {
    const { api_key } = change
    const resolved = api_key === undefined ? change : { ...change, api_key: this.#parseKey(api_key) }
    const members = definedMembers(resolved)
    const all = await this.#document.update((all) => {
      if (!all.some((one) => one.id === id)) throw connectionNotFound(id)
      return all.map((one) => (one.id === id ? { ...one, ...members, updated_at: this.#nowSeconds() } : one))
    })
    const updated = all.find((one) => one.id === id)
    return toPublicConnection(must(updated, 'the updated connection'))
  }

  /**
   * Returns the removed connection, without its key. Problems: `not_found`, and `conflict` while something
   * names it.
   */
  async remove(id: string): Promise<ProviderConnection> {
    let removed: StoredConnection | undefined
    await this.#document.update(async (all) => {
      removed = all.find((one) => one.id === id)
      if (removed === undefined) throw connectionNotFound(id)
      const users = await this.#options.findUsers(id)
      if (users.length > 0)
        throw new Problem('conflict', `Provider connection is referenced by ${users.join(' and by ')}`)
      return all.filter((one) => one !== removed)
    })
    return { ...toPublicConnection(must(removed, 'the removed connection')), api_key_set: false }
  }

  /** The key of a request, which may be sealed, in clear. */
  #parseKey(input: string): string {
    const loc = ['body', 'api_key']
    const key = String(openSealedTexts(this.#options.cipher, input, loc)).trim()
    if (key !== '' && !/^\*+$/.test(key) && key !== '<redacted>') return key
    throw invalidInput(loc, 'A connection has a key: this is none')
  }

  #nowSeconds(): number {
    return Math.floor((this.#options.now?.() ?? Date.now()) / 1000)
  }
}

/** The readable LLM profiles and the settings that name a connection. */
export async function findConnectionUsers(
  id: string,
  by: {
    readonly profiles: Pick<LlmProfiles, 'list'>
    readonly settings: Pick<ServerSettings, 'getAgentSettings'>
  },
): Promise<string[]> {
  const profiles = (await by.profiles.list()).filter((profile) => profile.provider_connection_id === id)
  const isInSettings = (await by.settings.getAgentSettings()).llm.provider_connection_id === id
  return [
    ...(profiles.length === 0 ? [] : [`LLM profile(s): ${profiles.map(({ name }) => name).join(', ')}`]),
    ...(isInSettings ? ['the active agent settings'] : []),
  ]
}

function parseConnections(value: unknown): readonly StoredConnection[] {
  if (!Array.isArray(value)) throw new Error('a list of connections is expected')
  return value.map((item: unknown) => {
    const api_key: unknown = Object(item).api_key
    if (typeof api_key !== 'string') throw new Error('a connection has no key')
    const { api_key_set: _, ...connection } = providerConnection.parse({ ...Object(item), api_key_set: true })
    return { ...connection, api_key }
  })
}

function toPublicConnection({ api_key: _, ...connection }: StoredConnection): ProviderConnection {
  // A URL may have a key among its parameters.
  const base_url = connection.base_url === null ? null : String(redact(connection.base_url))
  return { ...connection, base_url, api_key_set: true }
}

function connectionNotFound(id: string): Problem {
  return new Problem('not_found', `Provider connection '${firstChars(id, 100)}' not found`)
}
