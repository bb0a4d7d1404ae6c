import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { invalid, type Llm, llm, Problem, type ProfileSummary, profileName } from '@slipway/protocol'
import { type Cipher, codeOf, syncDirectory, writeFileDurably } from '@slipway/storage'
import { openSecrets, sealSecrets } from './profile-secrets.ts'

const schemaVersion = 1
const suffix = '.json'
/** Stands where a list does not look. */
const sealedText = 'sealed'
const summarised = llm.pick({ model: true, base_url: true, api_key: true })

/**
 * Named ways to reach a model, one file each: readable JSON with sealed secrets. Changes are on the disk when their promise
 * resolves, and happen one after another. A name that is none is a Problem `invalid` where something would be written, and
 * unknown elsewhere.
 */
export class Profiles {
  readonly #directory: string
  readonly #cipher: Cipher
  readonly #max: number
  #last: Promise<unknown> = Promise.resolve()

  /** The directory is made with the first profile. */
  constructor(options: { readonly directory: string; readonly cipher: Cipher; readonly max?: number }) {
    this.#directory = options.directory
    this.#cipher = options.cipher
    this.#max = options.max ?? 50
  }

  /** In order of name. No secret is opened; what cannot be read is left out. */
  async list(): Promise<ProfileSummary[]> {
    const summaries = await Promise.all((await this.#names()).map((name) => this.#summary(name)))
    return summaries.filter((summary) => summary !== undefined)
  }

  /** With its secrets. A Problem `bad_request` when the file is damaged or was sealed with another key. */
  async get(name: string): Promise<Llm | undefined> {
    const text = await this.#read(name)
    if (text === undefined) return undefined
    let isOpened = true
    const value = openSecrets(storedIn(text), (sealed) => {
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
    mustBeName(name, 'name')
    await this.#alone(async () => {
      const names = await this.#names()
      if (!names.includes(name) && names.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${names.length} profiles, and no more than ${this.#max} may be`,
        )
      const sealed = sealSecrets(model, (text) => this.#cipher.seal(text).toString('base64'))
      await mkdir(this.#directory, { recursive: true, mode: 0o700 })
      const file = { schema_version: schemaVersion, llm: sealed }
      await writeFileDurably(this.#path(name), `${JSON.stringify(file, null, 2)}\n`)
    })
  }

  /** The active one stays active under its new name. Problems: `not_found`, and `conflict` when the new name is taken. */
  async rename(name: string, newName: string): Promise<void> {
    mustBeName(newName, 'new_name')
    await this.#alone(async () => {
      const names = await this.#names()
      if (!names.includes(name)) throw unknown(name)
      if (name === newName) return
      if (names.includes(newName)) throw new Problem('conflict', `There is a profile ${newName} already`)
      const isActive = (await this.#readActive()) === name
      await rename(this.#path(name), this.#path(newName))
      await syncDirectory(this.#directory)
      if (isActive) await writeFileDurably(this.#activePath(), newName)
    })
  }

  /** False when there was none. An active one leaves none active. */
  async remove(name: string): Promise<boolean> {
    return await this.#alone(async () => {
      if (!(await this.#names()).includes(name)) return false
      if ((await this.#readActive()) === name) await rm(this.#activePath(), { force: true })
      await rm(this.#path(name), { force: true })
      await syncDirectory(this.#directory)
      return true
    })
  }

  /** The name of the active profile, undefined when there is none. */
  async active(): Promise<string | undefined> {
    const name = await this.#readActive()
    return name !== undefined && (await this.#names()).includes(name) ? name : undefined
  }

  /** Answers the profile. Problems: `not_found`, and `bad_request` as with `get`. */
  async activate(name: string): Promise<Llm> {
    return await this.#alone(async () => {
      const model = await this.get(name)
      if (model === undefined) throw unknown(name)
      await writeFileDurably(this.#activePath(), name)
      return model
    })
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }

  async #names(): Promise<string[]> {
    try {
      const files = await readdir(this.#directory)
      const names = files.filter((file) => file.endsWith(suffix)).map((file) => file.slice(0, -suffix.length))
      return names.filter(isName).sort()
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return []
      throw error
    }
  }

  async #summary(name: string): Promise<ProfileSummary | undefined> {
    const value = openSecrets(storedIn((await this.#read(name)) ?? ''), () => sealedText)
    const result = summarised.safeParse(value)
    if (!result.success) return undefined
    const { model, base_url, api_key } = result.data
    return {
      name,
      model,
      base_url: base_url === undefined || base_url === sealedText ? null : base_url,
      provider_connection_id: null,
      provider_connection_broken: false,
      api_key_set: api_key !== undefined,
    }
  }

  async #read(name: string): Promise<string | undefined> {
    return isName(name) ? await readIfThere(this.#path(name)) : undefined
  }

  /** Names do not begin with a dot. */
  #activePath(): string {
    return join(this.#directory, '.active')
  }

  async #readActive(): Promise<string | undefined> {
    return (await readIfThere(this.#activePath()))?.trim()
  }

  #path(name: string): string {
    return join(this.#directory, `${name}${suffix}`)
  }
}

/** What a file keeps of a model, as it stands there; undefined when it is damaged or of a later version. */
function storedIn(text: string): unknown {
  try {
    const file: unknown = JSON.parse(text)
    if (typeof file !== 'object' || file === null) return undefined
    return Reflect.get(file, 'schema_version') === schemaVersion ? Reflect.get(file, 'llm') : undefined
  } catch {
    return undefined
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function isName(name: string): boolean {
  return profileName.safeParse(name).success
}

function mustBeName(name: string, member: string): void {
  if (!isName(name))
    throw invalid(['body', member], 'This is no name of a profile', 'string_pattern_mismatch')
}

function unknown(name: string): Problem {
  return new Problem('not_found', `Profile not found: ${name}`)
}
