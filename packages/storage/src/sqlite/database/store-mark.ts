import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { errorCode } from '@slipway/shared/fs'
import { textChecksum } from '../../event-log/text-checksum.ts'
import type { Database } from './database.ts'

/** Files up to this size are examined whole when they are opened, their indexes too. */
const maxExaminedBytes = 32 * 1024 * 1024

/**
 * A small file beside a database, `NAME.mark`, that has the id of it: a database that was deleted or emptied
 * would be created again, and one that was exchanged would be taken for it, without a word. Without the mark
 * the database counts.
 */
export class StoreMark {
  readonly #path: string
  readonly #markPath: string

  constructor(path: string) {
    this.#path = path
    this.#markPath = path.replace(/\.db$/, '.mark')
  }

  /** Before the database is opened. Throws an Error with the next step when it is missing or empty. */
  assertIsThere(): void {
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size
    if (size || this.#read() === undefined) return
    throw this.#failure(`is ${size === undefined ? 'missing' : 'empty'}, but ${this.#markPath} is there`)
  }

  /**
   * After it was opened: throws an Error with the next step when it is damaged, or another one than the mark
   * has; `readId` makes it durable, and gets the id of the mark. Writes a mark that is missing or damaged.
   * Returns the id.
   */
  confirm(db: Database, readId: (known: string | undefined) => string): string {
    const problem = this.#findDamage(db)
    if (problem !== undefined) throw this.#failure(`is damaged: ${problem}`)
    const known = this.#read()
    const id = readId(known)
    if (known !== undefined && known !== id)
      throw this.#failure(
        `is another one than ${this.#markPath} belongs to`,
        `use this one: move ${this.#markPath} away`,
      )
    if (known === undefined) this.#write(id)
    return id
  }

  /** Before the database gets another id: the next start writes the mark. */
  remove(): void {
    rmSync(this.#markPath, { force: true })
  }

  #findDamage(db: Database): string | undefined {
    const bytes = Number(db.pragma('page_count')) * Number(db.pragma('page_size'))
    if (bytes > maxExaminedBytes) return undefined
    try {
      const line = String(db.pragma('integrity_check(1)'))
      return line === 'ok' ? undefined : line
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  /** Undefined where there is none, or one that is not what was written. */
  #read(): string | undefined {
    try {
      const [id = '', sum] = readFileSync(this.#markPath, 'utf8').trimEnd().split(' ')
      return sum === textChecksum(id) ? id : undefined
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** While the disk is full, the next start writes it. */
  #write(id: string): void {
    const draft = `${this.#markPath}.draft`
    try {
      writeFileSync(draft, `${id} ${textChecksum(id)}\n`, { mode: 0o600 })
      renameSync(draft, this.#markPath)
    } catch {
      // Without it the database counts.
    }
  }

  #failure(
    what: string,
    otherwise = `continue with what is there: move it and ${this.#markPath} away`,
  ): Error {
    return new Error(`${this.#path} ${what}. Restore it from a backup, or ${otherwise} while no server runs.`)
  }
}
