import { setImmediate as nextTurn } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import type { Import } from '../../conversations/import-session.ts'
import type { ReceivedEvent } from '../../event-log/event-log.ts'
import type { Parts } from '../event-log/event-log.ts'
import type { Extent } from '../event-log/log-heads.ts'
import { writeSealed } from '../event-log/sealed-state.ts'
import type { Purge } from './purge.ts'

/** Takes the pen, and writes down where the conversation ends, so that a crash leaves nothing behind for good. */
export async function startImport(parts: Parts, purge: Purge, conversation: string): Promise<Import> {
  let hasPen = false
  try {
    return await parts.writer.write(() => {
      parts.pens.take(conversation)
      hasPen = true
      const head = parts.heads.find(conversation)
      let ordinal = head?.ordinal
      return {
        apply: () => {
          ordinal ??= insertHidden(parts, conversation)
          parts.db.run(
            'INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, ?)',
            ordinal,
            head?.head ?? 0,
          )
        },
        done: () =>
          new SqliteImport({ parts, purge, conversation, ordinal: ordinal ?? 0, start: head, isNew: !head }),
      }
    })
  } catch (error) {
    if (hasPen) parts.pens.giveBack(conversation)
    throw error
  }
}

function insertHidden({ db, now }: Parts, conversation: string): number {
  const [ordinal] =
    db.row<[number]>(
      `INSERT INTO conversation (id, tags, status, created_at, updated_at, is_visible)
       VALUES (?, '{}', 'idle', ?, ?, 0) RETURNING ordinal`,
      conversation,
      now(),
      now(),
    ) ?? []
  if (ordinal === undefined) throw new Error('no ordinal was given')
  return ordinal
}

interface Options {
  readonly parts: Parts
  readonly purge: Purge
  readonly conversation: string
  readonly ordinal: number
  /** Where the visible log ends. */
  readonly start: Extent | undefined
  readonly isNew: boolean
}

class SqliteImport implements Import {
  readonly #options: Options
  #extent: Extent
  #lastInstant: number | undefined
  #isOver = false

  constructor(options: Options) {
    const { start, parts, ordinal } = options
    this.#options = options
    this.#extent = start ?? { head: 0, lastInstant: undefined, isInOrder: true }
    this.#lastInstant = parts.events.placeOf(ordinal, this.#extent.head)?.instant
  }

  get next(): number {
    return this.#extent.head + 1
  }

  get lastInstant(): number | undefined {
    return this.#lastInstant
  }

  async add(events: readonly ReceivedEvent[]): Promise<void> {
    const { parts, ordinal } = this.#options
    await parts.writer.write(() => {
      this.#mustBeOpen()
      const { fresh, extent } = parts.events.place(ordinal, this.#extent, events)
      return {
        apply: () => parts.events.insert(ordinal, fresh),
        done: () => {
          this.#extent = extent
          this.#lastInstant = fresh.at(-1)?.event.instant ?? this.#lastInstant
        },
      }
    })
    await nextTurn()
  }

  async publish(change: Parameters<Import['publish']>[0]): Promise<void> {
    const { parts, conversation, ordinal } = this.#options
    await parts.writer.write(() => {
      this.#mustBeOpen()
      return {
        apply: () => this.#write(change),
        done: () => {
          this.#isOver = true
          parts.pens.giveBack(conversation)
          const live = parts.lives.get(ordinal)
          live?.reset()
          live?.bell.ring()
          parts.text.expect(ordinal)
          parts.deliveries.note(conversation)
        },
      }
    })
  }

  async abort(): Promise<void> {
    const { parts, purge, conversation, ordinal, start, isNew } = this.#options
    if (this.#isOver) return
    this.#isOver = true
    if (isNew) purge.later({ ordinal, above: 0 })
    else await purge.now({ ordinal, above: start?.head ?? 0 })
    parts.pens.giveBack(conversation)
  }

  #write({ title, tags, status, stats, request, sealed }: Parameters<Import['publish']>[0]): void {
    const { db, heads, now } = this.#options.parts
    const { conversation, ordinal } = this.#options
    const { head, lastInstant, isInOrder } = this.#extent
    db.run(
      `UPDATE conversation SET is_visible = 1, head = ?, last_instant = ?, in_order = ?,
         updated_at = max(updated_at + 1, ?), status = coalesce(?, status), stats = coalesce(?, stats),
         request = coalesce(?, request) WHERE ordinal = ?`,
      head,
      lastInstant ?? null,
      isInOrder ? 1 : 0,
      now(),
      status ?? null,
      stats ?? null,
      request ?? null,
      ordinal,
    )
    if (title !== undefined) db.run('UPDATE conversation SET title = ? WHERE ordinal = ?', title, ordinal)
    if (tags !== undefined)
      db.run('UPDATE conversation SET tags = ? WHERE ordinal = ?', JSON.stringify(tags), ordinal)
    if (sealed !== undefined) writeSealed(db, ordinal, sealed)
    db.run('DELETE FROM leftover WHERE ordinal = ?', ordinal)
    heads.forget(conversation)
  }

  #mustBeOpen(): void {
    if (this.#isOver) throw new Problem('conflict', 'The import is over')
  }
}
