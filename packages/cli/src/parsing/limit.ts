import { unlimited } from '@slipway/protocol/client'
/** A limit of a user; `default` is the one of the server, -1 is unlimited. */
export type Limit = number | 'default'

/** Undefined for what is neither a whole number up to `max` nor a word for a limit. */
export function parseLimit(text: string, max: number): Limit | undefined {
  if (text === 'default') return text
  if (text === 'unlimited' || text === 'none' || text === String(unlimited)) return unlimited
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return value <= max ? value : undefined
}
