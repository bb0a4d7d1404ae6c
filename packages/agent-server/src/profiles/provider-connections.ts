import { randomUUID } from 'node:crypto'
import {
  invalid,
  must,
  type NewProviderConnection,
  Problem,
  type ProviderConnection,
  type ProviderConnectionChange,
  providerConnection,
  redact,
} from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { KeptFile } from '../documents/json-file.ts'
import { openTexts } from '../secrets/sealed-text.ts'
import type { ServerSettings } from '../settings/server-settings.ts'
import type { Connection, Profiles } from './llm-profiles.ts'

type Kept = Omit<ProviderConnection, 'api_key_set'> & { readonly api_key: string }

interface Options {
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
  readonly #options: Options
  readonly #max: number
  readonly #file: KeptFile<readonly Kept[]>

  /** The file is made with the first connection. */
  constructor(options: Options) {
    this.#options = options
    this.#max = options.max ?? 64
    this.#file = new KeptFile({ path: options.path, empty: [], parse: parsed, cipher: options.cipher })
  }

  /** The oldest first. */
  async list(): Promise<ProviderConnection[]> {
    return (await this.#file.read()).map(shown)
  }

  /** What a model that names this connection is reached with; undefined when there is none of this id. */
  async resolve(id: string): Promise<Connection | undefined> {
    const found = (await this.#file.read()).find((one) => one.id === id)
    return found === undefined ? undefined : { api_key: found.api_key, base_url: found.base_url ?? undefined }
  }

  /** Problems: `conflict` when it is one too many, `invalid` for a key that is none. */
  async add(connection: NewProviderConnection): Promise<ProviderConnection> {
    const api_key = this.#key(connection.api_key)
    const at = this.#seconds()
    const added = { ...connection, api_key, id: randomUUID(), created_at: at, updated_at: at }
    await this.#file.change((all) => {
      if (all.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${all.length} connections, and no more than ${this.#max} may be`,
        )
      return [...all, added]
    })
    return shown(added)
  }

  /** Members that are not given stay. Problems: `not_found`, `invalid` for a key that is none. */
  async change(id: string, change: ProviderConnectionChange): Promise<ProviderConnection> {
    const given = change.api_key === undefined ? change : { ...change, api_key: this.#key(change.api_key) }
    const all = await this.#file.change((all) => {
      if (!all.some((one) => one.id === id)) throw unknown(id)
      return all.map((one) =>
        one.id === id ? { ...one, ...withoutUndefined(given), updated_at: this.#seconds() } : one,
      )
    })
    return shown(
      must(
        all.find((one) => one.id === id),
        'the changed connection',
      ),
    )
  }

  /** Answers what it was. Problems: `not_found`, and `conflict` while something names it. */
  async remove(id: string): Promise<ProviderConnection> {
    let removed: Kept | undefined
    await this.#file.change(async (all) => {
      removed = all.find((one) => one.id === id)
      if (removed === undefined) throw unknown(id)
      if (await this.#options.isUsed(id))
        throw new Problem('conflict', 'An LLM profile or the settings use this connection')
      return all.filter((one) => one !== removed)
    })
    return shown(must(removed, 'the removed connection'))
  }

  /** A key in clear, of one that was given in clear or sealed. A mask and a blank are none. */
  #key(given: string): string {
    const place = ['body', 'api_key']
    const key = String(openTexts(this.#options.cipher, given, place)).trim()
    if (key !== '' && !/^\*+$/.test(key) && key !== '<redacted>') return key
    throw invalid(place, 'A connection has a key: this is none')
  }

  #seconds(): number {
    return Math.floor((this.#options.now?.() ?? Date.now()) / 1000)
  }
}

/** Whether an LLM profile that can be read, or the model of the settings, names a connection. */
export async function isConnectionUsed(
  id: string,
  by: { readonly profiles: Pick<Profiles, 'list'>; readonly settings: Pick<ServerSettings, 'agent'> },
): Promise<boolean> {
  if ((await by.profiles.list()).some((profile) => profile.provider_connection_id === id)) return true
  return (await by.settings.agent()).llm.provider_connection_id === id
}

function parsed(value: unknown): readonly Kept[] {
  if (!Array.isArray(value)) throw new Error('a list of connections is expected')
  return value.map((item: unknown) => {
    const api_key: unknown = Object(item).api_key
    if (typeof api_key !== 'string') throw new Error('a connection has no key')
    const { api_key_set: _, ...kept } = providerConnection.parse({ ...Object(item), api_key_set: true })
    return { ...kept, api_key }
  })
}

function shown({ api_key: _, ...connection }: Kept): ProviderConnection {
  // An address may carry a key among its parameters.
  const base_url = connection.base_url === null ? null : String(redact(connection.base_url))
  return { ...connection, base_url, api_key_set: true }
}

function withoutUndefined(change: ProviderConnectionChange) {
  const { display_name, provider, api_key, base_url } = change
  return {
    ...(display_name === undefined ? {} : { display_name }),
    ...(provider === undefined ? {} : { provider }),
    ...(api_key === undefined ? {} : { api_key }),
    ...(base_url === undefined ? {} : { base_url }),
  }
}

function unknown(id: string): Problem {
  return new Problem('not_found', `Provider connection not found: ${id.slice(0, 100)}`)
}
