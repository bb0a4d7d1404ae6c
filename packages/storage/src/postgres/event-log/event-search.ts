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
  | { readonly instant: number; readonly position: number }
  | { readonly lookup: 'position' | 'sha256(id)'; readonly value: number | Buffer }

/** Conditions of a table with the columns conversation, position and instant, and their values. */
function conditions({ head, query, start }: Selection, table: string) {
  const values: Value[] = [head.ordinal, head.head]
  const where = [`${table}.conversation = $1`, `${table}.position <= $2`]
  const add = (value: Value) => `$${values.push(value)}`
  const { timestamp__gte, timestamp__lt, sort_order } = query
  if (timestamp__gte !== undefined) where.push(`${table}.instant >= ${add(timestamp__gte)}`)
  if (timestamp__lt !== undefined) where.push(`${table}.instant < ${add(timestamp__lt)}`)
  if (start !== undefined) {
    const comparison = sort_order === 'TIMESTAMP_DESC' ? '<=' : '>='
    const place =
      'lookup' in start ? lookUp(start.lookup, add(start.value)) : [start.instant, start.position].map(add)
    const at = `(${place[0]}::bigint, ${place[1]}::integer)`
    where.push(`(${table}.instant, ${table}.position) ${comparison} ${at}`)
  }
  return { where, values, add }
}

function lookUp(column: string, value: string): readonly string[] {
  const from = `FROM event AS first WHERE first.conversation = $1 AND ${column} = ${value} AND first.position <= $2`
  return [`(SELECT first.instant ${from})`, `(SELECT first.position ${from})`]
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
  const order = (of: string) =>
    `ORDER BY ${of}.instant ${direction}, ${of}.position ${direction} LIMIT ${limit}`
  const columns = `${table}.conversation, ${table}.position, ${table}.instant`
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
