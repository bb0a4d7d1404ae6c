import { type Instant, invalid } from '@slipway/protocol'
import type {
  ConversationQuery,
  ConversationRecord,
  Records,
  Snapshot,
  TagFilter,
  Vault,
} from '../../conversations/conversation-records.ts'
import type { Step } from '../database/commit-queue.ts'
import type { Value } from '../database/database.ts'
import type { Parts } from '../event-log/event-log.ts'
import { emptyVault, readVault, writeSealed, writeSnapshot } from '../event-log/sealed-state.ts'
import type { Purge } from './purge.ts'

type Row = readonly [
  ordinal: number,
  id: string,
  title: string | null,
  tags: string,
  status: string,
  request: string | null,
  created_at: Instant,
  updated_at: Instant,
  head: number,
  stats: string | null,
]

const columns = 'ordinal, id, title, tags, status, request, created_at, updated_at, head, stats'
const byId = `SELECT ${columns} FROM conversation WHERE id = ? AND is_visible = 1`

/** Records on SQLite. */
export class SqliteRecords implements Records {
  readonly #parts: Parts
  readonly #purge: Purge

  constructor(parts: Parts, purge: Purge) {
    this.#parts = parts
    this.#purge = purge
  }

  create(record: Parameters<Records['create']>[0]): ReturnType<Records['create']> {
    return this.#parts.writer.write((): Step<Awaited<ReturnType<Records['create']>>> => {
      const known = this.#row(record.id)
      if (known !== undefined) {
        return { apply: () => {}, done: () => ({ record: recordOf(known), created: false }) }
      }
      this.#parts.pens.mustBeFree(record.id)
      let made: Row | undefined
      return {
        apply: () => {
          made = this.#insert(record)
        },
        done: () => {
          this.#parts.deliveries.note(record.id)
          return { record: recordOf(made ?? missing()), created: true }
        },
      }
    })
  }

  async children(id: string): Promise<readonly string[]> {
    const sql = 'SELECT id FROM conversation WHERE parent = ? AND is_visible = 1 ORDER BY ordinal'
    return this.#parts.db.rows<[string]>(sql, id).map(([child]) => child)
  }

  async get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]> {
    return ids.map((id) => {
      const row = this.#row(id)
      return row && recordOf(row)
    })
  }

  async search(query: ConversationQuery): ReturnType<Records['search']> {
    const { limit, sort_order, status, tags, page_id } = query
    const start = page_id ? this.#start(page_id) : undefined
    const { sql, values } = searchSql({ sort_order, status, tags, start })
    const rows = this.#parts.db.rows<Row>(sql, ...values, limit + 1)
    const next = rows.length > limit ? rows.pop() : undefined
    return {
      items: rows.map(recordOf),
      next_page_id: next === undefined ? null : next[1].replaceAll('-', ''),
    }
  }

  async count({ status, tags = [] }: Parameters<Records['count']>[0] = {}): Promise<number> {
    const where = ['is_visible = 1', ...(status ? ['status = ?'] : []), ...tags.map(tagSql)]
    const sql = `SELECT count(*) FROM conversation INDEXED BY conversation_status WHERE ${where.join(' AND ')}`
    const row = this.#parts.db.row<[number]>(sql, ...(status ? [status] : []), ...tags.flatMap(tagValues))
    return row?.[0] ?? 0
  }

  patch(id: string, change: Parameters<Records['patch']>[1]): ReturnType<Records['patch']> {
    return this.#parts.writer.write(() => ({
      apply: () => this.#update(id, change),
      done: () => {
        const row = this.#row(id)
        if (row !== undefined) this.#parts.deliveries.note(id)
        return row && recordOf(row)
      },
    }))
  }

  async vault(id: string): Promise<Vault | undefined> {
    return readVault(this.#parts.db, id)
  }

  saveSnapshot(id: string, snapshot: Snapshot): Promise<void> {
    const { db, heads, writer } = this.#parts
    return writer.write(() => {
      const head = heads.find(id)
      const isKept = head !== undefined && snapshot.position <= head.head
      return {
        apply: () => {
          if (isKept) writeSnapshot(db, head.ordinal, snapshot)
        },
        done: () => {},
      }
    })
  }

  remove(id: string): Promise<boolean> {
    const { db, deliveries, heads, lives, pens, writer } = this.#parts
    return writer.write(() => {
      const head = heads.find(id)
      if (head === undefined) return { apply: () => {}, done: () => false }
      pens.mustBeFree(id)
      const { ordinal } = head
      return {
        apply: () => {
          heads.save()
          db.run('UPDATE conversation SET is_visible = 0 WHERE ordinal = ?', ordinal)
          db.run('INSERT OR REPLACE INTO leftover (ordinal, above) VALUES (?, 0)', ordinal)
          emptyVault(db, ordinal)
          heads.forget(id)
        },
        done: () => {
          lives.get(ordinal)?.bell.ring()
          deliveries.note(id)
          this.#purge.later({ ordinal, above: 0 })
          return true
        },
      }
    })
  }

  #row(id: string): Row | undefined {
    return this.#parts.db.row<Row>(byId, id)
  }

  #insert(record: Parameters<Records['create']>[0]): Row | undefined {
    const { id, title, tags, status, request, sealed, parent } = record
    const now = this.#parts.now()
    const values = [
      id,
      title ?? null,
      JSON.stringify(tags ?? {}),
      status ?? 'idle',
      request ?? null,
      now,
      now,
      parent ?? null,
    ]
    const row = this.#parts.db.row<Row>(
      `INSERT INTO conversation (id, title, tags, status, request, created_at, updated_at, parent, is_visible)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) RETURNING ${columns}`,
      ...values,
    )
    if (row !== undefined && sealed !== undefined) writeSealed(this.#parts.db, row[0], sealed)
    return row
  }

  #update(id: string, { title, tags, request, sealed }: Parameters<Records['patch']>[1]): void {
    const set = ['updated_at = max(updated_at + 1, ?)']
    const values: Value[] = [this.#parts.now()]
    if (title !== undefined) {
      set.push('title = ?')
      values.push(title)
    }
    if (tags !== undefined) {
      set.push('tags = ?')
      values.push(JSON.stringify(tags))
    }
    if (request !== undefined) {
      set.push('request = ?')
      values.push(request)
    }
    const ordinal = this.#parts.heads.find(id)?.ordinal
    if (ordinal !== undefined && sealed !== undefined) writeSealed(this.#parts.db, ordinal, sealed)
    this.#parts.db.run(
      `UPDATE conversation SET ${set.join(', ')} WHERE id = ? AND is_visible = 1`,
      ...values,
      id,
    )
  }

  #start(pageId: string): Row {
    const hex = pageId.replaceAll('-', '').toLowerCase()
    const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    const row = this.#row(id)
    if (row === undefined) throw invalid(['query', 'page_id'], 'Unknown page id')
    return row
  }
}

/** A page of conversations in order of (moment, ordinal); equal moments are walked by ordinal. */
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
    const at = isCreated ? start[6] : start[7]
    where.push(`${moment} ${sign}= ?`, `(${moment} ${sign} ? OR ordinal ${sign}= ?)`)
    values.push(at, at, start[0])
  }
  const sql = `SELECT ${columns} FROM conversation INDEXED BY ${index} WHERE ${where.join(' AND ')}
    ORDER BY ${moment} ${order}, ordinal ${order} LIMIT ?`
  return { sql, values }
}

/** Tags are few and short: to look into those of each row is cheap beside reading the row. */
function tagSql({ value }: TagFilter): string {
  const of = value === undefined ? '' : ' AND value = ?'
  return `EXISTS (SELECT 1 FROM json_each(tags) WHERE key = ?${of})`
}

function tagValues({ name, value }: TagFilter): string[] {
  return value === undefined ? [name] : [name, value]
}

function recordOf([
  ,
  id,
  title,
  tags,
  status,
  request,
  created_at,
  updated_at,
  head,
  stats,
]: Row): ConversationRecord {
  return { id, title, tags: JSON.parse(tags), status, request, created_at, updated_at, head, stats }
}

function missing(): never {
  throw new Error('the row that was inserted was not answered')
}
