import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Moment, Problem } from '@slipway/protocol'
import type { ImportSession } from '../../conversations/import-session.ts'
import { type Extent, emptyExtent } from '../../event-log/append-planner.ts'
import type { ReceivedEvent, RecordUpdate } from '../../event-log/event-log.ts'
import { isStorageFailure } from '../database/storage-failure.ts'
import { updateConversation } from '../event-log/conversation-row.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import type { Leftover, Purge } from './purge.ts'

/** Locks the conversation for appends, and records its head, so that a crash can be cleaned up. */
export async function startImport(
  context: StorageContext,
  purge: Purge,
  conversation: string,
): Promise<ImportSession> {
  const { db, events, heads, importLocks, writer } = context
  const known = heads.find(conversation)
  // What is stored already is found by its id.
  if (known !== undefined) await context.indexes.ensure('ids', known)
  let isLocked = false
  let leftover: Leftover | undefined
  try {
    return await writer.write(() => {
      importLocks.acquire(conversation)
      isLocked = true
      const start = heads.find(conversation)
      let ordinal = start?.ordinal ?? 0
      const last = start && events.getIdAndMoment(ordinal, start.head)
      return {
        apply: () => {
          if (start === undefined) ordinal = insertInvisible(context, conversation)
          leftover =
            start === undefined ? { ordinal, above: undefined, conversation } : { ordinal, above: start.head }
          const sql = 'INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, ?)'
          db.run(sql, ordinal, start?.head ?? 0)
        },
        done: () => new SqliteImportSession({ context, purge, conversation, ordinal, start }, last),
      }
    })
  } catch (error) {
    if (!isLocked) throw error
    // It may be stored all the same.
    if (leftover !== undefined && isStorageFailure(error))
      scheduleCleanUp({ context, purge, conversation }, leftover, error)
    else importLocks.release(conversation)
    throw error
  }
}

/** Later, because the storage fails. The conversation takes no appends until then. */
function scheduleCleanUp(
  { context, purge, conversation }: Pick<ImportOptions, 'context' | 'purge' | 'conversation'>,
  leftover: Leftover,
  reason: Problem,
): void {
  const { importLocks } = context
  importLocks.explain(conversation, reason)
  purge.schedule(leftover, () => importLocks.release(conversation))
}

function insertInvisible({ db, now }: StorageContext, conversation: string): number {
  const sql = `INSERT INTO conversation (id, tags, status, created_at, updated_at, is_visible)
    VALUES (?1, '{}', 'idle', ?2, ?2, 0) RETURNING ordinal`
  const row = db.get<[number]>(sql, conversation, now())
  if (row === undefined) throw new Error('The insert returned no row')
  return row[0]
}

interface ImportOptions {
  readonly context: StorageContext
  readonly purge: Purge
  readonly conversation: string
  readonly ordinal: number
  /** Where the visible log ends; undefined for a new conversation. */
  readonly start: Extent | undefined
}

class SqliteImportSession implements ImportSession {
  readonly #options: ImportOptions
  #extent: Extent
  #last: Moment | undefined
  #isOver = false

  constructor(options: ImportOptions, last: Moment | undefined) {
    this.#options = options
    this.#extent = options.start ?? emptyExtent
    this.#last = last
  }

  get nextPosition(): number {
    return this.#extent.head + 1
  }

  get last(): Moment | undefined {
    return this.#last
  }

  async add(events: readonly ReceivedEvent[]): Promise<void> {
    const { context, ordinal } = this.#options
    await context.writer.write(() => {
      this.#assertOpen()
      const { newEvents, extent } = context.events.planAppend(ordinal, this.#extent, events)
      context.limits?.assertRoom(this.#options.start ?? emptyExtent, extent, events)
      return {
        apply: () => context.events.insert(ordinal, newEvents),
        done: () => {
          this.#extent = extent
          this.#last = newEvents.at(-1)?.event ?? this.#last
        },
      }
    })
    await nextTurn()
  }

  async publish(update: RecordUpdate): Promise<void> {
    const { context, conversation, ordinal } = this.#options
    await context.writer.write(() => {
      this.#assertOpen()
      return {
        apply: () => this.#publish(update),
        done: () => {
          this.#isOver = true
          context.mark.write(ordinal, this.#extent.head)
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
    const { context, purge, conversation, ordinal, start } = this.#options
    if (this.#isOver) return
    this.#isOver = true
    const { importLocks } = context
    const leftover = { ordinal, above: start?.head }
    if (start === undefined) {
      purge.schedule(leftover)
      importLocks.release(conversation)
      return
    }
    try {
      await purge.run(leftover)
      importLocks.release(conversation)
    } catch (error) {
      if (!isStorageFailure(error)) throw error
      scheduleCleanUp(this.#options, leftover, error)
    }
  }

  #publish(update: RecordUpdate): void {
    const { context, conversation, ordinal } = this.#options
    const { db, heads, now } = context
    // Writes what another change of this transaction deferred, with the extent before the import.
    heads.beforeCommit()
    updateConversation(db, ordinal, now(), { ...update, extent: this.#extent, isVisible: true })
    db.run('DELETE FROM leftover WHERE ordinal = ?', ordinal)
    heads.forget(conversation)
  }

  #assertOpen(): void {
    if (this.#isOver) throw new Problem('conflict', 'The import is over')
  }
}
