import { invalidInput, type Llm, llm, Problem, type UserSettings, userSettings } from '@slipway/protocol'
import { redact, Secret } from '@slipway/shared/redaction'
import type { StartSecrets, StartSettings } from '../start/conversation-request.ts'
import type { SealedDocuments } from './sealed-documents.ts'

type JsonObject = Record<string, unknown>

export interface StoredSecret {
  readonly value: string
  readonly description?: string | undefined
}

interface StoredProfiles {
  readonly profiles: Readonly<Record<string, Llm>>
  readonly active: string | null
}

/** Settings, models, secrets and provider tokens of each user. All of it is sealed at rest. */
export class Accounts {
  readonly #documents: SealedDocuments
  readonly #defaultModel: Llm | undefined
  readonly #maxProfiles: number

  constructor(deps: {
    readonly documents: SealedDocuments
    /** The model of users who have set none. */
    readonly model: Llm | undefined
    readonly maxProfiles: number
  }) {
    this.#documents = deps.documents
    this.#defaultModel = deps.model
    this.#maxProfiles = deps.maxProfiles
  }

  /**
   * The model of a new conversation: a profile by name, or that of the settings, or the server's. `model` replaces only its
   * name. A Problem `invalid` when there is none.
   */
  async model(
    owner: string | null,
    request: { readonly profile?: string | undefined; readonly model?: string | undefined },
  ): Promise<Llm> {
    const { profile, model } = request
    const name = model === undefined ? {} : { model }
    if (profile !== undefined) return llm.parse({ ...(await this.getProfile(owner, profile)), ...name })
    const settings = (await this.userSettings(owner)).agent_settings.llm ?? {}
    // A model of one provider is not asked with the key of another one.
    const base = settings.model === undefined && settings.api_key === undefined ? this.#defaultModel : {}
    const resolved = llm.safeParse({ ...base, ...settings, ...name })
    if (resolved.success) return resolved.data
    throw invalidInput(
      ['body', 'llm_model'],
      'There is no model: set agent_settings.llm by POST /api/v1/settings, or LLM_MODEL and LLM_API_KEY of the server',
    )
  }

  async settings(owner: string | null): Promise<StartSettings> {
    const stored = await this.userSettings(owner)
    const { max_iterations, confirmation_mode, security_analyzer } = stored.conversation_settings
    const { llm: _, ...agent_settings } = stored.agent_settings
    return {
      ...(stored.git_user_name ? { git_user_name: stored.git_user_name } : {}),
      ...(stored.git_user_email ? { git_user_email: stored.git_user_email } : {}),
      ...(stored.default_sandbox_spec_id ? { default_sandbox_spec_id: stored.default_sandbox_spec_id } : {}),
      git_full_clone: stored.git_full_clone,
      max_iterations,
      confirmation_mode,
      security_analyzer,
      sandbox_grouping_strategy: stored.sandbox_grouping_strategy,
      disabled_skills: stored.disabled_skills ?? [],
      agent_settings,
    }
  }

  async userSettings(owner: string | null): Promise<UserSettings> {
    return userSettings.parse((await this.#documents.get(owner, 'settings')) ?? {})
  }

  /**
   * Merges the `_diff` members into the settings (null deletes), puts the others in the place of what is there. A Problem
   * `invalid` with the places of what is wrong; then nothing is changed.
   */
  async updateSettings(owner: string | null, change: Readonly<JsonObject>): Promise<void> {
    const { agent_settings_diff, conversation_settings_diff, ...members } = change
    await this.#documents.update(owner, 'settings', (old) => {
      const updated: JsonObject = { ...(isRecord(old) ? old : {}), ...withoutReadOnlyMembers(members) }
      if (agent_settings_diff !== undefined) {
        updated.agent_settings = restoreRedactedMembers(
          mergePatch(updated.agent_settings, agent_settings_diff),
          updated.agent_settings,
        )
      }
      if (conversation_settings_diff !== undefined) {
        updated.conversation_settings = mergePatch(updated.conversation_settings, conversation_settings_diff)
      }
      const checked = userSettings.safeParse(updated)
      if (checked.success) return updated
      const issues = checked.error.issues.map((issue) => ({
        loc: ['body', ...issue.path.map(toPathPart)],
        msg: issue.message,
        type: 'value_error',
      }))
      throw new Problem('invalid', 'The settings are not valid', issues)
    })
  }

  /** A Problem `not_found` when there is none of the name. */
  async getProfile(owner: string | null, name: string): Promise<Llm> {
    const found = ownMember((await this.getProfiles(owner)).profiles, name)
    if (found === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
    return llm.parse(found)
  }

  async getProfiles(owner: string | null): Promise<StoredProfiles> {
    return parseProfiles(await this.#documents.get(owner, 'profiles'))
  }

  /** A Problem `conflict` when it is one too many. */
  async saveProfile(owner: string | null, name: string, model: Llm): Promise<void> {
    await this.#updateProfiles(owner, ({ profiles, active }) => {
      const count = Object.keys(profiles).length
      if (ownMember(profiles, name) === undefined && count >= this.#maxProfiles) {
        throw new Problem(
          'conflict',
          `There are ${count} profiles, and no more than ${this.#maxProfiles} may be`,
        )
      }
      return { profiles: { ...profiles, [name]: model }, active }
    })
  }

  /** False when there was none. */
  async removeProfile(owner: string | null, name: string): Promise<boolean> {
    let wasThere = false
    await this.#updateProfiles(owner, ({ profiles, active }) => {
      wasThere = ownMember(profiles, name) !== undefined
      const { [name]: _, ...others } = profiles
      return { profiles: others, active: active === name ? null : active }
    })
    return wasThere
  }

  /** Its place and whether it is active stay. Problems: `not_found`, and `conflict` when the new name is taken. */
  async renameProfile(owner: string | null, name: string, newName: string): Promise<void> {
    await this.#updateProfiles(owner, ({ profiles, active }) => {
      if (ownMember(profiles, name) === undefined)
        throw new Problem('not_found', `Profile not found: ${name}`)
      if (name !== newName && ownMember(profiles, newName) !== undefined) {
        throw new Problem('conflict', `There is a profile ${newName} already`)
      }
      const entries = Object.entries(profiles).map(([key, model]) => [key === name ? newName : key, model])
      return { profiles: Object.fromEntries(entries), active: active === name ? newName : active }
    })
  }

  /** The profile becomes the model of the settings. */
  async activateProfile(owner: string | null, name: string): Promise<Llm> {
    const model = await this.getProfile(owner, name)
    await this.#documents.update(owner, 'settings', (old) => {
      const stored = isRecord(old) ? old : {}
      return {
        ...stored,
        agent_settings: { ...(isRecord(stored.agent_settings) ? stored.agent_settings : {}), llm: model },
      }
    })
    await this.#updateProfiles(owner, ({ profiles }) => ({ profiles, active: name }))
    return model
  }

  async secrets(owner: string | null): Promise<StartSecrets> {
    const stored = await this.getStoredSecrets(owner)
    return Object.fromEntries(
      Object.entries(stored).map(([name, { value, description }]) => [
        name,
        { value: new Secret(value), ...(description === undefined ? {} : { description }) },
      ]),
    )
  }

  async getStoredSecrets(owner: string | null): Promise<Readonly<Record<string, StoredSecret>>> {
    return parseSecrets(await this.#documents.get(owner, 'secrets'))
  }

  /** One change after another. What `make` throws leaves all as it was. */
  async updateSecrets(
    owner: string | null,
    edit: (old: Readonly<Record<string, StoredSecret>>) => Readonly<Record<string, StoredSecret>>,
  ): Promise<void> {
    await this.#documents.update(owner, 'secrets', (old) => edit(parseSecrets(old)))
  }

  async gitToken(
    owner: string | null,
    provider: string,
  ): Promise<{ readonly token: Secret; readonly host?: string } | undefined> {
    const found = ownMember(await this.getProviders(owner), provider)
    if (found?.token === undefined) return undefined
    return { token: new Secret(found.token), ...(found.host === undefined ? {} : { host: found.host }) }
  }

  async getProviders(owner: string | null): Promise<Readonly<Record<string, GitProviderAccount>>> {
    return parseProviders(await this.#documents.get(owner, 'providers'))
  }

  /** Adds tokens; one that is not given stays. Undefined removes all. */
  async updateProviders(
    owner: string | null,
    changes: Readonly<Record<string, GitProviderAccount>> | undefined,
  ): Promise<void> {
    await this.#documents.update(owner, 'providers', (old) => {
      if (changes === undefined) return undefined
      const updated = { ...parseProviders(old) }
      for (const [name, { token, host }] of Object.entries(changes)) {
        updated[name] = {
          ...updated[name],
          ...(token ? { token } : {}),
          ...(host === undefined ? {} : { host }),
        }
      }
      return updated
    })
  }

  async #updateProfiles(owner: string | null, edit: (old: StoredProfiles) => StoredProfiles): Promise<void> {
    await this.#documents.update(owner, 'profiles', (old) => edit(parseProfiles(old)))
  }
}

export interface GitProviderAccount {
  readonly token?: string | undefined
  readonly host?: string | undefined
}

/** The member of a map, never one that every object has. */
export function ownMember<V>(map: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}

/** What is shown where a secret was left out; sent back it means "as before". */
function isRedactedValue(value: unknown): boolean {
  return value === '' || (typeof value === 'string' && /^\*+$/.test(value))
}

/** A model that came back with stars for its key keeps the key. */
function restoreRedactedMembers(next: unknown, previous: unknown): unknown {
  if (!isRecord(next) || !isRecord(next.llm)) return next
  const previousModel = isRecord(previous) && isRecord(previous.llm) ? previous.llm : {}
  const members = Object.entries(next.llm).map(([name, value]) => [
    name,
    isRedactedValue(value) ? previousModel[name] : value,
  ])
  return {
    ...next,
    llm: Object.fromEntries(members.filter(([, value]) => value !== undefined && value !== null)),
  }
}

/** JSON merge patch (RFC 7396). */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const result: JsonObject = { ...(isRecord(target) ? target : {}) }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = mergePatch(result[name], value)
  }
  return result
}

/** Members that only answers have. */
function withoutReadOnlyMembers(members: JsonObject): JsonObject {
  const { llm_api_key_set: _, search_api_key_set: __, id: ___, ...rest } = members
  return rest
}

/** The settings as they may be shown. */
export function redactSettings(settings: UserSettings): JsonObject {
  const redacted = redact(settings)
  return isRecord(redacted) ? redacted : {}
}

function parseProfiles(value: unknown): StoredProfiles {
  if (!isRecord(value) || !isRecord(value.profiles)) return { profiles: {}, active: null }
  const active = typeof value.active === 'string' ? value.active : null
  return { profiles: value.profiles as Record<string, Llm>, active } // written by us alone
}

function parseSecrets(value: unknown): Readonly<Record<string, StoredSecret>> {
  return isRecord(value) ? (value as Record<string, StoredSecret>) : {} // written by us alone
}

function parseProviders(value: unknown): Readonly<Record<string, GitProviderAccount>> {
  return isRecord(value) ? (value as Record<string, GitProviderAccount>) : {} // written by us alone
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function toPathPart(part: PropertyKey): string | number {
  return typeof part === 'number' ? part : String(part)
}
