/** Rows in view: the first and the last ones, and how many are hidden between. */
export interface Excerpt<T> {
  readonly first: readonly T[]
  readonly hidden: number
  readonly last: readonly T[]
}

/** What fits into `room` rows, of which one tells the number of those hidden. */
export function excerptRows<T>(rows: readonly T[], room: number): Excerpt<T> {
  if (rows.length <= room) return { first: rows, hidden: 0, last: [] }
  const shown = Math.max(2, room - 1)
  const first = Math.ceil(shown / 2)
  const last = rows.slice(rows.length - (shown - first))
  return { first: rows.slice(0, first), hidden: rows.length - shown, last }
}
