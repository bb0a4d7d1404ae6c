import type { Bound } from '@slipway/protocol'
import type { Database, Value } from '../database/database.ts'
import { type EventRow, eventColumns } from './event-rows.ts'
import type { Selection } from './event-search.ts'
import { rowBase } from './schema.ts'

/*
 * Searches of the few logs that have moments finer than instants, which timestamps with more than six digits
 * of a second have, and those of years that are far away. The indexes know instants alone: events of one
 * instant are sorted by what is finer.
 */

/** A page without text search. */
export function selectByMoment(db: Database, selection: Selection): EventRow[] {
  const { from, values } = conditions(selection)
  const direction = selection.isDescending ? 'DESC' : 'ASC'
  const order = `ORDER BY instant ${direction}, finer ${direction}, row ${direction}`
  const rows = `SELECT row ${from} ${order} LIMIT ?`
  const sql = `SELECT ${eventColumns} FROM event WHERE row IN (${rows}) ${order}`
  return db.all<EventRow>(sql, ...values, selection.limit)
}

/** Counts the events that match the filters other than a needle. */
export function countByMoment(db: Database, selection: Selection): number {
  const { from, values } = conditions(selection)
  return db.get<[number]>(`SELECT count(*) ${from}`, ...values)?.[0] ?? 0
}

function conditions({ ordinal, extent, isDescending, bounds, kindSources, start }: Selection) {
  const index = kindSources === undefined ? 'event_instant' : 'event_facet'
  const where = ['conversation = ?', 'row <= ?']
  const values: Value[] = [ordinal, rowBase(ordinal) + extent.head]
  const add = (condition: string, ...more: Value[]) => {
    where.push(condition)
    values.push(...more)
  }
  if (kindSources !== undefined) add('facet IN (SELECT value FROM json_each(?))', JSON.stringify(kindSources))
  if (bounds.from !== undefined) add('(instant, finer) >= (?, ?)', ...momentValues(bounds.from))
  if (bounds.before !== undefined) add('(instant, finer) < (?, ?)', ...momentValues(bounds.before))
  if (start !== undefined)
    add(`(instant, finer, row) ${isDescending ? '<=' : '>='} (?, ?, ?)`, ...momentValues(start), start.row)
  return { from: `FROM event INDEXED BY ${index} WHERE ${where.join(' AND ')}`, values }
}

function momentValues(bound: Bound): [number, string] {
  return typeof bound === 'number' ? [bound, ''] : [bound.instant, bound.finer ?? '']
}
