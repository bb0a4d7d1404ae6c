import type { Bound, Instant, Moment } from '@slipway/protocol'
import type { Extent } from '../../event-log/append-planner.ts'
import type { Database } from '../database/database.ts'
import { type EventRow, eventColumns } from './event-rows.ts'
import { rowBase } from './schema.ts'

/** A filter, an order and a start, resolved for SQL. */
export interface Selection {
  readonly ordinal: number
  readonly extent: Extent
  readonly isDescending: boolean
  /**
   * `from` is inclusive, `before` exclusive: as instants, which are enough for a log without finer moments.
   */
  readonly from?: Instant | undefined
  readonly before?: Instant | undefined
  readonly bounds: { readonly from?: Bound | undefined; readonly before?: Bound | undefined }
  /** Numbers of `KindSourceIndex`; undefined means all. */
  readonly kindSources?: readonly number[] | undefined
  /** The first event of the page. */
  readonly start?: (Moment & { readonly row: number }) | undefined
  readonly limit: number
}

/** Index ranges that one statement merges; the results of several statements are merged here. */
const maxKindSourcesPerStatement = 64

/** A page without text search of a log without finer moments: a range of rows, or a merge of index ranges. */
export function selectRows(db: Database, selection: Selection): EventRow[] {
  const { kindSources, extent, limit } = selection
  if (kindSources === undefined)
    return extent.isInOrder ? selectByRow(db, selection) : selectByTime(db, selection, undefined)
  const present =
    kindSources.length > maxKindSourcesPerStatement / 2
      ? presentKindSources(db, selection.ordinal, kindSources)
      : kindSources
  if (present.length <= maxKindSourcesPerStatement) return selectByTime(db, selection, present)
  const rows: EventRow[] = []
  for (let i = 0; i < present.length; i += maxKindSourcesPerStatement) {
    rows.push(...selectByTime(db, selection, present.slice(i, i + maxKindSourcesPerStatement)))
  }
  return rows.sort(compareRows(selection.isDescending)).slice(0, limit)
}

/** Rows with `row` and `instant` at these indexes. */
type OrderedRow = readonly [row: number, other: unknown, instant: Instant, ...unknown[]]

export function compareRows(isDescending: boolean): (a: OrderedRow, b: OrderedRow) => number {
  const sign = isDescending ? -1 : 1
  return (a, b) => sign * (a[2] - b[2] || a[0] - b[0])
}

/** Time bounds and start as a range of rows, for a log in order of time; undefined when it is empty. */
export function rowBounds(db: Database, selection: Selection): { low: number; high: number } | undefined {
  const { ordinal, extent, from, before, start, isDescending } = selection
  let low = rowBase(ordinal) + 1
  let high = rowBase(ordinal) + extent.head
  if (from !== undefined) {
    const [row] = db.get<[number]>(seekSql('>=', false), ordinal, from, high) ?? []
    if (row === undefined) return undefined
    low = row
  }
  if (before !== undefined) {
    const [row] = db.get<[number]>(seekSql('<', true), ordinal, before, high) ?? []
    if (row === undefined) return undefined
    high = row
  }
  if (start !== undefined && isDescending) high = Math.min(high, start.row)
  if (start !== undefined && !isDescending) low = Math.max(low, start.row)
  return low > high ? undefined : { low, high }
}

/** Number of events within the time bounds, for a log in order of time. */
export function countRange(db: Database, selection: Selection): number {
  const bounds = rowBounds(db, selection)
  return bounds === undefined ? 0 : bounds.high - bounds.low + 1
}

function selectByRow(db: Database, selection: Selection): EventRow[] {
  const bounds = rowBounds(db, selection)
  if (bounds === undefined) return []
  return db.all<EventRow>(rangeSql(selection.isDescending), bounds.low, bounds.high, selection.limit)
}

/**
 * Walks (instant, row). A start needs two seeks, first the rest of its own instant and then the following
 * instants, because an index range ends at the instant: one seek would walk all events of that instant.
 */
function selectByTime(
  db: Database,
  selection: Selection,
  kindSources: readonly number[] | undefined,
): EventRow[] {
  const { ordinal, extent, isDescending, start, limit } = selection
  const lastRow = rowBase(ordinal) + extent.head
  let low = selection.from ?? Number.MIN_SAFE_INTEGER
  let high = Math.min(extent.lastInstant ?? low, (selection.before ?? Number.MAX_SAFE_INTEGER) - 1)
  const padded = kindSources && padToPowerOfTwo(kindSources)
  const page: EventRow[] = []
  if (start !== undefined) {
    const { instant, row } = start
    if (instant >= low && instant <= high) {
      const rows = isDescending ? [rowBase(ordinal) + 1, Math.min(row, lastRow)] : [row, lastRow]
      const sql = walkSql({ isTied: true, isDescending, arms: padded?.length })
      page.push(...db.all<EventRow>(sql, ordinal, instant, ...rows, limit, ...(padded ?? [])))
    }
    if (isDescending) high = Math.min(high, instant - 1)
    else low = Math.max(low, instant + 1)
  }
  if (page.length < limit && low <= high) {
    const sql = walkSql({ isTied: false, isDescending, arms: padded?.length })
    page.push(...db.all<EventRow>(sql, ordinal, low, high, lastRow, limit - page.length, ...(padded ?? [])))
  }
  return page
}

/** Pads to a power of two, so that few statements are prepared. No event has the number -1. */
function padToPowerOfTwo(kindSources: readonly number[]): number[] {
  const length = 2 ** Math.ceil(Math.log2(Math.max(1, kindSources.length)))
  return [...kindSources, ...Array<number>(length - kindSources.length).fill(-1)]
}

/** The numbers that occur in the conversation: one seek for each of its own. */
function presentKindSources(db: Database, ordinal: number, kindSources: readonly number[]): number[] {
  const requested = new Set(kindSources)
  const present: number[] = []
  for (let lastNumber = -1; ; ) {
    const [number] = db.get<[number]>(nextKindSourceSql, ordinal, lastNumber) ?? []
    if (number === undefined) return present
    if (requested.has(number)) present.push(number)
    lastNumber = number
  }
}

const nextKindSourceSql = `SELECT facet FROM event INDEXED BY event_facet WHERE conversation = ? AND facet > ?
  ORDER BY facet LIMIT 1`

export function rangeSql(isDescending: boolean): string {
  return `SELECT ${eventColumns} FROM event WHERE row BETWEEN ? AND ? ORDER BY row ${direction(isDescending)} LIMIT ?`
}

export function seekSql(comparison: '>=' | '<', isDescending: boolean): string {
  const order = direction(isDescending)
  return `SELECT row FROM event INDEXED BY event_instant WHERE conversation = ? AND instant ${comparison} ? AND row <= ?
    ORDER BY instant ${order}, row ${order} LIMIT 1`
}

/** @param options.arms number of kind and source filters; undefined for a walk of all events. */
export function walkSql(options: {
  isTied: boolean
  isDescending: boolean
  arms: number | undefined
}): string {
  const { isTied, isDescending, arms } = options
  const range = isTied ? 'instant = ?2 AND row BETWEEN ?3 AND ?4' : 'instant BETWEEN ?2 AND ?3 AND row <= ?4'
  const order = direction(isDescending)
  const arm = (facet: string, index: string) =>
    `SELECT ${eventColumns} FROM event INDEXED BY ${index} WHERE conversation = ?1 ${facet} AND ${range}`
  const walks =
    arms === undefined
      ? [arm('', 'event_instant')]
      : Array.from({ length: arms }, (_, i) => arm(`AND facet = ?${i + 6}`, 'event_facet'))
  return `${walks.join(' UNION ALL ')} ORDER BY instant ${order}, row ${order} LIMIT ?5`
}

export function direction(isDescending: boolean): string {
  return isDescending ? 'DESC' : 'ASC'
}
