import { mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Problem, rethrowDiskFull } from '@slipway/protocol'
import { errorCode, writeFileAtomic } from '@slipway/shared/fs'
import type { Cipher } from '@slipway/storage'

interface JsonFileOptions<T> {
  readonly path: string
  /** What the file stands for while it is not there. */
  readonly empty: T
  /** Reads what was written; throws when it is not that. */
  readonly parse: (value: unknown) => T
  /** Seals the whole of it; without one it is readable JSON. */
  readonly cipher?: Cipher
}

/**
 * One JSON file of the server, small enough to be held in memory: read once, changed by one after another, and durable when the
 * promise of a change resolves. The caller is the only process that uses it, and never changes a value that it was given. A file
 * that is damaged, or was sealed with another key, is a Problem `conflict` and is never written over.
 */
export class JsonFile<T> {
  readonly #options: JsonFileOptions<T>
  #value: Promise<T> | undefined
  #queue: Promise<unknown> = Promise.resolve()

  /** Its directory is made with the first change. */
  constructor(options: JsonFileOptions<T>) {
    this.#options = options
  }

  async read(): Promise<T> {
    this.#value ??= this.#load()
    try {
      return await this.#value
    } catch (error) {
      this.#value = undefined
      throw error
    }
  }

  /** Writes what `work` makes of the value as it is when nobody else is changing it, and answers it. The same value is not written. */
  async update(transform: (value: T) => T | Promise<T>): Promise<T> {
    const result = this.#queue.then(async () => {
      const before = await this.read()
      const after = await transform(before)
      if (after !== before) await this.#save(after)
      return after
    })
    this.#queue = result.catch(() => {})
    return await result
  }

  async #load(): Promise<T> {
    const { path, empty, parse } = this.#options
    let text: string
    try {
      text = await readFile(path, 'utf8')
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return empty
      throw error
    }
    try {
      return parse(JSON.parse(this.#unseal(text)))
    } catch {
      throw new Problem('conflict', 'What is stored here is damaged or was sealed with another key.')
    }
  }

  #unseal(text: string): string {
    const { cipher } = this.#options
    if (cipher === undefined) return text
    const opened = cipher.open(Buffer.from(text.trim(), 'base64'))
    if (opened === undefined) throw new Error('it was sealed with another key')
    return opened
  }

  async #save(value: T): Promise<void> {
    const { path, cipher } = this.#options
    const text = JSON.stringify(value, null, 2)
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const sealed = cipher === undefined ? text : cipher.seal(text).toString('base64')
    await writeFileAtomic(path, `${sealed}\n`).catch(rethrowDiskFull)
    this.#value = Promise.resolve(value)
  }
}
