import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'

/** The least that a claim takes: one request of a ready agent server, and one row that is written durably. */
export class RecordedClaim implements Disposable {
  readonly #url: string
  readonly #key: string
  readonly #database: DatabaseSync
  readonly #insert: StatementSync

  /** `key`: of the agent server at `url`. */
  constructor(directory: string, url: string, key: string) {
    this.#url = url
    this.#key = key
    this.#database = new DatabaseSync(join(directory, 'claims.db'))
    this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE claim (at REAL)')
    this.#insert = this.#database.prepare('INSERT INTO claim VALUES (?)')
  }

  async run(): Promise<void> {
    const response = await fetch(`${this.#url}/api/conversations/count`, {
      headers: { 'x-session-api-key': this.#key },
    })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`the agent server answers ${response.status}`)
    this.#insert.run(performance.now())
  }

  [Symbol.dispose](): void {
    this.#database.close()
  }
}
