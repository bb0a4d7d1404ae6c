import { type MetaProfile, metaProfile, type NamedMetaProfile, Problem, profileName } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { assertWritable, type ServerDocuments } from '../../core/documents/configured-documents.ts'
import { openDocument } from '../../core/documents/document.ts'
import { type ServerSettings, withMetaProfile } from '../../modules/settings/module.ts'

const documentName = 'meta-profiles.json'

interface MetaProfilesOptions {
  readonly documents: ServerDocuments
  /** Have the active one and its name. */
  readonly settings: Pick<ServerSettings, 'getAgentSettings' | 'modify'>
  readonly max?: number
}

interface StoredMetaProfile {
  readonly name: string
  /** As it is stored. */
  readonly config: unknown
}

/**
 * Rules that choose a model, in one readable document without secrets. An unreadable one is a Problem
 * `conflict`; one rule in it that is not valid is a Problem `bad_request`, and others can be used.
 */
export class MetaProfiles {
  readonly #options: MetaProfilesOptions
  readonly #document: JsonDocument<readonly StoredMetaProfile[]>

  constructor(options: MetaProfilesOptions) {
    this.#options = options
    this.#document = openDocument(options.documents, documentName, {
      empty: [],
      parse: parseProfiles,
    })
  }

  /** In order of name, without those that are not valid. */
  async list(): Promise<readonly NamedMetaProfile[]> {
    const profiles = (await this.#document.read()).flatMap(({ name, config }): NamedMetaProfile[] => {
      const result = metaProfile.safeParse(config)
      return result.success ? [{ name, config: result.data }] : []
    })
    return profiles.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** A Problem `bad_request` for one that is not valid. */
  async get(name: string): Promise<MetaProfile | undefined> {
    const stored = (await this.#document.read()).find((profile) => profile.name === name)
    if (stored === undefined) return undefined
    const result = metaProfile.safeParse(stored.config)
    if (result.success) return result.data
    throw new Problem('bad_request', `Failed to load meta-profile \`${name}\`: it is not valid`)
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
    await this.#document.update((profiles) => {
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
    if ((await this.#document.read()).some((profile) => profile.name === name))
      assertWritable(this.#options.documents, documentName)
    if ((await this.getActiveName()) === name)
      await this.#options.settings.modify((stored) => withMetaProfile(stored, undefined))
    await this.#document.update((profiles) => {
      const others = profiles.filter((profile) => profile.name !== name)
      return others.length === profiles.length ? profiles : others
    })
  }

  /** Problems: `not_found`, and `conflict` when the agent of the settings is another program. */
  async activate(name: string): Promise<void> {
    const profile = await this.getOrThrow(name)
    await this.#options.settings.modify((stored) => withMetaProfile(stored, profile))
  }
}

function parseProfiles(value: unknown): readonly StoredMetaProfile[] {
  if (!Array.isArray(value)) throw new Error('a list of meta-profiles is expected')
  return value.map((item: unknown) => {
    // One without its configuration is damaged alone.
    const isOwn = isRecord(item) && Object.keys(item).every((name) => name === 'name' || name === 'config')
    if (!isOwn) throw new Error('not a meta-profile')
    return { name: profileName.parse(item.name), config: item.config }
  })
}
