import { invalidInput, type Llm, llm, Problem, type ProfileSummary, profileName } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { type Cipher, FileDocumentStore } from '@slipway/storage'
import { openSecrets, sealSecrets } from './profile-secrets.ts'

const schemaVersion = 1
const fileSuffix = '.json'
/** Replaces sealed members, which a list does not show. */
const sealedPlaceholder = 'sealed'
const summarySchema = llm
  .pick({ model: true, base_url: true, api_key: true })
  .extend({ provider_connection_id: llm.shape.model.nullish().catch(undefined) })

/** What a provider connection adds to a model that names it. */
export interface ConnectionCredentials {
  readonly api_key: string
  readonly base_url?: string | undefined
}

/** Stores which profile is active. */
export interface ActiveProfileStore {
  /** The name that was activated last; undefined also when that cannot be read. */
  getName(): Promise<string | undefined>
  /** The model, if any, becomes that of the settings in the same update. Without a name, no profile is active. */
  activate(name: string | undefined, model?: Llm): Promise<void>
  /** Replaces the name if it is the active one. */
  rename(name: string, newName: string): Promise<void>
}

/** What refers to profiles by name. */
export interface ProfileReferences {
  /** The names of what refers to the profile. */
  findReferences(name: string): Promise<readonly string[]>
  renameReferences(name: string, newName: string): Promise<void>
}

interface LlmProfilesOptions {
  readonly directory: string
  readonly cipher: Cipher
  readonly max?: number
  /** By default in memory only. */
  readonly active?: ActiveProfileStore
  /** The connection with this id; undefined when there is none. */
  readonly findConnection?: (id: string) => Promise<ConnectionCredentials | undefined>
  readonly references?: ProfileReferences
}

/**
 * Named models, one file each: readable JSON with sealed secrets. Changes are durable and run one after another. An invalid name is a
 * Problem `invalid` in a write and unknown elsewhere.
 */
export class LlmProfiles {
  readonly #files: FileDocumentStore
  readonly #cipher: Cipher
  readonly #max: number
  readonly #activeProfile: ActiveProfileStore
  readonly #findConnection: (id: string) => Promise<ConnectionCredentials | undefined>
  readonly #references: ProfileReferences | undefined
  readonly #mutex = new Mutex()

  constructor(options: LlmProfilesOptions) {
    this.#files = new FileDocumentStore({ directory: options.directory, encoding: 'utf8' })
    this.#cipher = options.cipher
    this.#max = options.max ?? 50
    this.#activeProfile = options.active ?? new InMemoryActiveProfile()
    this.#findConnection = options.findConnection ?? (async () => undefined)
    this.#references = options.references
  }

  /** In order of name, without those that cannot be read. Opens no secret. */
  async list(): Promise<ProfileSummary[]> {
    const summaries = await Promise.all((await this.#listNames()).map((name) => this.#readSummary(name)))
    return summaries.filter((summary) => summary !== undefined)
  }

  /** With secrets in clear. A Problem `bad_request` when the file is damaged or sealed with another key. */
  async get(name: string): Promise<Llm | undefined> {
    const bytes = await this.#readFile(name)
    if (bytes === undefined) return undefined
    let isOpened = true
    const value = openSecrets(parseStoredLlm(bytes), (sealed) => {
      const secret = this.#cipher.open(Buffer.from(sealed, 'base64'))
      isOpened &&= secret !== undefined
      return secret === undefined ? undefined : JSON.parse(secret)
    })
    const model = llm.safeParse(value)
    if (!isOpened || !model.success) throw new Problem('bad_request', `The profile ${name} cannot be read`)
    return model.data
  }

  /** Adds or replaces a profile. A Problem `conflict` above the limit. */
  async save(name: string, model: Llm): Promise<void> {
    assertProfileName(name, 'name')
    await this.#mutex.runExclusive(async () => {
      const names = await this.#listNames()
      if (!names.includes(name) && names.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${names.length} profiles, and no more than ${this.#max} may be`,
        )
      const sealed = sealSecrets(model, (text) => this.#cipher.seal(text).toString('base64'))
      const text = `${JSON.stringify({ schema_version: schemaVersion, llm: sealed }, null, 2)}\n`
      await this.#writeFile(name, Buffer.from(text))
    })
  }

  /**
   * `get` with the key and base URL of the connection that the profile names. A Problem `bad_request` also when there is no such
   * connection.
   */
  async resolve(name: string): Promise<Llm | undefined> {
    const model = await this.get(name)
    if (model === undefined) return undefined
    const connected = await this.applyConnection(model)
    if (connected === undefined)
      throw new Problem('bad_request', `The provider connection of the profile ${name} is gone`)
    return connected
  }

  /** A model with the key and base URL of its connection; undefined when there is no such connection. */
  async applyConnection(model: Llm): Promise<Llm | undefined> {
    const { provider_connection_id: id } = model
    if (typeof id !== 'string') return model
    const connection = await this.#findConnection(id)
    if (connection === undefined) return undefined
    const { base_url = connection.base_url } = model
    return { ...model, api_key: connection.api_key, base_url }
  }

  /** Whether a model or its connection has a key. */
  async hasKey(model: Llm): Promise<boolean> {
    return (await this.applyConnection(model))?.api_key !== undefined
  }

  /**
   * References are updated, and an active profile stays active. Problems: `not_found`, and `conflict` when the new name is in use.
   */
  async rename(name: string, newName: string): Promise<void> {
    assertProfileName(newName, 'new_name')
    await this.#mutex.runExclusive(async () => {
      const names = await this.#listNames()
      if (!names.includes(name)) throw profileNotFound(name)
      if (name === newName) return
      if (names.includes(newName)) throw new Problem('conflict', `There is a profile ${newName} already`)
      // First, because the settings may be unreadable.
      const isActive = (await this.#activeProfile.getName()) === name
      // The profile has both names until no reference uses the old one: a crash leaves no dangling reference.
      await this.#writeFile(newName, await this.#readFile(name))
      try {
        await this.#references?.renameReferences(name, newName)
      } catch (error) {
        await this.#writeFile(newName, undefined)
        throw error
      }
      if (isActive) await this.#activeProfile.rename(name, newName)
      await this.#writeFile(name, undefined)
    })
  }

  /** Returns false when there was none. A Problem `conflict` when something refers to the profile. */
  async remove(name: string): Promise<boolean> {
    return await this.#mutex.runExclusive(async () => {
      if (!(await this.#listNames()).includes(name)) return false
      const [referencing] = (await this.#references?.findReferences(name)) ?? []
      if (referencing !== undefined)
        throw new Problem('conflict', `The agent profile ${referencing} uses the profile ${name}`)
      if ((await this.#activeProfile.getName()) === name) await this.#activeProfile.activate(undefined)
      await this.#writeFile(name, undefined)
      return true
    })
  }

  async getActiveName(): Promise<string | undefined> {
    const name = await this.#activeProfile.getName()
    return name !== undefined && (await this.#listNames()).includes(name) ? name : undefined
  }

  /** Makes its model that of the settings and returns it. Problems: `not_found`, and `bad_request` as `get`. */
  async activate(name: string): Promise<Llm> {
    return await this.#mutex.runExclusive(async () => {
      const model = await this.get(name)
      if (model === undefined) throw profileNotFound(name)
      await this.#activeProfile.activate(name, model)
      return model
    })
  }

  async #listNames(): Promise<string[]> {
    const files = (await this.#files.list('')).filter((file) => file.endsWith(fileSuffix))
    return files
      .map((file) => file.slice(0, -fileSuffix.length))
      .filter(isProfileName)
      .sort()
  }

  async #readSummary(name: string): Promise<ProfileSummary | undefined> {
    const value = openSecrets(parseStoredLlm(await this.#readFile(name)), () => sealedPlaceholder)
    const result = summarySchema.safeParse(value)
    if (!result.success) return undefined
    const { model, base_url, api_key, provider_connection_id } = result.data
    const connection =
      provider_connection_id == null ? undefined : await this.#findConnection(provider_connection_id)
    return {
      name,
      model,
      base_url: base_url === undefined || base_url === sealedPlaceholder ? null : base_url,
      provider_connection_id: provider_connection_id ?? null,
      provider_connection_broken: provider_connection_id != null && connection === undefined,
      api_key_set: (api_key ?? connection?.api_key) !== undefined,
    }
  }

  async #readFile(name: string): Promise<Buffer | undefined> {
    return isProfileName(name) ? await this.#files.get('', name + fileSuffix) : undefined
  }

  async #writeFile(name: string, bytes: Buffer | undefined): Promise<void> {
    await this.#files.update('', name + fileSuffix, () => bytes)
  }
}

class InMemoryActiveProfile implements ActiveProfileStore {
  #name: string | undefined

  async getName(): Promise<string | undefined> {
    return this.#name
  }

  async activate(name: string | undefined): Promise<void> {
    this.#name = name
  }

  async rename(name: string, newName: string): Promise<void> {
    if (this.#name === name) this.#name = newName
  }
}

/** The model in a file, secrets sealed; undefined when the file is damaged or of a later version. */
function parseStoredLlm(bytes: Buffer | undefined): unknown {
  const file = parseJson(String(bytes))
  return isRecord(file) && file.schema_version === schemaVersion ? file.llm : undefined
}

function isProfileName(name: string): boolean {
  return profileName.safeParse(name).success
}

function assertProfileName(name: string, member: string): void {
  if (!isProfileName(name))
    throw invalidInput(['body', member], 'This is no name of a profile', 'string_pattern_mismatch')
}

function profileNotFound(name: string): Problem {
  return new Problem('not_found', `Profile not found: ${name}`)
}
