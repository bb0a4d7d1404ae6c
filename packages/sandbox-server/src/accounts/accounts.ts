import { invalidInput, type Llm, llm } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import { NamedSecrets, secretsFormat } from '@slipway/storage'
import { GitProviders } from './git-providers.ts'
import { UserLlmProfiles } from './llm-profiles.ts'
import { ScriptConsents } from './script-consents.ts'
import { UserSettingsStore } from './settings.ts'
import { type AccountDocuments, userDocument } from './user-documents.ts'

export type AccountSecrets = Readonly<
  Record<string, { readonly value: Secret; readonly description?: string | undefined }>
>

/** What an organisation gives its members; see `Organizations`. */
interface SharedProfiles {
  readonly profiles: Readonly<Record<string, Llm>>
  readonly active: string | null
}

/** What each user has stored, sealed at rest: settings, models, secrets and provider tokens. */
export class Accounts {
  readonly userSettings: UserSettingsStore
  readonly llmProfiles: UserLlmProfiles
  readonly userSecrets: NamedSecrets
  readonly gitProviders: GitProviders
  readonly scriptConsents: ScriptConsents
  readonly #defaultModel: Llm | undefined

  constructor(
    deps: AccountDocuments & {
      /** The model of users who have set none. */
      readonly model: Llm | undefined
      readonly maxProfiles: number
    },
  ) {
    this.userSettings = new UserSettingsStore(deps)
    this.llmProfiles = new UserLlmProfiles(deps)
    this.userSecrets = new NamedSecrets(userDocument(deps, 'secrets', secretsFormat))
    this.gitProviders = new GitProviders(deps)
    this.scriptConsents = new ScriptConsents(deps)
    this.#defaultModel = deps.model
  }

  /**
   * From a profile, the settings, the organisation or the server, with the name `model`; a profile of the
   * user comes before a shared one. A Problem `invalid` without any.
   */
  async model(
    owner: string | null,
    { profile, model }: { readonly profile?: string | undefined; readonly model?: string | undefined },
    shared?: SharedProfiles,
  ): Promise<Llm> {
    const name = model === undefined ? {} : { model }
    if (profile !== undefined) {
      const isOwn = ownMember((await this.llmProfiles.readAll(owner)).profiles, profile) !== undefined
      const found = isOwn ? undefined : ownMember(shared?.profiles ?? {}, profile)
      return llm.parse({ ...(found ?? (await this.llmProfiles.get(owner, profile))), ...name })
    }
    const settings = (await this.userSettings.read(owner)).agent_settings.llm ?? {}
    // Keys of others are never combined with the user's model or base URL.
    const isOwn = [settings.model, settings.api_key, settings.base_url].some((one) => one !== undefined)
    const ofOrg = shared?.active ? ownMember(shared.profiles, shared.active) : undefined
    const base = isOwn ? {} : (ofOrg ?? this.#defaultModel)
    const resolved = llm.safeParse({ ...base, ...settings, ...name })
    if (resolved.success) return resolved.data
    throw invalidInput(
      ['body', 'llm_model'],
      'There is no model: set agent_settings.llm in your settings, or LLM_MODEL and LLM_API_KEY of the server',
    )
  }

  /** Makes a profile the model of the settings. A Problem `not_found` when there is none of the name. */
  async activateProfile(owner: string | null, name: string): Promise<Llm> {
    const model = await this.llmProfiles.get(owner, name)
    await this.userSettings.setLlm(owner, model)
    await this.llmProfiles.setActive(owner, name)
    return model
  }

  /**
   * Removes a profile; false when there was none. When it was the active one, the first that is left becomes
   * the model of the settings.
   */
  async removeProfile(owner: string | null, name: string): Promise<boolean> {
    const { existed, promoted } = await this.llmProfiles.remove(owner, name)
    if (promoted !== undefined) await this.activateProfile(owner, promoted)
    return existed
  }

  async secrets(owner: string | null): Promise<AccountSecrets> {
    const stored = Object.entries(await this.userSecrets.readAll(owner ?? ''))
    return Object.fromEntries(
      stored.map(([name, { value, ...rest }]) => [name, { ...rest, value: new Secret(value) }]),
    )
  }
}
