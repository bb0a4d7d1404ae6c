import { join } from 'node:path'
import { Problem, type SecretItem, secretName } from '@slipway/protocol'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'

interface StoredSecret {
  readonly value: string
  readonly description?: string | undefined
}
type StoredSecrets = Readonly<Record<string, StoredSecret>>

const maxSecrets = 1_000
/** All together are in memory, and written as a whole. */
const maxCharacters = 4_000_000
const secretPathPattern = /^\/api\/settings\/secrets\/([^/?#]+)$/

/**
 * The secrets of the server's user by name: one sealed file. A change is on the disk when its promise resolves. What is damaged or was
 * sealed with another key is a Problem `conflict`.
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
    const all = await this.#file.read()
    return Object.hasOwn(all, name) ? all[name]?.value : undefined
  }

  /** One of the same name is replaced. Problems: `conflict` when it is one too many, `too_large`. */
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

  /** False when there was none. */
  async remove(name: string): Promise<boolean> {
    let existed = false
    await this.#file.update((all) => {
      existed = Object.hasOwn(all, name)
      return existed ? Object.fromEntries(Object.entries(all).filter(([other]) => other !== name)) : all
    })
    return existed
  }
}

/** The name of the secret that an address on this server stands for: `/api/settings/secrets/NAME`. */
export function parseSecretPath(url: string): string | undefined {
  const [, encoded] = secretPathPattern.exec(url) ?? []
  if (encoded === undefined) return undefined
  const name = decodeOrEmpty(encoded)
  return secretName.safeParse(name).success ? name : undefined
}

function decodeOrEmpty(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

function parseSecrets(value: unknown): StoredSecrets {
  if (typeof value !== 'object' || value === null) throw new Error('these are no secrets')
  const entries = Object.entries(value).map(([name, secret]): [string, StoredSecret] => {
    const { value: text, description }: Record<string, unknown> = { ...secret }
    if (typeof text !== 'string') throw new Error('this is no secret')
    return [name, { value: text, ...(typeof description === 'string' ? { description } : {}) }]
  })
  return Object.fromEntries(entries)
}
