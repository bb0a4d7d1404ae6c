import { type Instant, isStorageFailure, Problem } from '@slipway/protocol'
import type {
  ConversationQuery,
  ConversationRecord,
  ConversationRecords,
  SealedState,
  Snapshot,
  TagFilter,
} from '../../conversations/conversation-records.ts'
import { groupChildren } from '../../conversations/group-children.ts'
import { emptyExtent } from '../../event-log/append-planner.ts'
import type { RecordUpdate } from '../../event-log/event-log.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { Value } from '../database/database.ts'
import type { StorageContext } from '../event-log/event-log.ts'
import type { GroupPlan } from '../group-commit/group-plan.ts'
import type { LogHead } from '../group-commit/log-heads.ts'
import type { Leftover, Purge } from './purge.ts'

type Row = readonly [
  ordinal: number,
  id: string,
  title: Buffer | null,
  tags: string,
  status: Buffer,
  request: Buffer | null,
  created_at: Instant,
  updated_at: Instant,
  head: number,
  stats: Buffer | null,
]

const columns = 'ordinal, id, title, tags, status, request, created_at, updated_at, head, stats'
const insertSql = `INSERT INTO conversation
  (ordinal, id, title, tags, tag_keys, status, request, parent, created_at, updated_at, is_visible, server)
  VALUES ($1, $2, $3, $4, $5::text[], $6, $7, $8, $9, $9, true, $10)`
const putSealedSql = 'INSERT INTO vault (ordinal, sealed) VALUES ($1, $2)'
const putSnapshotSql = `INSERT INTO vault (ordinal, snapshot_position, snapshot) VALUES ($1, $2, $3)
  ON CONFLICT (ordinal) DO UPDATE SET snapshot_position = excluded.snapshot_position, snapshot = excluded.snapshot`
const sealedSql = `SELECT sealed, snapshot_position, snapshot
  FROM conversation LEFT JOIN vault USING (ordinal) WHERE id = $1 AND is_visible`
const selectByIdsSql = `SELECT ${columns} FROM conversation WHERE id = ANY($1::text[]) AND is_visible`

type NewRecord = Parameters<ConversationRecords['create']>[0]

/** ConversationRecords on PostgreSQL. */
export class PostgresConversationRecords implements ConversationRecords {
  readonly #context: StorageContext
  readonly #purge: Purge

  constructor(context: StorageContext, purge: Purge) {
    this.#context = context
    this.#purge = purge
  }

  create(record: NewRecord): ReturnType<ConversationRecords['create']> {
    const { deliveries, importLocks, writer, now } = this.#context
    const { id } = record
    return writer.write<{ readonly record: ConversationRecord; readonly created: boolean }>({
      conversations: [id],
      needsOrdinal: true,
      plan: (group) => {
        if (group.has(id)) return { done: async () => ({ record: await this.#mustFind(id), created: false }) }
        importLocks.assertFree(id)
        const moment = now()
        return {
          apply: () => insertRecord(group, record, moment),
          done: () => {
            deliveries.markChanged(id)
            return { record: newRecord(record, moment), created: true }
          },
        }
      },
    })
  }

  async listChildren(ids: readonly string[]): Promise<(readonly string[])[]> {
    const sql = `SELECT parent, id FROM conversation WHERE parent = ANY($1::text[]) AND is_visible ORDER BY ordinal`
    return groupChildren(ids, await this.#context.db.query<[string, string]>(sql, [ids]))
  }

  async get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]> {
    const rows = await this.#rows(ids)
    return ids.map((id) => {
      const row = rows.get(id)
      return row && toRecord(row)
    })
  }

  async search(query: ConversationQuery): ReturnType<ConversationRecords['search']> {
    const { limit, sort_order, page_id } = query
    const start = page_id ? await this.#findPageStart(page_id) : undefined
    const { where, values, add } = conditions(query)
    const isCreated = sort_order.startsWith('CREATED_AT')
    const moment = isCreated ? 'created_at' : 'updated_at'
    const [order, sign] = sort_order.endsWith('_DESC') ? ['DESC', '<'] : ['ASC', '>']
    if (start !== undefined) {
      const at = isCreated ? start[6] : start[7]
      where.push(`(${moment}, ordinal) ${sign}= (${add(at)}::bigint, ${add(start[0])}::bigint)`)
    }
    const sql = `SELECT ${columns} FROM conversation WHERE ${where.join(' AND ')}
      ORDER BY ${moment} ${order}, ordinal ${order} LIMIT ${limit + 1}`
    const rows = await this.#context.db.query<Row>(sql, values)
    const next = rows.length > limit ? rows.pop() : undefined
    return {
      items: rows.map(toRecord),
      next_page_id: next === undefined ? null : next[1].replaceAll('-', ''),
    }
  }

  async count(filter: Parameters<ConversationRecords['count']>[0] = {}): Promise<number> {
    const { where, values } = conditions(filter)
    return await this.#number(`SELECT count(*) FROM conversation WHERE ${where.join(' AND ')}`, values)
  }

  async sumBytes(ids?: readonly string[]): Promise<number> {
    const sql = 'SELECT coalesce(sum(bytes), 0)::bigint FROM conversation WHERE is_visible'
    return ids === undefined
      ? await this.#number(sql, [])
      : await this.#number(`${sql} AND id = ANY($1::text[])`, [ids])
  }

  patch(
    id: string,
    update: Parameters<ConversationRecords['patch']>[1],
  ): Promise<ConversationRecord | undefined> {
    const { deliveries, writer } = this.#context
    return writer.write({
      conversations: [id],
      plan: (group) => {
        const head = group.find(id)
        if (head === undefined) return { done: () => undefined }
        return {
          apply: () => {
            updateTexts(group, head, update)
            group.update(head, head, update)
          },
          done: async () => {
            deliveries.markChanged(id)
            return (await this.get([id]))[0]
          },
        }
      },
    })
  }

  async getSealedState(id: string): Promise<SealedState | undefined> {
    type SealedRow = [sealed: Buffer | null, position: number | null, text: Buffer | null]
    const [row] = await this.#context.db.query<SealedRow>(sealedSql, [id])
    if (row === undefined) return undefined
    const [sealed, position, text] = row
    return {
      sealed,
      snapshot: position === null || text === null ? null : { position, text: text.toString() },
    }
  }

  saveSnapshot(id: string, { position, text }: Snapshot): Promise<void> {
    return this.#context.writer.write({
      conversations: [id],
      plan: (group) => {
        const head = group.find(id)
        if (head === undefined || position > head.head) return {}
        return {
          apply: () => {
            group.fence(head)
            group.run(putSnapshotSql, [head.ordinal, position, Buffer.from(text)])
          },
        }
      },
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
    const { deliveries, liveTails, importLocks, writer } = this.#context
    return writer.write({
      conversations: [id],
      plan: (group) => {
        const head = group.find(id)
        if (head === undefined) return { done: () => false }
        importLocks.assertFree(id)
        const { ordinal } = head
        const leftover = { ordinal, above: undefined }
        return {
          apply: () => {
            onApplied(leftover)
            group.fence(head)
            group.run('UPDATE conversation SET is_visible = false WHERE ordinal = $1', [ordinal])
            group.run(
              `INSERT INTO leftover VALUES ($1, 0, $2)
               ON CONFLICT (ordinal) DO UPDATE SET above = excluded.above, server = excluded.server`,
              [ordinal, group.server],
            )
            group.run('DELETE FROM vault WHERE ordinal = $1', [ordinal])
            group.remove(head)
          },
          done: () => {
            liveTails.get(ordinal)?.signal.notify()
            deliveries.markChanged(id)
            this.#purge.schedule(leftover)
            return true
          },
        }
      },
    })
  }

  async #rows(ids: readonly string[]): Promise<Map<string, Row>> {
    const possible = ids.filter((id) => !id.includes('\0'))
    if (possible.length === 0) return new Map()
    const rows = await this.#context.db.query<Row>(selectByIdsSql, [possible])
    return new Map(rows.map((row) => [row[1], row]))
  }

  async #mustFind(id: string): Promise<ConversationRecord> {
    const [record] = await this.get([id])
    if (record === undefined) throw new Problem('conflict', 'The conversation is being removed')
    return record
  }

  async #number(sql: string, values: readonly Value[]): Promise<number> {
    return (await this.#context.db.query<[number]>(sql, values))[0]?.[0] ?? 0
  }

  async #findPageStart(pageId: string): Promise<Row> {
    const hex = pageId.replaceAll('-', '').toLowerCase()
    const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    const row = (await this.#rows([id])).get(id)
    if (row === undefined) throw unknownPageId()
    return row
  }
}

/** Changes the title and the tags, where the update has them. */
export function updateTexts(
  group: GroupPlan,
  { ordinal }: Pick<LogHead, 'ordinal'>,
  { title, missing_title, tags }: Pick<RecordUpdate, 'title' | 'missing_title' | 'tags'>,
): void {
  if (title !== undefined)
    group.run('UPDATE conversation SET title = $2 WHERE ordinal = $1', [ordinal, toBytes(title)])
  if (missing_title !== undefined)
    group.run('UPDATE conversation SET title = $2 WHERE ordinal = $1 AND title IS NULL', [
      ordinal,
      toBytes(missing_title),
    ])
  if (tags !== undefined)
    group.run('UPDATE conversation SET tags = $2, tag_keys = $3::text[] WHERE ordinal = $1', [
      ordinal,
      JSON.stringify(tags),
      tagKeys(tags),
    ])
}

function insertRecord(group: GroupPlan, record: NewRecord, moment: Instant): void {
  const { id, title = null, tags = {}, status = 'idle', request = null, sealed, parent = null } = record
  const ordinal = group.takeOrdinal()
  const texts = [toBytes(title), JSON.stringify(tags), tagKeys(tags), toBytes(status), toBytes(request)]
  group.run(insertSql, [ordinal, id, ...texts, parent, moment, group.server])
  if (sealed !== undefined) group.run(putSealedSql, [ordinal, sealed])
  group.add(id, ordinal, emptyExtent)
}

function newRecord(record: NewRecord, moment: Instant): ConversationRecord {
  const { id, title = null, tags = {}, status = 'idle', request = null } = record
  return { id, title, tags, status, request, created_at: moment, updated_at: moment, head: 0, stats: null }
}

function conditions({ status, tags = [] }: Pick<ConversationQuery, 'status' | 'tags'>) {
  const where = ['is_visible']
  const values: Value[] = []
  const add = (value: Value) => `$${values.push(value)}`
  if (status) where.push(`status = ${add(Buffer.from(status))}`)
  if (tags.length > 0) where.push(`tag_keys @> ${add(tags.map(tagKey))}::text[]`)
  return { where, values, add }
}

/** A name, and a name with its value, as JSON: it has no NUL, which PostgreSQL's texts cannot have. */
function tagKey({ name, value }: TagFilter): string {
  return JSON.stringify(value === undefined ? name : [name, value])
}

function tagKeys(tags: Readonly<Record<string, string>>): string[] {
  return Object.entries(tags).flatMap(([name, value]) => [tagKey({ name }), tagKey({ name, value })])
}

function toBytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text)
}

function toRecord([, id, title, tags, ...others]: Row): ConversationRecord {
  const [status, request, created_at, updated_at, head, stats] = others
  return {
    id,
    title: toText(title),
    tags: JSON.parse(tags),
    status: status.toString(),
    request: toText(request),
    created_at,
    updated_at,
    head,
    stats: toText(stats),
  }
}

function toText(bytes: Buffer | null): string | null {
  return bytes === null ? null : bytes.toString()
}
