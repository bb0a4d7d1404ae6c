import type { RowSort } from '../../control-plane/rows.ts'
import type { Value } from '../database/database.ts'
import type { Listing } from './table.ts'

/** Conditions in SQL, all of which hold, and their values. */
export interface Conditions {
  readonly where: string[]
  readonly values: Value[]
}

/** Adds the conditions that have a value. */
export function addConditions(
  { where, values }: Conditions,
  conditions: Readonly<Record<string, Value | undefined>>,
): void {
  for (const [condition, value] of Object.entries(conditions)) {
    if (value === undefined) continue
    where.push(condition)
    values.push(value)
  }
}

/** The rows of `table` that meet the conditions, in order of a timestamp. */
export function timestampListing(table: string, sort: RowSort, conditions: Conditions): Listing {
  const by = sort.startsWith('CREATED_AT') ? 'created' : 'updated'
  return { ...conditions, index: `${table}_${by}`, by: `${by}_at`, isDescending: sort.endsWith('_DESC') }
}
