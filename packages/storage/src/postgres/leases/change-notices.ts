/**
 * Tells the servers that share a database which conversations have changed.
 *
 * Problem: a reader on one server waits for events that another one stores. Asking the database for each
 * reader is too much, and a NOTIFY in every append would make all commits of the database wait for each
 * other.
 *
 * Idea: notices are hints. One NOTIFY at a time is under way, after the commit, with what has changed since
 * the last one. Whoever hears nothing looks once a second (`change-poll.ts`).
 *
 * Invariants:
 * - A notice is sent in its own transaction after the commit it tells of: a reader that is woken finds
 *   the events.
 * - A lost notice delays readers by a second and loses nothing: failures to send are not repeated.
 * - A notice without ids says that it is unknown which conversations have changed, as after the connection to
 *   listen was made again (`onChanged(undefined)`).
 * - A server ignores its own notices (`#sender`).
 * - Listening needs PostgreSQL itself: behind a pooler in transaction mode nothing is heard, and the polls
 *   remain.
 *
 * If you change this: slower readers. Nothing that is stored depends on notices.
 *
 * Decision page: docs/decisions/0028-conversation-leases.md
 */

import { hash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import pg from 'pg'
import { connectionOptions, type PostgresDatabase } from '../database/database.ts'

/** A payload has at most 8,000 bytes. */
const maxIdsPerNotice = 200
const firstRetryMs = 200
const maxRetryMs = 5_000

interface ChangeNoticesOptions {
  readonly db: PostgresDatabase
  /** Leads to PostgreSQL itself: behind a pooler in transaction mode nothing is heard. */
  readonly url: string
  readonly log: LogFunction
  /** Conversations that another server has changed; undefined when it is unknown which. */
  readonly onChanged: (conversations: readonly string[] | undefined) => void
}

/** Tells other servers which conversations have changed, and hears of their changes. */
export class ChangeNotices implements AsyncDisposable {
  readonly #options: ChangeNoticesOptions
  readonly #channel: string
  readonly #closing = new AbortController()
  readonly #waiting = new Set<string>()
  /** Tells the notices of this server from others. */
  readonly #sender: string
  #sending: Promise<void> | undefined
  #client: pg.Client | undefined
  #listening: Promise<void>

  private constructor(options: ChangeNoticesOptions, schema: string, sender: string) {
    this.#options = options
    this.#channel = `slipway_${hash('sha256', schema).slice(0, 32)}`
    this.#sender = sender
    this.#listening = this.#listen()
  }

  static async open(options: ChangeNoticesOptions, sender: string): Promise<ChangeNotices> {
    const [row] = await options.db.query<[string]>('SELECT current_schema()')
    return new ChangeNotices(options, row?.[0] ?? '', sender)
  }

  notify(conversations: readonly string[]): void {
    for (const id of conversations) this.#waiting.add(id)
    this.#sending ??= this.#send()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#client?.end().catch(() => {})
    await this.#listening
    await this.#sending
  }

  async #send(): Promise<void> {
    while (this.#waiting.size > 0 && !this.#closing.signal.aborted) {
      const ids = [...this.#waiting]
      this.#waiting.clear()
      const payload = [this.#sender, ...(ids.length > maxIdsPerNotice ? [] : ids)].join(' ')
      await this.#options.db.query('SELECT pg_notify($1, $2)', [this.#channel, payload]).catch(() => {})
    }
    this.#sending = undefined
  }

  async #listen(): Promise<void> {
    const { url, log, onChanged } = this.#options
    const { signal } = this.#closing
    for (let delayMs = firstRetryMs; !signal.aborted; delayMs = Math.min(maxRetryMs, delayMs * 2)) {
      const client = new pg.Client(connectionOptions(url))
      try {
        const ended = new Promise<void>((resolve) => {
          client.once('error', () => resolve())
          client.once('end', resolve)
        })
        client.on('error', () => {})
        client.on('notification', ({ payload }) => this.#receive(payload ?? ''))
        await client.connect()
        this.#client = client
        await client.query(`LISTEN ${this.#channel}`)
        delayMs = firstRetryMs
        onChanged(undefined)
        if (!signal.aborted) await ended
      } catch (error) {
        log('debug', 'changes of other servers are not heard', { error: String(error) })
      }
      this.#client = undefined
      await client.end().catch(() => {})
      await pause(delayMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  #receive(payload: string): void {
    const [sender, ...ids] = payload.split(' ')
    if (sender !== this.#sender) this.#options.onChanged(ids.length === 0 ? undefined : ids)
  }
}
