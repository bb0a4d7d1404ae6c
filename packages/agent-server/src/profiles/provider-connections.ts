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
import { redact } from '@slipway/shared/redaction'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'
import { openSealedTexts } from '../secrets/sealed-text.ts'
import type { ServerSettings } from '../settings/server-settings.ts'
import type { ConnectionCredentials, LlmProfiles } from './llm-profiles.ts'

type StoredConnection = Omit<ProviderConnection, 'api_key_set'> & { readonly api_key: string }

interface ProviderConnectionsOptions {
  readonly path: string
  readonly cipher: Cipher
  /** Whether an LLM profile or the settings name this connection. */
  readonly isUsed: (id: string) => Promise<boolean>
  readonly max?: number
  /** Milliseconds. */
  readonly now?: () => number
}

/**
 * Keys and addresses that several profiles share: one sealed file. A key leaves by `resolve` and no other way. Changes are on the
 * disk when their promise resolves. A file that cannot be read is a Problem `conflict` of every method.
 */
export class ProviderConnections {
  readonly #options: ProviderConnectionsOptions
  readonly #max: number
  readonly #file: JsonDocument<readonly StoredConnection[]>

  /** The file is made with the first connection. */
  constructor(options: ProviderConnectionsOptions) {
    this.#options = options
    this.#max = options.max ?? 64
    this.#file = openJsonFile({
      path: options.path,
      empty: [],
      parse: parseConnections,
      cipher: options.cipher,
    })
  }

  /** The oldest first. */
  async list(): Promise<ProviderConnection[]> {
    return (await this.#file.read()).map(toPublicConnection)
  }

  /** What a model that names this connection is reached with; undefined when there is none of this id. */
  async resolve(id: string): Promise<ConnectionCredentials | undefined> {
    const found = (await this.#file.read()).find((one) => one.id === id)
    return found === undefined ? undefined : { api_key: found.api_key, base_url: found.base_url ?? undefined }
  }

  /** Problems: `conflict` when it is one too many, `invalid` for a key that is none. */
  async add(connection: NewProviderConnection): Promise<ProviderConnection> {
    const api_key = this.#parseKey(connection.api_key)
    const now = this.#nowSeconds()
    const connectionRow = { ...connection, api_key, id: randomUUID(), created_at: now, updated_at: now }
    await this.#file.update((all) => {
      if (all.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${all.length} connections, and no more than ${this.#max} may be`,
        )
      return [...all, connectionRow]
    })
    return toPublicConnection(connectionRow)
  }

  /** Members that are not given stay. Problems: `not_found`, `invalid` for a key that is none. */
  async update(id: string, change: ProviderConnectionChange): Promise<ProviderConnection> {
    const resolvedChange =
      change.api_key === undefined ? change : { ...change, api_key: this.#parseKey(change.api_key) }
    const all = await this.#file.update((all) => {
      if (!all.some((one) => one.id === id)) throw connectionNotFound(id)
      return all.map((one) =>
        one.id === id ? { ...one, ...definedMembers(resolvedChange), updated_at: this.#nowSeconds() } : one,
      )
    })
    return toPublicConnection(
      must(
        all.find((one) => one.id === id),
        'the changed connection',
      ),
    )
  }

  /** Answers what it was. Problems: `not_found`, and `conflict` while something names it. */
  async remove(id: string): Promise<ProviderConnection> {
    let removed: StoredConnection | undefined
    await this.#file.update(async (all) => {
      removed = all.find((one) => one.id === id)
      if (removed === undefined) throw connectionNotFound(id)
      if (await this.#options.isUsed(id))
        throw new Problem('conflict', 'An LLM profile or the settings use this connection')
      return all.filter((one) => one !== removed)
    })
    return toPublicConnection(must(removed, 'the removed connection'))
  }

  /** A key in clear, of one that was given in clear or sealed. A mask and a blank are none. */
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

/** Whether an LLM profile that can be read, or the model of the settings, names a connection. */
export async function isConnectionUsed(
  id: string,
  by: {
    readonly profiles: Pick<LlmProfiles, 'list'>
    readonly settings: Pick<ServerSettings, 'getAgentSettings'>
  },
): Promise<boolean> {
  if ((await by.profiles.list()).some((profile) => profile.provider_connection_id === id)) return true
  return (await by.settings.getAgentSettings()).llm.provider_connection_id === id
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
  // An address may carry a key among its parameters.
  const base_url = connection.base_url === null ? null : String(redact(connection.base_url))
  return { ...connection, base_url, api_key_set: true }
}

function definedMembers(change: ProviderConnectionChange) {
  const { display_name, provider, api_key, base_url } = change
  return {
    ...(display_name === undefined ? {} : { display_name }),
    ...(provider === undefined ? {} : { provider }),
    ...(api_key === undefined ? {} : { api_key }),
    ...(base_url === undefined ? {} : { base_url }),
  }
}

function connectionNotFound(id: string): Problem {
  return new Problem('not_found', `Provider connection not found: ${id.slice(0, 100)}`)
}
