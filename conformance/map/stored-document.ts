import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect } from 'vitest'
import type { OwnMapServer } from './map-server.ts'

/** A document in the log database of a server, as a crash, a disk or a person may change it. */
export class StoredDocument {
  readonly #path: string
  readonly #name: string

  constructor(server: Pick<OwnMapServer, 'data'>, name: string) {
    this.#path = join(server.data, 'log.db')
    this.#name = name
  }

  /** Each byte a character. */
  async read(): Promise<string> {
    return this.#read().toString('latin1')
  }

  async write(text: string): Promise<void> {
    using db = this.open()
    db.prepare("UPDATE document SET sealed = ? WHERE user = '' AND name = ?").run(
      Buffer.from(text, 'latin1'),
      this.#name,
    )
  }

  async readJson<T>(): Promise<T> {
    return JSON.parse(this.#read().toString())
  }

  /** Another one after each commit of the database. */
  async stamp(): Promise<string> {
    const { mtimeNs, size } = await stat(`${this.#path}-wal`, { bigint: true })
    return [mtimeNs, size].join(' ')
  }

  /** The database, which the server uses meanwhile. */
  open(): DatabaseSync {
    return new DatabaseSync(this.#path, { timeout: 5_000 })
  }

  #read(): Buffer {
    using db = this.open()
    const row = db.prepare("SELECT sealed FROM document WHERE user = '' AND name = ?").get(this.#name)
    return Buffer.from(row?.sealed as Uint8Array)
  }

  /** Runs the requests while the document is as given, which they must not change, and puts it back. */
  async whileDamaged(text: string, requests: () => Promise<void>): Promise<void> {
    const before = await this.read()
    await this.write(text)
    try {
      await requests()
      expect(await this.read()).toBe(text)
    } finally {
      await this.write(before)
    }
  }
}

/** A text of the same length with one other character. */
export function withChangedCharacter(text: string): string {
  const at = Math.floor(text.length / 2)
  return `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`
}
