import type { Connection } from './connection.ts'

/** A second connection, which reads what there was before a commit until that is durable. */
export class SnapshotReader {
  readonly #open: () => Connection
  #connection: Connection | undefined
  #isHeld = false

  constructor(open: () => Connection) {
    this.#open = open
  }

  /** From now on it stays at what there is now. */
  hold(): void {
    this.#connection ??= this.#open()
    // The first read takes the snapshot.
    this.#connection.db.exec('BEGIN; PRAGMA user_version')
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    try {
      if (this.#connection?.db.isTransaction) this.#connection.db.exec('END')
    } catch {
      this.close()
    }
  }

  /** The connection while it is held. */
  get held(): Connection | undefined {
    return this.#isHeld ? this.#connection : undefined
  }

  releaseMemory(): void {
    this.#connection?.db.exec('PRAGMA shrink_memory')
  }

  close(): void {
    this.#isHeld = false
    const connection = this.#connection
    this.#connection = undefined
    connection?.db.close()
  }
}
