import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  invalidInput,
  type Llm,
  llm,
  must,
  Problem,
  type ProfileSummary,
  profileName,
  rethrowDiskFull,
} from '@slipway/protocol'
import { errorCode, syncDirectory, writeFileAtomic } from '@slipway/shared/fs'
import type { Cipher } from '@slipway/storage'
import { openSecrets, sealSecrets } from './profile-secrets.ts'

const schemaVersion = 1
const fileSuffix = '.json'
/** Stands where a list does not look. */
const sealedPlaceholder = 'sealed'
const summarySchema = llm
  .pick({ model: true, base_url: true, api_key: true })
  .extend({ provider_connection_id: llm.shape.model.nullish().catch(undefined) })

/** What a connection to a provider brings into a model that names it. */
export interface ConnectionCredentials {
  readonly api_key: string
  readonly base_url?: string | undefined
}

/** Keeps which profile is the active one. */
export interface ActiveProfileStore {
  /** The name of the one that was activated last; undefined also when that cannot be read. */
  getName(): Promise<string | undefined>
  /** The model, when given, becomes that of the settings in the same step; no name: none is active. */
  activate(name: string | undefined, model?: Llm): Promise<void>
  /** What was active by its old name is active by its new one. */
  rename(name: string, newName: string): Promise<void>
}

/** Others that name profiles. */
export interface ProfileReferences {
  /** The names of those who do. */
  findReferences(name: string): Promise<readonly string[]>
  renameReferences(name: string, newName: string): Promise<void>
}

interface LlmProfilesOptions {
  readonly directory: string
  readonly cipher: Cipher
  readonly max?: number
  /** Keeps which one is active; without it that is forgotten with the process. */
  readonly active?: ActiveProfileStore
  /** The connection of an id; undefined when there is none. */
  readonly findConnection?: (id: string) => Promise<ConnectionCredentials | undefined>
  readonly references?: ProfileReferences
}

/**
 * Named ways to reach a model, one file each: readable JSON with sealed secrets. Changes are on the disk when their promise
 * resolves, and happen one after another. A name that is none is a Problem `invalid` where something would be written, and
 * unknown elsewhere.
 */
export class LlmProfiles {
  readonly #directory: string
  readonly #cipher: Cipher
  readonly #max: number
  readonly #activeProfile: ActiveProfileStore
  readonly #findConnection: (id: string) => Promise<ConnectionCredentials | undefined>
  readonly #references: ProfileReferences | undefined
  #queue: Promise<unknown> = Promise.resolve()

  /** The directory is made with the first profile. */
  constructor(options: LlmProfilesOptions) {
    this.#directory = options.directory
    this.#cipher = options.cipher
    this.#max = options.max ?? 50
    this.#activeProfile = options.active ?? new InMemoryActiveProfile()
    this.#findConnection = options.findConnection ?? (async () => undefined)
    this.#references = options.references
  }

  /** In order of name. No secret is opened; what cannot be read is left out. */
  async list(): Promise<ProfileSummary[]> {
    const summaries = await Promise.all((await this.#listNames()).map((name) => this.#readSummary(name)))
    return summaries.filter((summary) => summary !== undefined)
  }

  /** With its secrets. A Problem `bad_request` when the file is damaged or was sealed with another key. */
  async get(name: string): Promise<Llm | undefined> {
    const text = await this.#readFile(name)
    if (text === undefined) return undefined
    let isOpened = true
    const value = openSecrets(parseStoredLlm(text), (sealed) => {
      const secret = this.#cipher.open(Buffer.from(sealed, 'base64'))
      isOpened &&= secret !== undefined
      return secret === undefined ? undefined : JSON.parse(secret)
    })
    const model = llm.safeParse(value)
    if (!isOpened || !model.success) throw new Problem('bad_request', `The profile ${name} cannot be read`)
    return model.data
  }

  /** A Problem `conflict` when it is one too many. */
  async save(name: string, model: Llm): Promise<void> {
    assertProfileName(name, 'name')
    await this.#runExclusive(async () => {
      const names = await this.#listNames()
      if (!names.includes(name) && names.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${names.length} profiles, and no more than ${this.#max} may be`,
        )
      const sealed = sealSecrets(model, (text) => this.#cipher.seal(text).toString('base64'))
      await mkdir(this.#directory, { recursive: true, mode: 0o700 })
      const file = { schema_version: schemaVersion, llm: sealed }
      await writeFileAtomic(this.#path(name), `${JSON.stringify(file, null, 2)}\n`).catch(rethrowDiskFull)
    })
  }

  /**
   * The same, ready to be asked: with the key and the address of the connection that it names. A Problem `bad_request` besides when
   * there is no such connection.
   */
  async resolve(name: string): Promise<Llm | undefined> {
    const model = await this.get(name)
    if (model === undefined) return undefined
    const connected = await this.applyConnection(model)
    if (connected === undefined)
      throw new Problem('bad_request', `The provider connection of the profile ${name} is gone`)
    return connected
  }

  /** A model with what the connection that it names brings; undefined when there is no such connection. */
  async applyConnection(model: Llm): Promise<Llm | undefined> {
    const { provider_connection_id: id } = model
    if (typeof id !== 'string') return model
    const connection = await this.#findConnection(id)
    if (connection === undefined) return undefined
    const { base_url = connection.base_url } = model
    return { ...model, api_key: connection.api_key, base_url }
  }

  /** Whether a model has a key, be it that of its connection. */
  async hasKey(model: Llm): Promise<boolean> {
    return (await this.applyConnection(model))?.api_key !== undefined
  }

  /**
   * What refers to it does so by its new name, and the active one stays active. Problems: `not_found`, and `conflict` when the new
   * name is taken.
   */
  async rename(name: string, newName: string): Promise<void> {
    assertProfileName(newName, 'new_name')
    await this.#runExclusive(async () => {
      const names = await this.#listNames()
      if (!names.includes(name)) throw profileNotFound(name)
      if (name === newName) return
      if (names.includes(newName)) throw new Problem('conflict', `There is a profile ${newName} already`)
      // Asked before anything is done, because the settings may not be readable.
      const isActive = (await this.#activeProfile.getName()) === name
      // It has both names until nobody uses the old one: what ends on the way leaves no reference to nothing.
      const text = must(await this.#readFile(name), 'a listed profile')
      await writeFileAtomic(this.#path(newName), text).catch(rethrowDiskFull)
      try {
        await this.#references?.renameReferences(name, newName)
      } catch (error) {
        await rm(this.#path(newName), { force: true })
        throw error
      }
      if (isActive) await this.#activeProfile.rename(name, newName)
      await rm(this.#path(name), { force: true })
      await syncDirectory(this.#directory)
    })
  }

  /** False when there was none. An active one leaves none active. A Problem `conflict` when something refers to it. */
  async remove(name: string): Promise<boolean> {
    return await this.#runExclusive(async () => {
      if (!(await this.#listNames()).includes(name)) return false
      const [referencing] = (await this.#references?.findReferences(name)) ?? []
      if (referencing !== undefined)
        throw new Problem('conflict', `The agent profile ${referencing} uses the profile ${name}`)
      if ((await this.#activeProfile.getName()) === name) await this.#activeProfile.activate(undefined)
      await rm(this.#path(name), { force: true })
      await syncDirectory(this.#directory)
      return true
    })
  }

  /** The name of the active profile, undefined when there is none. */
  async getActiveName(): Promise<string | undefined> {
    const name = await this.#activeProfile.getName()
    return name !== undefined && (await this.#listNames()).includes(name) ? name : undefined
  }

  /** Its model becomes that of the settings. Answers the profile. Problems: `not_found`, and `bad_request` as with `get`. */
  async activate(name: string): Promise<Llm> {
    return await this.#runExclusive(async () => {
      const model = await this.get(name)
      if (model === undefined) throw profileNotFound(name)
      await this.#activeProfile.activate(name, model)
      return model
    })
  }

  #runExclusive<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(task)
    this.#queue = result.catch(() => {})
    return result
  }

  async #listNames(): Promise<string[]> {
    try {
      const files = await readdir(this.#directory)
      const names = files
        .filter((file) => file.endsWith(fileSuffix))
        .map((file) => file.slice(0, -fileSuffix.length))
      return names.filter(isProfileName).sort()
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    }
  }

  async #readSummary(name: string): Promise<ProfileSummary | undefined> {
    const value = openSecrets(parseStoredLlm((await this.#readFile(name)) ?? ''), () => sealedPlaceholder)
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

  async #readFile(name: string): Promise<string | undefined> {
    return isProfileName(name) ? await readFileIfExists(this.#path(name)) : undefined
  }

  #path(name: string): string {
    return join(this.#directory, `${name}${fileSuffix}`)
  }
}

/** Keeps which profile is active for as long as the process lives. */
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

/** What a file keeps of a model, as it stands there; undefined when it is damaged or of a later version. */
function parseStoredLlm(text: string): unknown {
  try {
    const file: unknown = JSON.parse(text)
    if (typeof file !== 'object' || file === null) return undefined
    return Reflect.get(file, 'schema_version') === schemaVersion ? Reflect.get(file, 'llm') : undefined
  } catch {
    return undefined
  }
}

async function readFileIfExists(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
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
