import { setImmediate as nextTurn } from 'node:timers/promises'
import { isStorageFailure } from '@slipway/protocol'
import { BaseImportSession, scheduleCleanUp } from '../../conversations/base-import-session.ts'
import type { ImportSession } from '../../conversations/import-session.ts'
import { type Extent, emptyExtent } from '../../event-log/append-planner.ts'
import type { ReceivedEvent, RecordUpdate } from '../../event-log/event-log.ts'
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

class SqliteImportSession extends BaseImportSession<Leftover, ImportOptions> {
  protected get leftover(): Leftover {
    const { ordinal, start } = this.options
    return { ordinal, above: start?.head }
  }

  async add(events: readonly ReceivedEvent[]): Promise<void> {
    const { context, ordinal, start } = this.options
    await context.writer.write(() => {
      this.assertOpen()
      const { newEvents, extent } = context.events.planAppend(ordinal, this.extent, events)
      context.limits?.assertRoom(start ?? emptyExtent, extent, events)
      return {
        apply: () => context.events.insert(ordinal, newEvents),
        done: () => this.added(extent, newEvents),
      }
    })
    await nextTurn()
  }

  async publish(update: RecordUpdate): Promise<void> {
    const { context, ordinal } = this.options
    await context.writer.write(() => {
      this.assertOpen()
      return {
        apply: () => this.#publish(update),
        done: () => {
          context.mark.write(ordinal, this.extent.head)
          this.published()
          context.text.scheduleIndexing(ordinal)
        },
      }
    })
  }

  #publish(update: RecordUpdate): void {
    const { context, conversation, ordinal } = this.options
    const { db, heads, now } = context
    // Writes what another change of this transaction deferred, with the extent before the import.
    heads.beforeCommit()
    updateConversation(db, ordinal, now(), { ...update, extent: this.extent, isVisible: true })
    db.run('DELETE FROM leftover WHERE ordinal = ?', ordinal)
    heads.forget(conversation)
  }
}
