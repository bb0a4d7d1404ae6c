import { setImmediate as nextTurn } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import type { ImportSession } from '../../conversations/import-session.ts'
import type { ReceivedEvent } from '../../event-log/event-log.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import type { Extent } from '../event-log/log-heads.ts'
import { writeSealed } from '../event-log/sealed-state.ts'
import type { Purge } from './purge.ts'

/** Takes the pen, and writes down where the conversation ends, so that a crash leaves nothing behind for good. */
export async function startImport(
  context: StorageContext,
  purge: Purge,
  conversation: string,
): Promise<ImportSession> {
  let isLocked = false
  try {
    return await context.writer.write(() => {
      context.importLocks.acquire(conversation)
      isLocked = true
      const head = context.heads.find(conversation)
      let ordinal = head?.ordinal
      return {
        apply: () => {
          ordinal ??= insertInvisible(context, conversation)
          context.db.run(
            'INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, ?)',
            ordinal,
            head?.head ?? 0,
          )
        },
        done: () =>
          new SqliteImportSession({
            context,
            purge,
            conversation,
            ordinal: ordinal ?? 0,
            start: head,
            isNew: !head,
          }),
      }
    })
  } catch (error) {
    if (isLocked) context.importLocks.release(conversation)
    throw error
  }
}

function insertInvisible({ db, now }: StorageContext, conversation: string): number {
  const [ordinal] =
    db.get<[number]>(
      `INSERT INTO conversation (id, tags, status, created_at, updated_at, is_visible)
       VALUES (?, '{}', 'idle', ?, ?, 0) RETURNING ordinal`,
      conversation,
      now(),
      now(),
    ) ?? []
  if (ordinal === undefined) throw new Error('no ordinal was given')
  return ordinal
}

interface ImportOptions {
  readonly context: StorageContext
  readonly purge: Purge
  readonly conversation: string
  readonly ordinal: number
  /** Where the visible log ends. */
  readonly start: Extent | undefined
  readonly isNew: boolean
}

class SqliteImportSession implements ImportSession {
  readonly #options: ImportOptions
  #extent: Extent
  #lastInstant: number | undefined
  #isOver = false

  constructor(options: ImportOptions) {
    const { start, context, ordinal } = options
    this.#options = options
    this.#extent = start ?? { head: 0, lastInstant: undefined, isInOrder: true }
    this.#lastInstant = context.events.getIdAndInstant(ordinal, this.#extent.head)?.instant
  }

  get nextPosition(): number {
    return this.#extent.head + 1
  }

  get lastInstant(): number | undefined {
    return this.#lastInstant
  }

  async add(events: readonly ReceivedEvent[]): Promise<void> {
    const { context, ordinal } = this.#options
    await context.writer.write(() => {
      this.#mustBeOpen()
      const { newEvents, extent } = context.events.planAppend(ordinal, this.#extent, events)
      return {
        apply: () => context.events.insert(ordinal, newEvents),
        done: () => {
          this.#extent = extent
          this.#lastInstant = newEvents.at(-1)?.event.instant ?? this.#lastInstant
        },
      }
    })
    await nextTurn()
  }

  async publish(change: Parameters<ImportSession['publish']>[0]): Promise<void> {
    const { context, conversation, ordinal } = this.#options
    await context.writer.write(() => {
      this.#mustBeOpen()
      return {
        apply: () => this.#write(change),
        done: () => {
          this.#isOver = true
          context.importLocks.release(conversation)
          const liveTail = context.liveTails.get(ordinal)
          liveTail?.reset()
          liveTail?.signal.notify()
          context.text.scheduleIndexing(ordinal)
          context.deliveries.markChanged(conversation)
        },
      }
    })
  }

  async abort(): Promise<void> {
    const { context, purge, conversation, ordinal, start, isNew } = this.#options
    if (this.#isOver) return
    this.#isOver = true
    if (isNew) purge.schedule({ ordinal, above: 0 })
    else await purge.run({ ordinal, above: start?.head ?? 0 })
    context.importLocks.release(conversation)
  }

  #write({ title, tags, status, stats, request, sealed }: Parameters<ImportSession['publish']>[0]): void {
    const { db, heads, now } = this.#options.context
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
