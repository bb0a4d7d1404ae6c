import {
  invalid,
  type Llm,
  llm,
  Problem,
  redact,
  Secret,
  type UserSettings,
  userSettings,
} from '@slipway/protocol'
import type { StartSecrets, StartSettings } from '../start/conversation-request.ts'
import type { Documents } from './sealed-documents.ts'

type Json = Record<string, unknown>

export interface KeptSecret {
  readonly value: string
  readonly description?: string | undefined
}

interface KeptProfiles {
  readonly profiles: Readonly<Record<string, Llm>>
  readonly active: string | null
}

/** Settings, models, secrets and provider tokens of each user. All of it is sealed at rest. */
export class Accounts {
  readonly #documents: Documents
  readonly #fallback: Llm | undefined
  readonly #maxProfiles: number

  constructor(parts: {
    readonly documents: Documents
    /** The model of users who have set none. */
    readonly model: Llm | undefined
    readonly maxProfiles: number
  }) {
    this.#documents = parts.documents
    this.#fallback = parts.model
    this.#maxProfiles = parts.maxProfiles
  }

  /**
   * The model of a new conversation: a profile by name, or that of the settings, or the server's. `model` replaces only its
   * name. A Problem `invalid` when there is none.
   */
  async model(
    owner: string | null,
    asked: { readonly profile?: string | undefined; readonly model?: string | undefined },
  ): Promise<Llm> {
    const { profile, model } = asked
    const name = model === undefined ? {} : { model }
    if (profile !== undefined) return llm.parse({ ...(await this.profile(owner, profile)), ...name })
    const own = (await this.userSettings(owner)).agent_settings.llm ?? {}
    // A model of one provider is not asked with the key of another one.
    const base = own.model === undefined && own.api_key === undefined ? this.#fallback : {}
    const made = llm.safeParse({ ...base, ...own, ...name })
    if (made.success) return made.data
    throw invalid(
      ['body', 'llm_model'],
      'There is no model: set agent_settings.llm by POST /api/v1/settings, or LLM_MODEL and LLM_API_KEY of the server',
    )
  }

  async settings(owner: string | null): Promise<StartSettings> {
    const kept = await this.userSettings(owner)
    const { max_iterations, confirmation_mode, security_analyzer } = kept.conversation_settings
    const { llm: _, ...agent_settings } = kept.agent_settings
    return {
      ...(kept.git_user_name ? { git_user_name: kept.git_user_name } : {}),
      ...(kept.git_user_email ? { git_user_email: kept.git_user_email } : {}),
      ...(kept.default_sandbox_spec_id ? { default_sandbox_spec_id: kept.default_sandbox_spec_id } : {}),
      git_full_clone: kept.git_full_clone,
      max_iterations,
      confirmation_mode,
      security_analyzer,
      sandbox_grouping_strategy: kept.sandbox_grouping_strategy,
      disabled_skills: kept.disabled_skills ?? [],
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
  async changeSettings(owner: string | null, change: Readonly<Json>): Promise<void> {
    const { agent_settings_diff, conversation_settings_diff, ...members } = change
    await this.#documents.change(owner, 'settings', (old) => {
      const kept: Json = { ...(isMap(old) ? old : {}), ...withoutOwn(members) }
      if (agent_settings_diff !== undefined) {
        kept.agent_settings = withModel(merged(kept.agent_settings, agent_settings_diff), kept.agent_settings)
      }
      if (conversation_settings_diff !== undefined) {
        kept.conversation_settings = merged(kept.conversation_settings, conversation_settings_diff)
      }
      const checked = userSettings.safeParse(kept)
      if (checked.success) return kept
      const faults = checked.error.issues.map((issue) => ({
        loc: ['body', ...issue.path.map(step)],
        msg: issue.message,
        type: 'value_error',
      }))
      throw new Problem('invalid', 'The settings are not valid', faults)
    })
  }

  /** A Problem `not_found` when there is none of the name. */
  async profile(owner: string | null, name: string): Promise<Llm> {
    const found = own((await this.profiles(owner)).profiles, name)
    if (found === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
    return llm.parse(found)
  }

  async profiles(owner: string | null): Promise<KeptProfiles> {
    return profilesOf(await this.#documents.get(owner, 'profiles'))
  }

  /** A Problem `conflict` when it is one too many. */
  async saveProfile(owner: string | null, name: string, model: Llm): Promise<void> {
    await this.#changeProfiles(owner, ({ profiles, active }) => {
      const count = Object.keys(profiles).length
      if (own(profiles, name) === undefined && count >= this.#maxProfiles) {
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
    await this.#changeProfiles(owner, ({ profiles, active }) => {
      wasThere = own(profiles, name) !== undefined
      const { [name]: _, ...others } = profiles
      return { profiles: others, active: active === name ? null : active }
    })
    return wasThere
  }

  /** Its place and whether it is active stay. Problems: `not_found`, and `conflict` when the new name is taken. */
  async renameProfile(owner: string | null, name: string, newName: string): Promise<void> {
    await this.#changeProfiles(owner, ({ profiles, active }) => {
      if (own(profiles, name) === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
      if (name !== newName && own(profiles, newName) !== undefined) {
        throw new Problem('conflict', `There is a profile ${newName} already`)
      }
      const entries = Object.entries(profiles).map(([key, model]) => [key === name ? newName : key, model])
      return { profiles: Object.fromEntries(entries), active: active === name ? newName : active }
    })
  }

  /** The profile becomes the model of the settings. */
  async activateProfile(owner: string | null, name: string): Promise<Llm> {
    const model = await this.profile(owner, name)
    await this.#documents.change(owner, 'settings', (old) => {
      const kept = isMap(old) ? old : {}
      return {
        ...kept,
        agent_settings: { ...(isMap(kept.agent_settings) ? kept.agent_settings : {}), llm: model },
      }
    })
    await this.#changeProfiles(owner, ({ profiles }) => ({ profiles, active: name }))
    return model
  }

  async secrets(owner: string | null): Promise<StartSecrets> {
    const kept = await this.keptSecrets(owner)
    return Object.fromEntries(
      Object.entries(kept).map(([name, { value, description }]) => [
        name,
        { value: new Secret(value), ...(description === undefined ? {} : { description }) },
      ]),
    )
  }

  async keptSecrets(owner: string | null): Promise<Readonly<Record<string, KeptSecret>>> {
    return secretsOf(await this.#documents.get(owner, 'secrets'))
  }

  /** One change after another. What `make` throws leaves all as it was. */
  async changeSecrets(
    owner: string | null,
    make: (old: Readonly<Record<string, KeptSecret>>) => Readonly<Record<string, KeptSecret>>,
  ): Promise<void> {
    await this.#documents.change(owner, 'secrets', (old) => make(secretsOf(old)))
  }

  async gitToken(
    owner: string | null,
    provider: string,
  ): Promise<{ readonly token: Secret; readonly host?: string } | undefined> {
    const found = own(await this.providers(owner), provider)
    if (found?.token === undefined) return undefined
    return { token: new Secret(found.token), ...(found.host === undefined ? {} : { host: found.host }) }
  }

  async providers(owner: string | null): Promise<Readonly<Record<string, Provider>>> {
    return providersOf(await this.#documents.get(owner, 'providers'))
  }

  /** Adds tokens; one that is not given stays. Undefined removes all. */
  async changeProviders(
    owner: string | null,
    given: Readonly<Record<string, Provider>> | undefined,
  ): Promise<void> {
    await this.#documents.change(owner, 'providers', (old) => {
      if (given === undefined) return undefined
      const kept = { ...providersOf(old) }
      for (const [name, { token, host }] of Object.entries(given)) {
        kept[name] = { ...kept[name], ...(token ? { token } : {}), ...(host === undefined ? {} : { host }) }
      }
      return kept
    })
  }

  async #changeProfiles(owner: string | null, make: (old: KeptProfiles) => KeptProfiles): Promise<void> {
    await this.#documents.change(owner, 'profiles', (old) => make(profilesOf(old)))
  }
}

export interface Provider {
  readonly token?: string | undefined
  readonly host?: string | undefined
}

/** The member of a map, never one that every object has. */
export function own<V>(map: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}

/** What is shown where a secret was left out; sent back it means "as before". */
function isMask(value: unknown): boolean {
  return value === '' || (typeof value === 'string' && /^\*+$/.test(value))
}

/** A model that came back with stars for its key keeps the key. */
function withModel(next: unknown, before: unknown): unknown {
  if (!isMap(next) || !isMap(next.llm)) return next
  const known = isMap(before) && isMap(before.llm) ? before.llm : {}
  const members = Object.entries(next.llm).map(([name, value]) => [name, isMask(value) ? known[name] : value])
  return {
    ...next,
    llm: Object.fromEntries(members.filter(([, value]) => value !== undefined && value !== null)),
  }
}

/** JSON merge patch (RFC 7396). */
function merged(target: unknown, patch: unknown): unknown {
  if (!isMap(patch)) return patch
  const result: Json = { ...(isMap(target) ? target : {}) }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merged(result[name], value)
  }
  return result
}

/** Members that only answers have. */
function withoutOwn(members: Json): Json {
  const { llm_api_key_set: _, search_api_key_set: __, id: ___, ...rest } = members
  return rest
}

/** The settings as they may be shown. */
export function shownSettings(settings: UserSettings): Json {
  const shown = redact(settings)
  return isMap(shown) ? shown : {}
}

function profilesOf(value: unknown): KeptProfiles {
  if (!isMap(value) || !isMap(value.profiles)) return { profiles: {}, active: null }
  const active = typeof value.active === 'string' ? value.active : null
  return { profiles: value.profiles as Record<string, Llm>, active } // written by us alone
}

function secretsOf(value: unknown): Readonly<Record<string, KeptSecret>> {
  return isMap(value) ? (value as Record<string, KeptSecret>) : {} // written by us alone
}

function providersOf(value: unknown): Readonly<Record<string, Provider>> {
  return isMap(value) ? (value as Record<string, Provider>) : {} // written by us alone
}

function isMap(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function step(part: PropertyKey): string | number {
  return typeof part === 'number' ? part : String(part)
}
