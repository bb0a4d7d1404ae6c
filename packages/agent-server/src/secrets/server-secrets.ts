import { join } from 'node:path'
import { Problem, type SecretItem, secretName } from '@slipway/protocol'
import { isRecord, ownMember, withoutMember } from '@slipway/shared/json'
import { decodePercent } from '@slipway/shared/url'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'

interface StoredSecret {
  readonly value: string
  readonly description?: string | undefined
}
type StoredSecrets = Readonly<Record<string, StoredSecret>>

const maxSecrets = 1_000
/** Of all secrets as JSON: they are in memory and written as a whole. */
const maxCharacters = 4_000_000
const secretPathPattern = /^\/api\/settings\/secrets\/([^/?#]+)$/

/**
 * The named secrets of the server's user, in one sealed file. A file that is damaged or sealed with another key is a Problem
 * `conflict`.
 */
export class ServerSecrets {
  readonly #file: JsonDocument<StoredSecrets>

  constructor({ directory, cipher }: { readonly directory: string; readonly cipher: Cipher }) {
    this.#file = openJsonFile({
      path: join(directory, 'secrets.sealed'),
      empty: {},
      parse: parseSecrets,
      cipher,
    })
  }

  /** By name, without values. */
  async list(): Promise<SecretItem[]> {
    const all = Object.entries(await this.#file.read()).sort(([a], [b]) => (a < b ? -1 : 1))
    return all.map(([name, { description = null }]) => ({ name, description }))
  }

  async getValue(name: string): Promise<string | undefined> {
    return ownMember(await this.#file.read(), name)?.value
  }

  /** Adds or replaces a secret. Problems: `conflict` above the limit, `too_large`. */
  async save(name: string, secret: StoredSecret): Promise<void> {
    await this.#file.update((all) => {
      if (!Object.hasOwn(all, name) && Object.keys(all).length >= maxSecrets)
        throw new Problem('conflict', `There are ${maxSecrets} secrets, and no more may be`)
      const next = { ...all, [name]: secret }
      if (JSON.stringify(next).length > maxCharacters)
        throw new Problem('too_large', 'The secrets would become too large')
      return next
    })
  }

  /** Returns false when there was none. */
  async remove(name: string): Promise<boolean> {
    let existed = false
    await this.#file.update((all) => {
      existed = Object.hasOwn(all, name)
      return existed ? withoutMember(all, name) : all
    })
    return existed
  }
}

/** The secret's name in a path of this server, `/api/settings/secrets/NAME`; undefined for any other URL. */
export function parseSecretPath(url: string): string | undefined {
  const name = decodePercent(secretPathPattern.exec(url)?.[1] ?? '')
  return secretName.safeParse(name).success ? name : undefined
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
