import { type MetaProfile, type NamedMetaProfile, namedMetaProfile, Problem } from '@slipway/protocol'
import type { JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'
import { type ServerSettings, withMetaProfile } from '../settings/server-settings.ts'

interface MetaProfilesOptions {
  readonly path: string
  /** Have the active one and its name. */
  readonly settings: Pick<ServerSettings, 'getAgentSettings' | 'modify'>
  readonly max?: number
}

/** Rules that choose a model, in one file without secrets. An unreadable file is a Problem `conflict`. */
export class MetaProfiles {
  readonly #options: MetaProfilesOptions
  readonly #file: JsonDocument<readonly NamedMetaProfile[]>

  constructor(options: MetaProfilesOptions) {
    this.#options = options
    this.#file = openJsonFile({ path: options.path, empty: [], parse: parseProfiles })
  }

  /** In order of name. */
  async list(): Promise<readonly NamedMetaProfile[]> {
    return (await this.#file.read()).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  async get(name: string): Promise<MetaProfile | undefined> {
    return (await this.#file.read()).find((profile) => profile.name === name)?.config
  }

  /** A Problem `not_found` for an unknown name. */
  async getOrThrow(name: string): Promise<NamedMetaProfile> {
    const config = await this.get(name)
    if (config === undefined) throw new Problem('not_found', `Meta-profile '${name}' not found`)
    return { name, config }
  }

  /** The name in the settings; it need not exist. */
  async getActiveName(): Promise<string | null> {
    return (await this.#options.settings.getAgentSettings()).active_meta_profile
  }

  /** Adds or replaces a profile; a Problem `conflict` above the limit. */
  async save(name: string, config: MetaProfile): Promise<void> {
    const { max = 50 } = this.#options
    await this.#file.update((profiles) => {
      const others = profiles.filter((profile) => profile.name !== name)
      if (others.length >= max)
        throw new Problem(
          'conflict',
          `Meta-profile limit reached (${max}). Delete a meta-profile before saving a new one.`,
        )
      return [...others, { name, config }]
    })
  }

  /** The settings forget it first: they never name one that is gone. Does nothing for an unknown name. */
  async remove(name: string): Promise<void> {
    if ((await this.getActiveName()) === name)
      await this.#options.settings.modify((stored) => withMetaProfile(stored, undefined))
    if ((await this.get(name)) !== undefined)
      await this.#file.update((profiles) => profiles.filter((profile) => profile.name !== name))
  }

  /** Problems: `not_found`, and `conflict` when the agent of the settings is another program. */
  async activate(name: string): Promise<void> {
    const profile = await this.getOrThrow(name)
    await this.#options.settings.modify((stored) => withMetaProfile(stored, profile))
  }
}

function parseProfiles(value: unknown): readonly NamedMetaProfile[] {
  if (!Array.isArray(value)) throw new Error('a list of meta-profiles is expected')
  return value.map((item) => namedMetaProfile.parse(item))
}
