import { Problem } from '@slipway/protocol'
import { definedMembers, isRecord, ownMember, withoutMember } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import type { JsonDocument } from './json-document.ts'

const maxSecrets = 1_000

interface StoredSecret {
  readonly value: string
  readonly description?: string | undefined
}
type StoredSecrets = Readonly<Record<string, StoredSecret>>

/** Format of a document of secrets. */
export const secretsFormat = { empty: {} as StoredSecrets, parse: parseSecrets, show: withoutValues }

/** Secrets by name in one sealed document per owner. A server without users omits the owner. */
export class NamedSecrets {
  readonly #document: JsonDocument<StoredSecrets>
  readonly #maxCharacters: number

  constructor(
    document: JsonDocument<StoredSecrets>,
    /** Of an owner's secrets as JSON. */
    { maxCharacters = Number.POSITIVE_INFINITY }: { readonly maxCharacters?: number } = {},
  ) {
    this.#document = document
    this.#maxCharacters = maxCharacters
  }

  /** Names and descriptions, by name. */
  async list(owner?: string): Promise<{ name: string; description: string | null }[]> {
    const all = Object.entries(await this.readAll(owner)).sort(([a], [b]) => (a < b ? -1 : 1))
    return all.map(([name, { description = null }]) => ({ name, description }))
  }

  async readAll(owner?: string): Promise<StoredSecrets> {
    return await this.#document.read(owner)
  }

  async getValue(name: string, owner?: string): Promise<string | undefined> {
    return ownMember(await this.readAll(owner), name)?.value
  }

  /**
   * Adds or replaces a secret; with `keepsDescription` an undefined description stays. Problems: `conflict`
   * at the limit of names, `too_large` for the size.
   */
  async save(
    name: string,
    secret: StoredSecret,
    owner?: string,
    { keepsDescription = false }: { readonly keepsDescription?: boolean } = {},
  ): Promise<void> {
    await this.#document.update((secrets) => {
      if (ownMember(secrets, name) === undefined && Object.keys(secrets).length >= maxSecrets)
        throw new Problem('conflict', `There are ${maxSecrets} secrets already`)
      const previous = keepsDescription ? ownMember(secrets, name) : undefined
      const description = secret.description ?? previous?.description
      const updated = { ...secrets, [name]: { ...secret, ...definedMembers({ description }) } }
      if (JSON.stringify(updated).length > this.#maxCharacters)
        throw new Problem('too_large', 'The secrets would become too large')
      return updated
    }, owner)
  }

  /** An undefined description stays. Problems: `not_found`, `bad_request` for a name in use. */
  async rename(
    name: string,
    { name: newName, description }: { readonly name: string; readonly description?: string | undefined },
    owner?: string,
  ): Promise<void> {
    await this.#document.update((secrets) => {
      const secret = ownMember(secrets, name)
      if (secret === undefined) throw new Problem('not_found', 'There is no such secret')
      if (newName !== name && ownMember(secrets, newName) !== undefined)
        throw new Problem('bad_request', 'There is a secret of that name already')
      const renamed = { ...secret, ...(description === undefined ? {} : { description }) }
      return { ...withoutMember(secrets, name), [newName]: renamed }
    }, owner)
  }

  /** Returns false when there was none. */
  async remove(name: string, owner?: string): Promise<boolean> {
    let existed = false
    await this.#document.update((secrets) => {
      existed = ownMember(secrets, name) !== undefined
      return existed ? withoutMember(secrets, name) : secrets
    }, owner)
    return existed
  }
}

function withoutValues(secrets: StoredSecrets): StoredSecrets {
  const entries = Object.entries(secrets)
  return Object.fromEntries(entries.map(([name, secret]) => [name, { ...secret, value: redactedText }]))
}

function parseSecrets(value: unknown): StoredSecrets {
  if (!isRecord(value)) throw new Error('not a map of secrets')
  const entries = Object.entries(value).map(([name, secret]): [string, StoredSecret] => {
    const { value: text, description }: Record<string, unknown> = { ...Object(secret) }
    if (typeof text !== 'string') throw new Error('a secret has no value')
    return [name, { value: text, ...(typeof description === 'string' ? { description } : {}) }]
  })
  return Object.fromEntries(entries)
}
