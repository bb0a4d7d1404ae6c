import {
  invalidInput,
  isAcpSettings,
  type Llm,
  llm,
  Problem,
  type ProfileSummary,
  profileName,
} from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { Cipher } from '@slipway/storage'
import type { ModelSource } from '../../core/conversations/parts.ts'
import { assertWritable, type ServerDocuments } from '../../core/documents/configured-documents.ts'
import { unreadableDocument } from '../../core/documents/document.ts'
import { type ServerSettings, withAgentLlm } from '../settings/module.ts'
import { openSecrets, sealSecrets } from './profile-secrets.ts'

const schemaVersion = 1
const folder = 'profiles/'
const suffix = '.json'
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

/** What refers to profiles by name. */
export interface ProfileReferences {
  findReferences(name: string): Promise<readonly string[]>
  renameReferences(name: string, newName: string): Promise<void>
}

export interface ProfileLinks {
  /** The connection with this id; undefined when there is none. */
  findConnection?: (id: string) => Promise<ConnectionCredentials | undefined>
  references?: ProfileReferences
}

interface LlmProfilesOptions {
  readonly documents: ServerDocuments
  readonly cipher: Cipher
  readonly max?: number
  /** Also stores which profile is active, so that it changes in one update with the agents' model. */
  readonly settings: Pick<ServerSettings, 'read' | 'modify' | 'assertWritable'>
  /** What other modules know of profiles; they may add it later. */
  readonly links?: ProfileLinks
}

/**
 * Named models, one readable JSON document each with sealed secrets. Changes are durable and serialized. An
 * invalid name is a Problem `invalid` in a write and unknown elsewhere.
 */
export class LlmProfiles implements ModelSource {
  readonly #options: LlmProfilesOptions
  readonly #mutex = new Mutex()

  constructor(options: LlmProfilesOptions) {
    this.#options = options
  }

  /** In order of name, without those that cannot be read. Opens no secret. */
  async list(): Promise<ProfileSummary[]> {
    const summaries = await Promise.all((await this.#listNames()).map((name) => this.#readSummary(name)))
    return summaries.filter((summary) => summary !== undefined)
  }

  /** With secrets in clear. A Problem `bad_request` when it is damaged or sealed with another key. */
  async get(name: string): Promise<Llm | undefined> {
    const bytes = await this.#read(name)
    if (bytes === undefined) return undefined
    let isOpened = true
    const value = openSecrets(parseStoredLlm(bytes), (sealed) => {
      const secret = this.#options.cipher.open(Buffer.from(sealed, 'base64'))
      isOpened &&= secret !== undefined
      return secret === undefined ? undefined : JSON.parse(secret)
    })
    const model = llm.safeParse(value)
    if (!isOpened || !model.success)
      throw new Problem(
        'bad_request',
        `Failed to load profile \`${name}\`: ${unreadableDocument(this.#options.documents, documentName(name), isOpened ? 'form' : 'sealed')}`,
      )
    return model.data
  }

  /**
   * Adds or replaces a profile; a linked one without its own key and URL. A Problem `conflict` above the
   * limit.
   */
  async save(name: string, model: Llm): Promise<void> {
    assertProfileName(name, 'name')
    await this.#mutex.runExclusive(async () => {
      const { cipher, max = 50 } = this.#options
      const names = await this.#listNames()
      if (!names.includes(name) && names.length >= max)
        throw new Problem(
          'conflict',
          `Profile limit reached (${max}). Delete a profile before saving a new one.`,
        )
      const isLinked = typeof model.provider_connection_id === 'string'
      const saved = isLinked ? { ...model, api_key: undefined, base_url: undefined } : model
      const sealed = sealSecrets(saved, (text) => cipher.seal(text).toString('base64'))
      const text = `${JSON.stringify({ schema_version: schemaVersion, llm: sealed }, null, 2)}\n`
      await this.#write(name, Buffer.from(text))
    })
  }

  /** `get` with the key and base URL of its connection; a Problem `invalid` when that is missing. */
  async resolve(name: string): Promise<Llm | undefined> {
    const model = await this.get(name)
    if (model === undefined) return undefined
    const connected = await this.applyConnection(model)
    if (connected === undefined)
      throw new Problem(
        'invalid',
        `Profile '${name}' references provider connection '${firstChars(String(model.provider_connection_id), 100)}', which does not exist. Update the profile or recreate the connection.`,
      )
    return connected
  }

  /** A model with the key and base URL of its connection; undefined when there is no such connection. */
  async applyConnection(model: Llm): Promise<Llm | undefined> {
    const { provider_connection_id: id } = model
    if (typeof id !== 'string') return model
    const connection = await this.#options.links?.findConnection?.(id)
    if (connection === undefined) return undefined
    // A key goes to the address that it was entered for.
    return { ...model, api_key: connection.api_key, base_url: connection.base_url }
  }

  /** Whether a model or its connection has a key. */
  async hasKey(model: Llm): Promise<boolean> {
    return (await this.applyConnection(model))?.api_key !== undefined
  }

  /**
   * Updates references; an active profile stays active. Problems: `not_found`, `conflict` when the name is in
   * use.
   */
  async rename(name: string, newName: string): Promise<void> {
    assertProfileName(newName, 'new_name')
    await this.#mutex.runExclusive(async () => {
      const names = await this.#listNames()
      if (!names.includes(name)) throw profileNotFound(name)
      if (name === newName) return
      assertWritable(this.#options.documents, documentName(name))
      // First, because the settings may be unreadable.
      const isActive = (await this.#readActiveName()) === name
      if (isActive) this.#options.settings.assertWritable()
      // The profile has both names until no reference uses the old one: a crash leaves no dangling reference.
      const bytes = await this.#read(name)
      await this.#options.documents.update('', documentName(newName), (old) => {
        if (old !== undefined) throw new Problem('conflict', `Profile '${newName}' already exists`)
        return bytes
      })
      try {
        await this.#options.links?.references?.renameReferences(name, newName)
      } catch (error) {
        await this.#write(newName, undefined)
        throw error
      }
      if (isActive)
        await this.#options.settings.modify((current) =>
          current.active_profile === name ? { ...current, active_profile: newName } : current,
        )
      await this.#write(name, undefined)
    })
  }

  /** Returns false when there was none. A Problem `conflict` when something refers to the profile. */
  async remove(name: string): Promise<boolean> {
    return await this.#mutex.runExclusive(async () => {
      if (!(await this.#listNames()).includes(name)) return false
      assertWritable(this.#options.documents, documentName(name))
      const users = (await this.#options.links?.references?.findReferences(name)) ?? []
      if (users.length > 0)
        throw new Problem(
          'conflict',
          `LLM profile is referenced by ${users.length} agent profile(s): ${users.join(', ')}`,
        )
      if ((await this.#readActiveName()) === name) await this.#setActive(undefined)
      await this.#write(name, undefined)
      return true
    })
  }

  async getActiveName(): Promise<string | undefined> {
    const name = await this.#readActiveName()
    return name !== undefined && (await this.#listNames()).includes(name) ? name : undefined
  }

  /**
   * Makes a profile the active one, and its model with the key of its connection that of the settings:
   * returns whether they take a model. Problems: `not_found`, and as `resolve`.
   */
  async activate(name: string): Promise<boolean> {
    return await this.#mutex.runExclusive(async () => {
      const model = await this.resolve(name)
      if (model === undefined) throw profileNotFound(name)
      await this.#setActive(name, model)
      return !isAcpSettings((await this.#options.settings.read()).agent_settings)
    })
  }

  /** The name that was activated last; undefined also when the settings cannot be read. */
  async #readActiveName(): Promise<string | undefined> {
    try {
      return (await this.#options.settings.read()).active_profile
    } catch (error) {
      // Profiles can be listed and changed without readable settings.
      if (error instanceof Problem) return undefined
      throw error
    }
  }

  /** The model, if any, becomes that of the settings in the same update. */
  async #setActive(name: string | undefined, model?: Llm): Promise<void> {
    await this.#options.settings.modify((current) => {
      const updated = model === undefined ? current : withAgentLlm(current, model)
      return updated.active_profile === name ? updated : { ...updated, active_profile: name }
    })
  }

  async #listNames(): Promise<string[]> {
    return (await this.#options.documents.list(''))
      .filter((name) => name.startsWith(folder) && name.endsWith(suffix))
      .map((name) => name.slice(folder.length, -suffix.length))
      .filter(isProfileName)
      .sort()
  }

  async #readSummary(name: string): Promise<ProfileSummary | undefined> {
    const value = openSecrets(parseStoredLlm(await this.#read(name)), () => sealedPlaceholder)
    const result = summarySchema.safeParse(value)
    if (!result.success) return undefined
    const { model, base_url, api_key, provider_connection_id } = result.data
    const file = this.#options.documents.fileOf?.(documentName(name))
    const connection =
      provider_connection_id == null
        ? undefined
        : await this.#options.links?.findConnection?.(provider_connection_id)
    return {
      name,
      model,
      base_url: base_url === undefined || base_url === sealedPlaceholder ? null : base_url,
      provider_connection_id: provider_connection_id ?? null,
      provider_connection_broken: provider_connection_id != null && connection === undefined,
      api_key_set: (provider_connection_id == null ? api_key : connection?.api_key) !== undefined,
      ...(file === undefined ? {} : { read_only_file: file }),
    }
  }

  async #read(name: string): Promise<Buffer | undefined> {
    return isProfileName(name) ? await this.#options.documents.get('', documentName(name)) : undefined
  }

  async #write(name: string, bytes: Buffer | undefined): Promise<void> {
    await this.#options.documents.update('', documentName(name), () => bytes)
  }
}

function documentName(profile: string): string {
  return folder + profile + suffix
}

/** The model in a document, secrets sealed; undefined when it is damaged or of a later version. */
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
  return new Problem('not_found', `Profile '${name}' not found`)
}
