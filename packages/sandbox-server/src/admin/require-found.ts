import { Problem } from '@slipway/protocol'

export function requireFound<T>(row: T | undefined, what: string): T {
  if (row === undefined) throw new Problem('not_found', `There is no such ${what}`)
  return row
}
