import { parseInstant } from '@slipway/protocol/client'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** A server's time for people: `now`, `5m ago`, `3h ago`, `yesterday`, `4d ago`, then the date. */
export function relativeTime(time: string, now = Date.now()): string {
  // Unlike in `Date.parse`, a time without a zone is UTC, as servers mean it.
  const instant = parseInstant(time)
  if (instant === undefined) return ''
  const at = Math.floor(instant / 1_000)
  const age = now - at
  if (age < minute) return 'now'
  if (age < hour) return `${Math.floor(age / minute)}m ago`
  if (age < day) return `${Math.floor(age / hour)}h ago`
  if (age < 2 * day) return 'yesterday'
  if (age < 14 * day) return `${Math.floor(age / day)}d ago`
  return new Date(at).toISOString().slice(0, 10)
}

/** A server's time in UTC, to the second: `2026-03-01 12:00:00Z`; as it is when it is no time. */
export function utcTime(time: string): string {
  const instant = parseInstant(time)
  if (instant === undefined) return time
  const at = new Date(Math.floor(instant / 1_000))
  return `${at.toISOString().slice(0, 19).replace('T', ' ')}Z`
}

const units: Readonly<Record<string, number>> = { s: 1_000, m: minute, h: hour, d: day, w: 7 * day }

/**
 * A moment that a person names, as an ISO time: an age (`2h`, `3d`), `now`, `today`, `yesterday` (their first
 * moments, in local time), a date, or a time with a date. Undefined for anything else.
 */
export function parseTime(text: string, now = new Date()): string | undefined {
  const [, count, unit = ''] = /^(\d{1,6})([smhdw])(?: ago)?$/.exec(text) ?? []
  if (count !== undefined) return new Date(now.getTime() - Number(count) * (units[unit] ?? 0)).toISOString()
  if (text === 'now') return now.toISOString()
  if (text === 'today' || text === 'yesterday') {
    const days = text === 'today' ? 0 : 1
    return new Date(now.getFullYear(), now.getMonth(), now.getDate() - days).toISOString()
  }
  const [, year, month, date] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? []
  if (year !== undefined) {
    const local = new Date(Number(year), Number(month) - 1, Number(date))
    return local.getMonth() === Number(month) - 1 ? local.toISOString() : undefined
  }
  // With its own digits: those beyond milliseconds count.
  if (/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return text
  return undefined
}
