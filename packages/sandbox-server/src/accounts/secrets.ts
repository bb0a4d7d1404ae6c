import { Problem } from '@slipway/protocol'
import { isRecord, ownMember, withoutMember } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import type { JsonDocument } from '@slipway/storage'
import type { StartSecrets } from '../start/conversation-request.ts'
import { type AccountDocuments, userDocument } from './user-documents.ts'

const maxSecrets = 1000

interface StoredSecret {
  readonly value: string
  readonly description?: string | undefined
}
type StoredSecrets = Readonly<Record<string, StoredSecret>>

/** The named secrets of each user. */
export class UserSecrets {
  readonly #document: JsonDocument<StoredSecrets>

  constructor(deps: AccountDocuments) {
    this.#document = userDocument<StoredSecrets>(deps, 'secrets', {
      empty: {},
      parse: (value) => (isRecord(value) ? (value as StoredSecrets) : {}), // written by this class alone
    })
  }

  /** Names and descriptions, in the order of creation. */
  async list(owner: string | null): Promise<{ name: string; description: string | null }[]> {
    const stored = Object.entries(await this.#document.read(owner ?? ''))
    return stored.map(([name, { description = null }]) => ({ name, description }))
  }

  async getValue(owner: string | null, name: string): Promise<string | undefined> {
    return ownMember(await this.#document.read(owner ?? ''), name)?.value
  }

  /** All of them, as a new conversation gets them. */
  async readForStart(owner: string | null): Promise<StartSecrets> {
    const stored = Object.entries(await this.#document.read(owner ?? ''))
    return Object.fromEntries(
      stored.map(([name, { value, description }]) => [
        name,
        { value: new Secret(value), ...(description === undefined ? {} : { description }) },
      ]),
    )
  }

  /** Adds or replaces a secret. A Problem `conflict` above the limit. */
  async save(owner: string | null, name: string, secret: StoredSecret): Promise<void> {
    await this.#document.update((secrets) => {
      if (ownMember(secrets, name) === undefined && Object.keys(secrets).length >= maxSecrets)
        throw new Problem('conflict', `There are ${maxSecrets} secrets already`)
      return { ...secrets, [name]: secret }
    }, owner ?? '')
  }

  /** Changes name and description; an undefined description stays. Problems: `not_found`, `bad_request` for a name in use. */
  async rename(
    owner: string | null,
    name: string,
    { name: newName, description }: { readonly name: string; readonly description?: string | undefined },
  ): Promise<void> {
    await this.#document.update((secrets) => {
      const secret = requireSecret(secrets, name)
      if (newName !== name && ownMember(secrets, newName) !== undefined)
        throw new Problem('bad_request', 'There is a secret of that name already')
      const renamed = { ...secret, ...(description === undefined ? {} : { description }) }
      return { ...withoutMember(secrets, name), [newName]: renamed }
    }, owner ?? '')
  }

  /** A Problem `not_found` when there is none of the name. */
  async remove(owner: string | null, name: string): Promise<void> {
    await this.#document.update((secrets) => {
      requireSecret(secrets, name)
      return withoutMember(secrets, name)
    }, owner ?? '')
  }
}

function requireSecret(secrets: StoredSecrets, name: string): StoredSecret {
  const secret = ownMember(secrets, name)
  if (secret === undefined) throw new Problem('not_found', 'There is no such secret')
  return secret
}
