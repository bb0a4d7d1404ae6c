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
import { DamageError } from '../../event-log/damage.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { PlannedChange } from '../database/commit-queue.ts'
import type { Database, Value } from '../database/database.ts'
import { readableRows, sumRows } from '../database/readable-rows.ts'
import { isDamaged, isStorageFailure } from '../database/storage-failure.ts'
import { valuesChecksum } from '../database/values-checksum.ts'
import { checkedColumns, nameRecord, sealRecord } from '../event-log/conversation-row.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import { deleteSealedState, readSealedState, writeSealed, writeSnapshot } from '../event-log/sealed-state.ts'
import type { Leftover, Purge } from './purge.ts'

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
const childrenSql = (
  condition: string,
) => `SELECT parent, id, ordinal FROM conversation INDEXED BY conversation_parent
  WHERE parent IN (SELECT value FROM json_each(?)) AND is_visible = 1 AND ${condition}`
const idOfSql = `SELECT id FROM conversation INDEXED BY conversation_id WHERE is_visible = 1 AND ordinal = ?`
const sumBytesSql = (condition: string) =>
  `SELECT coalesce(sum(bytes), 0) FROM conversation WHERE is_visible = 1 AND ${condition}`
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
    const rows = readableRows<[string, string, number]>(this.#context.db, childrenSql, JSON.stringify(ids))
    rows.sort(([, , a], [, , b]) => a - b)
    return groupChildren(ids, rows)
  }

  async get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]> {
    return ids.map((id) => this.#find(id))
  }

  async search(query: ConversationQuery): ReturnType<ConversationRecords['search']> {
    const { limit, sort_order, status, tags, page_id } = query
    const start = page_id ? this.#findPageStart(page_id) : undefined
    const rows = this.#selectRows({ sort_order, status, tags, start }, limit + 1)
    const next = rows.length > limit ? rows.pop() : undefined
    return {
      items: rows.flatMap((row) => this.#toListed(row)),
      next_page_id: next === undefined ? null : next[1].replaceAll('-', ''),
    }
  }

  async count({ status, tags = [] }: Parameters<ConversationRecords['count']>[0] = {}): Promise<number> {
    const where = ['is_visible = 1', ...(status ? ['status = ?'] : []), ...tags.map(tagSql)]
    const sql = (condition: string) =>
      `SELECT count(*) FROM conversation INDEXED BY conversation_status WHERE ${[...where, condition].join(' AND ')}`
    const values = [...(status ? [status] : []), ...tags.flatMap(tagValues)]
    if (tags.length > 0) return sumRows(readableRows(this.#context.db, sql, ...values))
    // The index has all that is counted.
    return this.#context.db.get<[number]>(sql('1'), ...values)?.[0] ?? 0
  }

  async sumBytes(ids?: readonly string[]): Promise<number> {
    const { db } = this.#context
    if (ids === undefined) return sumRows(readableRows(db, sumBytesSql))
    return ids.reduce((sum, id) => sum + (db.get<[number]>(sumBytesSql('id = ?'), id)?.[0] ?? 0), 0)
  }

  patch(
    id: string,
    update: Parameters<ConversationRecords['patch']>[1],
  ): Promise<ConversationRecord | undefined> {
    const { deliveries, heads, writer } = this.#context
    let isKnown = false
    return writer.write(() => ({
      apply: () => {
        const head = heads.find(id)
        isKnown = head !== undefined
        if (head !== undefined) heads.update(head, head, update)
      },
      done: () => {
        if (isKnown) deliveries.markChanged(id)
        return this.#find(id)
      },
    }))
  }

  async getSealedState(id: string): Promise<SealedState | undefined> {
    return nameRecord(id, () => readSealedState(this.#context.db, id))
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

  async remove(id: string): Promise<boolean> {
    let leftover: Leftover | undefined
    try {
      return await this.#remove(id, (stored) => {
        leftover = stored
      })
    } catch (error) {
      // It may be stored all the same.
      if (leftover !== undefined && isStorageFailure(error)) this.#purge.schedule(leftover)
      throw error
    }
  }

  #remove(id: string, onApplied: (leftover: Leftover) => void): Promise<boolean> {
    const { db, deliveries, heads, liveTails, importLocks, writer } = this.#context
    return writer.write((): PlannedChange<boolean> => {
      const head = heads.find(id)
      if (head === undefined) return { done: () => false }
      importLocks.assertFree(id)
      const { ordinal } = head
      const leftover = { ordinal, above: undefined }
      return {
        apply: () => {
          onApplied(leftover)
          heads.beforeCommit()
          db.run('UPDATE conversation SET is_visible = 0 WHERE ordinal = ?', ordinal)
          db.run('INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, 0)', ordinal)
          deleteSealedState(db, ordinal)
          heads.forget(id)
        },
        done: () => {
          liveTails.get(ordinal)?.signal.notify()
          deliveries.markChanged(id)
          this.#purge.schedule(leftover)
          return true
        },
      }
    })
  }

  #row(id: string): Row | undefined {
    return nameRecord(id, () => this.#context.db.get<Row>(selectByIdSql, id))
  }

  /** The first rows of a list, without those on damaged pages, which are reported. */
  #selectRows(options: SearchOptions, limit: number): Row[] {
    const { db, damage } = this.#context
    const { sql, values } = searchSql(options)
    try {
      return db.all<Row>(sql, ...values, limit)
    } catch (error) {
      if (!isDamaged(error)) throw error
    }
    const rows: Row[] = []
    for (const [ordinal] of orderedOrdinals(db, options)) {
      if (rows.length === limit) break
      try {
        rows.push(...selectListed(db, ordinal, options))
      } catch (error) {
        if (!isDamaged(error)) throw error
        damage.add(new DamageError(this.#idOf(ordinal), 'record', 'cannot be read', error))
      }
    }
    return rows
  }

  /** By the index, because the record cannot be read. */
  #idOf(ordinal: number): string {
    return this.#context.db.get<[string]>(idOfSql, ordinal)?.[0] ?? `number ${ordinal}`
  }

  /** A list leaves out a record that is not what was written, which is reported. */
  #toListed(row: Row): ConversationRecord[] {
    try {
      return [this.#toRecord(row)]
    } catch (error) {
      if (error instanceof DamageError) return []
      throw error
    }
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

interface SearchOptions extends Pick<ConversationQuery, 'sort_order' | 'status' | 'tags'> {
  readonly start: Row | undefined
}

/** A page of conversations in the order (created_at or updated_at, ordinal). */
export function searchSql(options: SearchOptions): { readonly sql: string; readonly values: Value[] } {
  const { status, tags = [] } = options
  const where = [...(status ? ['status = ?'] : []), ...tags.map(tagSql)]
  const values = [...(status ? [status] : []), ...tags.flatMap(tagValues)]
  return orderedSql(columns, options, { where, values }, 'LIMIT ?')
}

/** All of the list but its tags, by an index that has them. */
function orderedOrdinals(db: Database, options: SearchOptions): Iterable<[ordinal: number]> {
  const { sort_order, status } = options
  const isByStatus = status && sort_order.startsWith('CREATED_AT')
  const filter = isByStatus ? { where: ['status = ?'], values: [status] } : { where: [], values: [] }
  const { sql, values } = orderedSql('ordinal', options, filter, '')
  return db.iterate<[number]>(sql, ...values)
}

function selectListed(db: Database, ordinal: number, { status, tags = [] }: SearchOptions): Row[] {
  const where = ['ordinal = ?', ...(status ? ['status = ?'] : []), ...tags.map(tagSql)]
  const sql = `SELECT ${columns} FROM conversation WHERE ${where.join(' AND ')}`
  return db.all<Row>(sql, ordinal, ...(status ? [status] : []), ...tags.flatMap(tagValues))
}

function orderedSql(
  selected: string,
  { sort_order, status, start }: SearchOptions,
  filter: { readonly where: readonly string[]; readonly values: readonly Value[] },
  limit: string,
): { readonly sql: string; readonly values: Value[] } {
  const isCreated = sort_order.startsWith('CREATED_AT')
  const moment = isCreated ? 'created_at' : 'updated_at'
  const [order, sign] = sort_order.endsWith('_DESC') ? ['DESC', '<'] : ['ASC', '>']
  const index = isCreated ? (status ? 'conversation_status' : 'conversation_created') : 'conversation_updated'
  const where = ['is_visible = 1', ...filter.where]
  const values: Value[] = [...filter.values]
  if (start !== undefined) {
    const [ordinal, , , , , , , createdAt, , , updatedAt] = start
    const at = isCreated ? createdAt : updatedAt
    where.push(`${moment} ${sign}= ?`, `(${moment} ${sign} ? OR ordinal ${sign}= ?)`)
    values.push(at, at, ordinal)
  }
  const sql = `SELECT ${selected} FROM conversation INDEXED BY ${index} WHERE ${where.join(' AND ')}
    ORDER BY ${moment} ${order}, ordinal ${order} ${limit}`
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
