import { type Bound, firstInstant, type Moment } from '@slipway/protocol'
import type { EventQuery } from '../../event-log/event-log.ts'
import type { PostgresDatabase, Value } from '../database/database.ts'
import { type EventRow, eventColumns } from '../group-commit/group-plan.ts'
import type { LogHead } from '../group-commit/log-heads.ts'
import { likePattern } from '../text/folded-text.ts'

/** A filter, an order and a start, resolved for SQL. */
export interface Selection {
  readonly head: LogHead
  readonly query: Partial<EventQuery>
  /** Numbers of KindSourceNumbers; undefined means all. */
  readonly kindSources: readonly number[] | undefined
  /** The first event of the page. */
  readonly start?: PageStart | undefined
}

/** An event by its place, or one that the statement itself looks up; without it the page is empty. */
export type PageStart =
  | (Moment & { readonly position: number })
  | { readonly lookup: 'position' | 'sha256(id)'; readonly value: number | Buffer }

/** Conditions of a table with the columns conversation, position, instant and finer, and their values. */
function conditions({ head, query, start }: Selection, table: string) {
  const { hasFiner } = head
  const values: Value[] = [head.ordinal, head.head]
  const where = [`${table}.conversation = $1`, `${table}.position <= $2`]
  const add = (value: Value) => `$${values.push(value)}`
  const { timestamp__gte, timestamp__lt, sort_order } = query
  const compare = (comparison: '>=' | '<', bound: Bound) => {
    if (!hasFiner) return where.push(`${table}.instant ${comparison} ${add(firstInstant(bound))}`)
    const { instant, finer = '' } = typeof bound === 'number' ? { instant: bound } : bound
    return where.push(
      `(${table}.instant, ${table}.finer) ${comparison} (${add(instant)}::bigint, ${add(finer)}::text)`,
    )
  }
  if (timestamp__gte !== undefined) compare('>=', timestamp__gte)
  if (timestamp__lt !== undefined) compare('<', timestamp__lt)
  if (start !== undefined) {
    const comparison = sort_order === 'TIMESTAMP_DESC' ? '<=' : '>='
    const place = 'lookup' in start ? lookUp(start.lookup, add(start.value)) : placeOf(start, hasFiner, add)
    const at = placeColumns(hasFiner).map((column) => `${place[column]}::${types[column]}`)
    const columns = placeColumns(hasFiner).map((column) => `${table}.${column}`)
    where.push(`(${columns.join(', ')}) ${comparison} (${at.join(', ')})`)
  }
  return { where, values, add }
}

const types = { instant: 'bigint', finer: 'text', position: 'integer' } as const
type Place = Partial<Record<keyof typeof types, string>>

/**
 * The order of a search. The indexes know instants alone: where moments are finer, events of one instant are
 * sorted.
 */
function placeColumns(hasFiner: boolean): readonly (keyof typeof types)[] {
  return hasFiner ? ['instant', 'finer', 'position'] : ['instant', 'position']
}

function placeOf(
  { instant, finer = '', position }: Moment & { readonly position: number },
  hasFiner: boolean,
  add: (value: Value) => string,
): Place {
  return { instant: add(instant), ...(hasFiner ? { finer: add(finer) } : {}), position: add(position) }
}

function lookUp(column: string, value: string): Place {
  const from = `FROM event AS first WHERE first.conversation = $1 AND ${column} = ${value} AND first.position <= $2`
  const select = (name: string) => `(SELECT first.${name} ${from})`
  return { instant: select('instant'), finer: select('finer'), position: select('position') }
}

/** A page: a range of an index, or a merge of the ranges of several kinds and sources. */
export async function selectEvents(
  db: PostgresDatabase,
  selection: Selection,
  limit: number,
): Promise<EventRow[]> {
  const { kindSources, query } = selection
  const { body } = query
  const table = body ? 'message' : 'event'
  const { where, values, add } = conditions(selection, table)
  if (body) where.push(`message.folded LIKE ${add(likePattern(body))}`)
  const direction = query.sort_order === 'TIMESTAMP_DESC' ? 'DESC' : 'ASC'
  const ordered = placeColumns(selection.head.hasFiner)
  const order = (of: string) =>
    `ORDER BY ${ordered.map((column) => `${of}.${column} ${direction}`).join(', ')} LIMIT ${limit}`
  const columns = ['conversation', ...ordered].map((column) => `${table}.${column}`).join(', ')
  let page = `SELECT ${columns} FROM ${table} WHERE ${where.join(' AND ')} ${order(table)}`
  if (kindSources !== undefined) {
    const parameter = add(kindSources)
    page = body
      ? `SELECT ${columns} FROM message WHERE ${where.join(' AND ')} AND message.facet = ANY(${parameter}::integer[]) ${order('message')}`
      : `SELECT part.* FROM unnest(${parameter}::integer[]) AS wanted (facet), LATERAL (
           SELECT ${columns} FROM event WHERE ${where.join(' AND ')} AND event.facet = wanted.facet ${order('event')}
         ) AS part ${order('part')}`
  }
  const sql = `SELECT ${eventColumns} FROM (${page}) AS page
    JOIN event ON event.conversation = page.conversation AND event.position = page.position ${order('page')}`
  return await db.query<EventRow>(sql, values)
}

/** How many there are, and the positions of the first and the last. */
export async function countEvents(
  db: PostgresDatabase,
  selection: Selection,
): Promise<{ readonly count: number; readonly first: number; readonly last: number }> {
  const { kindSources, query } = selection
  const table = query.body ? 'message' : 'event'
  const { where, values, add } = conditions(selection, table)
  if (query.body) where.push(`message.folded LIKE ${add(likePattern(query.body))}`)
  if (kindSources !== undefined) where.push(`${table}.facet = ANY(${add(kindSources)}::integer[])`)
  const sql = `SELECT count(*), coalesce(min(position), 0), coalesce(max(position), 0) FROM ${table}
    WHERE ${where.join(' AND ')}`
  const [[count, first, last] = [0, 0, 0]] = await db.query<[number, number, number]>(sql, values)
  return { count, first, last }
}
