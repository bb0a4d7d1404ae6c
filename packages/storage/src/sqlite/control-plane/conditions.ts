import type { Instant } from '@slipway/protocol'
import type { RowSort } from '../../control-plane/control-plane-store.ts'
import type { Value } from '../database/database.ts'
import type { Listing } from './table.ts'

/** Conditions in SQL, all of which hold, and their values. */
export interface Conditions {
  readonly where: string[]
  readonly values: Value[]
}

/** Adds a condition when there is a value for it. */
export function addCondition(
  { where, values }: Conditions,
  condition: string,
  value: Value | undefined,
): void {
  if (value === undefined) return
  where.push(condition)
  values.push(value)
}

interface Timestamps {
  readonly id: string
  readonly created_at: Instant
  readonly updated_at: Instant
}

/** The rows of `table` that meet the conditions, in order of a moment. */
export function listingByMoment<R extends Timestamps>(
  table: string,
  sort: RowSort,
  conditions: Conditions,
): Listing<R> {
  const isCreated = sort.startsWith('CREATED_AT')
  return {
    ...conditions,
    index: `${table}_${isCreated ? 'created' : 'updated'}`,
    by: isCreated ? 'created_at' : 'updated_at',
    isDescending: sort.endsWith('_DESC'),
  }
}
