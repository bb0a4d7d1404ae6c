import { type Instant, must } from '@slipway/protocol'
import type {
  ConversationQuery,
  ConversationRecord,
  ConversationRecords,
  SealedState,
  Snapshot,
  TagFilter,
} from '../../conversations/conversation-records.ts'
import { groupChildren } from '../../conversations/group-children.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { PlannedChange } from '../database/commit-queue.ts'
import { DamageError } from '../database/damage.ts'
import type { Value } from '../database/database.ts'
import { valuesChecksum } from '../database/values-checksum.ts'
import { checkedColumns, sealRecord } from '../event-log/conversation-row.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import { deleteSealedState, readSealedState, writeSealed, writeSnapshot } from '../event-log/sealed-state.ts'
import type { Purge } from './purge.ts'

type Row = readonly [
  ordinal: number,
  id: string,
  title: string | null,
  tags: string,
  status: string,
  request: string | null,
  parent: string | null,
  created_at: Instant,
  stats: string | null,
  checksum: number | null,
  updated_at: Instant,
  head: number,
]

const columns = `${checkedColumns}, checksum, updated_at, head`
const checkedCount = checkedColumns.split(',').length
const insertSql = `INSERT INTO conversation
  (id, title, tags, status, request, parent, created_at, updated_at, is_visible)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1) RETURNING ${columns}`
const sumBytesSql = 'SELECT coalesce(sum(bytes), 0) FROM conversation WHERE is_visible = 1'
const selectByIdSql = `SELECT ${columns} FROM conversation WHERE id = ? AND is_visible = 1`

type NewRecord = Parameters<ConversationRecords['create']>[0]

/** ConversationRecords on SQLite. */
export class SqliteConversationRecords implements ConversationRecords {
  readonly #context: StorageContext
  readonly #purge: Purge

  constructor(context: StorageContext, purge: Purge) {
    this.#context = context
    this.#purge = purge
  }

  create(record: NewRecord): ReturnType<ConversationRecords['create']> {
    const { deliveries, importLocks, writer } = this.#context
    return writer.write(() => {
      let row = this.#row(record.id)
      const created = row === undefined
      if (created) importLocks.assertFree(record.id)
      return {
        apply: () => {
          row ??= this.#insert(record)
        },
        done: () => {
          if (created) deliveries.markChanged(record.id)
          return { record: this.#toRecord(must(this.#row(record.id) ?? row, 'the inserted row')), created }
        },
      }
    })
  }

  async listChildren(ids: readonly string[]): Promise<(readonly string[])[]> {
    const sql = `SELECT parent, id, ordinal FROM conversation INDEXED BY conversation_parent
      WHERE parent IN (SELECT value FROM json_each(?)) AND is_visible = 1`
    const rows = this.#context.db.all<[string, string, number]>(sql, JSON.stringify(ids))
    rows.sort(([, , a], [, , b]) => a - b)
    return groupChildren(ids, rows)
  }

  async get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]> {
    return ids.map((id) => this.#find(id))
  }

  async search(query: ConversationQuery): ReturnType<ConversationRecords['search']> {
    const { limit, sort_order, status, tags, page_id } = query
    const start = page_id ? this.#findPageStart(page_id) : undefined
    const { sql, values } = searchSql({ sort_order, status, tags, start })
    const rows = this.#context.db.all<Row>(sql, ...values, limit + 1)
    const next = rows.length > limit ? rows.pop() : undefined
    return {
      items: rows.map((row) => this.#toRecord(row)),
      next_page_id: next === undefined ? null : next[1].replaceAll('-', ''),
    }
  }

  async count({ status, tags = [] }: Parameters<ConversationRecords['count']>[0] = {}): Promise<number> {
    const where = ['is_visible = 1', ...(status ? ['status = ?'] : []), ...tags.map(tagSql)]
    const sql = `SELECT count(*) FROM conversation INDEXED BY conversation_status WHERE ${where.join(' AND ')}`
    const row = this.#context.db.get<[number]>(sql, ...(status ? [status] : []), ...tags.flatMap(tagValues))
    return row?.[0] ?? 0
  }

  async sumBytes(ids?: readonly string[]): Promise<number> {
    const { db } = this.#context
    if (ids === undefined) return db.get<[number]>(sumBytesSql)?.[0] ?? 0
    return ids.reduce((sum, id) => sum + (db.get<[number]>(`${sumBytesSql} AND id = ?`, id)?.[0] ?? 0), 0)
  }

  patch(
    id: string,
    update: Parameters<ConversationRecords['patch']>[1],
  ): Promise<ConversationRecord | undefined> {
    const { deliveries, heads, writer } = this.#context
    return writer.write(() => ({
      apply: () => {
        const head = heads.find(id)
        if (head !== undefined) heads.update(head, head, update)
      },
      done: () => {
        deliveries.markChanged(id)
        return this.#find(id)
      },
    }))
  }

  async getSealedState(id: string): Promise<SealedState | undefined> {
    return readSealedState(this.#context.db, id)
  }

  saveSnapshot(id: string, snapshot: Snapshot): Promise<void> {
    const { db, heads, writer } = this.#context
    return writer.write(() => {
      const head = heads.find(id)
      const isApplicable = head !== undefined && snapshot.position <= head.head
      return {
        apply: () => {
          if (isApplicable) writeSnapshot(db, head.ordinal, snapshot)
        },
      }
    })
  }

  remove(id: string): Promise<boolean> {
    const { db, deliveries, heads, liveTails, importLocks, writer } = this.#context
    return writer.write((): PlannedChange<boolean> => {
      const head = heads.find(id)
      if (head === undefined) return { done: () => false }
      importLocks.assertFree(id)
      const { ordinal } = head
      return {
        apply: () => {
          heads.beforeCommit()
          db.run('UPDATE conversation SET is_visible = 0 WHERE ordinal = ?', ordinal)
          db.run('INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, 0)', ordinal)
          deleteSealedState(db, ordinal)
          heads.forget(id)
        },
        done: () => {
          liveTails.get(ordinal)?.signal.notify()
          deliveries.markChanged(id)
          this.#purge.schedule({ ordinal, above: undefined })
          return true
        },
      }
    })
  }

  #row(id: string): Row | undefined {
    return this.#context.db.get<Row>(selectByIdSql, id)
  }

  #find(id: string): ConversationRecord | undefined {
    const row = this.#row(id)
    return row && this.#toRecord(row)
  }

  /** Throws a DamageError when the row is not what was written. */
  #toRecord(row: Row): ConversationRecord {
    const [, id, title, tags, status, request, , created_at, stats, checksum, updated_at, head] = row
    if (checksum !== null && checksum !== valuesChecksum(row.slice(0, checkedCount))) {
      const error = new DamageError(id, 'record', 'does not match its checksum')
      this.#context.damage.add(error)
      throw error
    }
    return { id, title, tags: JSON.parse(tags), status, request, created_at, updated_at, head, stats }
  }

  #insert(record: NewRecord): Row | undefined {
    const { id, title = null, tags = {}, status = 'idle', request = null, sealed, parent = null } = record
    const { db, now } = this.#context
    const values = [id, title, JSON.stringify(tags), status, request, parent, now()]
    const row = db.get<Row>(insertSql, ...values)
    if (row === undefined) return undefined
    sealRecord(db, row[0])
    if (sealed !== undefined) writeSealed(db, row[0], sealed)
    return row
  }

  #findPageStart(pageId: string): Row {
    const hex = pageId.replaceAll('-', '').toLowerCase()
    const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    const row = this.#row(id)
    if (row === undefined) throw unknownPageId()
    return row
  }
}

/** A page of conversations in the order (created_at or updated_at, ordinal). */
export function searchSql(
  options: Pick<ConversationQuery, 'sort_order' | 'status' | 'tags'> & { start: Row | undefined },
): {
  readonly sql: string
  readonly values: Value[]
} {
  const { sort_order, status, tags = [], start } = options
  const isCreated = sort_order.startsWith('CREATED_AT')
  const moment = isCreated ? 'created_at' : 'updated_at'
  const [order, sign] = sort_order.endsWith('_DESC') ? ['DESC', '<'] : ['ASC', '>']
  const index = isCreated ? (status ? 'conversation_status' : 'conversation_created') : 'conversation_updated'
  const where = ['is_visible = 1']
  const values: Value[] = []
  if (status) {
    where.push('status = ?')
    values.push(status)
  }
  where.push(...tags.map(tagSql))
  values.push(...tags.flatMap(tagValues))
  if (start !== undefined) {
    const [ordinal, , , , , , , createdAt, , , updatedAt] = start
    const at = isCreated ? createdAt : updatedAt
    where.push(`${moment} ${sign}= ?`, `(${moment} ${sign} ? OR ordinal ${sign}= ?)`)
    values.push(at, at, ordinal)
  }
  const sql = `SELECT ${columns} FROM conversation INDEXED BY ${index} WHERE ${where.join(' AND ')}
    ORDER BY ${moment} ${order}, ordinal ${order} LIMIT ?`
  return { sql, values }
}

/** Tags are few and short: comparing those of each row is cheap beside reading the row. */
function tagSql({ value }: TagFilter): string {
  const of = value === undefined ? '' : ' AND value = ?'
  return `EXISTS (SELECT 1 FROM json_each(tags) WHERE key = ?${of})`
}

function tagValues({ name, value }: TagFilter): string[] {
  return value === undefined ? [name] : [name, value]
}
