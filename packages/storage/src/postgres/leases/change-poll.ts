import { setTimeout as pause } from 'node:timers/promises'
import type { PostgresDatabase } from '../database/database.ts'

const pollMs = 1_000
/** Clocks of servers differ, and a transaction commits later than its time says. */
const overlapMicros = 60_000_000
const maxRows = 10_000

type Row = readonly [id: string, ordinal: number, updatedAt: number]

const headsSql = 'SELECT ordinal, head FROM conversation WHERE ordinal = ANY($1::bigint[]) AND is_visible'
const changedSql = `SELECT id, ordinal, updated_at FROM conversation WHERE is_visible AND updated_at > $1
  ORDER BY updated_at DESC LIMIT ${maxRows}`
const newestSql = 'SELECT coalesce(max(updated_at), 0)::bigint FROM conversation WHERE is_visible'

interface ChangePollOptions {
  readonly db: PostgresDatabase
  /** Ordinals of conversations that have readers here. */
  readonly listFollowed: () => readonly number[]
  /** A conversation that has readers has another head, or is gone. */
  readonly onFollowedChanged: (ordinal: number) => void
  readonly onChanged: (conversation: string) => void
}

/** Looks once a second for what other servers have changed: what a notice has said is found again. */
export class ChangePoll implements AsyncDisposable {
  readonly #options: ChangePollOptions
  readonly #closing = new AbortController()
  #heads = new Map<number, number | undefined>()
  /** `updated_at` of the changes that have been reported, by ordinal. */
  #reported = new Map<number, number>()
  #sinceMicros: number | undefined
  readonly #loop: Promise<void>

  constructor(options: ChangePollOptions) {
    this.#options = options
    this.#loop = this.#run()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#loop
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    for (;;) {
      await pause(pollMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      // While the database is away there is nothing to see.
      await this.#poll().catch(() => {})
    }
  }

  async #poll(): Promise<void> {
    const { db, listFollowed, onFollowedChanged, onChanged } = this.#options
    const followed = listFollowed()
    if (followed.length > 0) {
      const rows = new Map(await db.query<[number, number]>(headsSql, [followed]))
      const heads = new Map(followed.map((ordinal) => [ordinal, rows.get(ordinal)]))
      for (const [ordinal, head] of heads)
        if (!this.#heads.has(ordinal) || this.#heads.get(ordinal) !== head) onFollowedChanged(ordinal)
      this.#heads = heads
    }
    this.#sinceMicros ??= ((await db.query<[number]>(newestSql))[0]?.[0] ?? 0) - overlapMicros
    const changed = await db.query<Row>(changedSql, [this.#sinceMicros])
    for (const [id, ordinal, updatedAt] of changed)
      if (this.#reported.get(ordinal) !== updatedAt) onChanged(id)
    this.#reported = new Map(changed.map(([, ordinal, updatedAt]) => [ordinal, updatedAt]))
    const newest = changed[0]?.[2]
    if (newest !== undefined) this.#sinceMicros = Math.max(this.#sinceMicros, newest - overlapMicros)
  }
}
