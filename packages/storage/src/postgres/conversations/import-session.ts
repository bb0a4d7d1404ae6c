import { isStorageFailure, Problem } from '@slipway/protocol'
import { BaseImportSession, scheduleCleanUp } from '../../conversations/base-import-session.ts'
import type { ImportSession } from '../../conversations/import-session.ts'
import { HeldElsewhereError } from '../../conversations/leases.ts'
import { emptyExtent } from '../../event-log/append-planner.ts'
import type { ReceivedEvent, RecordUpdate } from '../../event-log/event-log.ts'
import { lookedUpIds, type StorageContext } from '../event-log/event-log.ts'
import type { GroupPlan } from '../group-commit/group-plan.ts'
import type { LogHead } from '../group-commit/log-heads.ts'
import { updateTexts } from './conversation-records.ts'
import type { Leftover, Purge } from './purge.ts'

const insertInvisibleSql = `INSERT INTO conversation (ordinal, id, tags, tag_keys, status, created_at, updated_at, is_visible, server)
  VALUES ($1, $2, '{}', '{}', 'idle', $3, $3, false, $4)`
const putLeftoverSql = `INSERT INTO leftover (ordinal, above, server) VALUES ($1, $2, $3)
  ON CONFLICT (ordinal) DO UPDATE SET above = excluded.above, server = excluded.server`
const momentSql = 'SELECT instant, finer FROM event WHERE conversation = $1 AND position = $2'

/** Locks the conversation for appends, and records its head, so that a crash can be cleaned up. */
export async function startImport(
  context: StorageContext,
  purge: Purge,
  conversation: string,
): Promise<ImportSession> {
  const { db, importLocks, writer, leases, now } = context
  const holder = await leases?.acquire(conversation)
  if (holder?.isOwn === false) throw new HeldElsewhereError()
  let isLocked = false
  let leftover: Leftover | undefined
  /** Of a new conversation: no other gets them. */
  const ordinals: number[] = []
  try {
    const { ordinal, start } = await writer.write({
      conversations: [conversation],
      needsOrdinal: true,
      plan: (group) => {
        // A group may be planned twice.
        if (!isLocked) importLocks.acquire(conversation)
        isLocked = true
        const head = group.find(conversation)
        const ordinal = head?.ordinal ?? group.takeOrdinal()
        if (head === undefined) ordinals.push(ordinal)
        return {
          apply: () => {
            if (head === undefined)
              group.run(insertInvisibleSql, [ordinal, conversation, now(), group.server])
            else {
              group.fence(head)
              leftover = { ordinal, above: head.head, epoch: head.epoch }
            }
            group.run(putLeftoverSql, [ordinal, head?.head ?? 0, group.server])
          },
          done: () => ({ ordinal, start: head }),
        }
      },
    })
    const values = [ordinal, start?.head ?? 0]
    const [row] = start === undefined ? [] : await db.query<[number, string]>(momentSql, values)
    const last = row && { instant: row[0], finer: row[1] }
    return new PostgresImportSession({ context, purge, conversation, ordinal, start }, last)
  } catch (error) {
    if (!isLocked) throw error
    // It may be stored all the same.
    if (leftover !== undefined && isStorageFailure(error))
      scheduleCleanUp({ context, purge, conversation }, leftover, error)
    else {
      if (isStorageFailure(error))
        for (const ordinal of ordinals) purge.schedule({ ordinal, above: undefined })
      importLocks.release(conversation)
    }
    throw error
  }
}

interface ImportOptions {
  readonly context: StorageContext
  readonly purge: Purge
  readonly conversation: string
  readonly ordinal: number
  /** Where the visible log ends; undefined for a new conversation. */
  readonly start: LogHead | undefined
}

class PostgresImportSession extends BaseImportSession<Leftover, ImportOptions> {
  protected get leftover(): Leftover {
    const { ordinal, start } = this.options
    return { ordinal, above: start?.head, epoch: start?.epoch }
  }

  async add(events: readonly ReceivedEvent[]): Promise<void> {
    const { context, ordinal, start } = this.options
    await context.writer.write({
      ordinal,
      ids: lookedUpIds(events),
      plan: (group) => {
        this.assertOpen()
        const { newEvents, extent } = group.planAppend(ordinal, this.extent, events)
        return {
          apply: () => {
            group.fence({ ordinal, epoch: start?.epoch ?? 0 })
            group.insert(ordinal, newEvents)
          },
          done: () => this.added(extent, newEvents),
        }
      },
    })
  }

  async publish(update: RecordUpdate): Promise<void> {
    const { context, conversation, ordinal } = this.options
    await context.writer.write({
      conversations: [conversation],
      plan: (group) => {
        this.assertOpen()
        const existing = group.find(conversation)
        if (existing !== undefined && existing.ordinal !== ordinal)
          throw new Problem('conflict', `There is a conversation with this id already: ${conversation}`)
        return { apply: () => this.#publish(group, update), done: () => this.published() }
      },
    })
  }

  #publish(group: GroupPlan, update: RecordUpdate): void {
    const { conversation, ordinal } = this.options
    const { title, missing_title: _, tags, ...state } = update
    const head = group.find(conversation) ?? group.add(conversation, ordinal, emptyExtent)
    updateTexts(group, { ordinal }, update)
    group.run('UPDATE conversation SET is_visible = true WHERE ordinal = $1 AND NOT is_visible', [ordinal])
    group.run('DELETE FROM leftover WHERE ordinal = $1', [ordinal])
    group.update(head, this.extent, state)
  }
}
