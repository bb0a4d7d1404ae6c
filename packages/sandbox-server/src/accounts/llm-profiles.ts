import { type Llm, llm, Problem } from '@slipway/protocol'
import { isRecord, ownMember, renameMember, withoutMember } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

interface StoredProfiles {
  readonly profiles: Readonly<Record<string, Llm>>
  readonly active: string | null
}

/** The named models of each user, with their keys, and which of them is active. */
export class UserLlmProfiles {
  readonly #document: JsonDocument<StoredProfiles>
  readonly #max: number

  constructor(deps: AccountDocuments & { readonly maxProfiles: number }) {
    this.#max = deps.maxProfiles
    this.#document = userDocument<StoredProfiles>(deps, 'profiles', {
      empty: { profiles: {}, active: null },
      parse: parseProfiles,
    })
  }

  async readAll(owner: string | null): Promise<StoredProfiles> {
    return await this.#document.read(owner ?? '')
  }

  /** A Problem `not_found` when there is none of the name. */
  async get(owner: string | null, name: string): Promise<Llm> {
    const found = ownMember((await this.readAll(owner)).profiles, name)
    if (found === undefined) throw profileNotFound(name)
    return llm.parse(found)
  }

  /** Adds or replaces a profile. A Problem `conflict` above the limit. */
  async save(owner: string | null, name: string, model: Llm): Promise<void> {
    await this.#update(owner, ({ profiles, active }) => {
      const count = Object.keys(profiles).length
      if (ownMember(profiles, name) === undefined && count >= this.#max)
        throw new Problem('conflict', `There are ${count} profiles; the limit is ${this.#max}`)
      return { profiles: { ...profiles, [name]: model }, active }
    })
  }

  /**
   * `promoted`: the first of those that are left, when the active one was removed; with `isPromoting` false
   * none.
   */
  async remove(
    owner: string | null,
    name: string,
    { isPromoting = true }: { readonly isPromoting?: boolean } = {},
  ): Promise<{ readonly existed: boolean; readonly promoted: string | undefined }> {
    let existed = false
    let promoted: string | undefined
    await this.#update(owner, (stored) => {
      existed = ownMember(stored.profiles, name) !== undefined
      promoted = undefined
      if (!existed) return stored
      const profiles = withoutMember(stored.profiles, name)
      if (stored.active !== name) return { ...stored, profiles }
      promoted = isPromoting ? Object.keys(profiles)[0] : undefined
      return { profiles, active: promoted ?? null }
    })
    return { existed, promoted }
  }

  /** An active profile stays active. Problems: `not_found`, and `conflict` when the new name is in use. */
  async rename(owner: string | null, name: string, newName: string): Promise<void> {
    await this.#update(owner, ({ profiles, active }) => {
      if (ownMember(profiles, name) === undefined) throw profileNotFound(name)
      if (name !== newName && ownMember(profiles, newName) !== undefined)
        throw new Problem('conflict', `There is a profile ${newName} already`)
      return {
        profiles: renameMember(profiles, name, newName),
        active: active === name ? newName : active,
      }
    })
  }

  async setActive(owner: string | null, name: string): Promise<void> {
    await this.#update(owner, ({ profiles }) => ({ profiles, active: name }))
  }

  async #update(owner: string | null, transform: (stored: StoredProfiles) => StoredProfiles): Promise<void> {
    await this.#document.update(transform, owner ?? '')
  }
}

function parseProfiles(value: unknown): StoredProfiles {
  if (!isRecord(value) || !isRecord(value.profiles)) return { profiles: {}, active: null }
  const active = typeof value.active === 'string' ? value.active : null
  return { profiles: value.profiles as Record<string, Llm>, active } // written by `save` alone
}

function profileNotFound(name: string): Problem {
  return new Problem('not_found', `Profile not found: ${name}`)
}
