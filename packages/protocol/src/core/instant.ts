/** Microseconds since 1970-01-01T00:00:00Z, a safe integer; `Date` stops at milliseconds. */
export type Instant = number

/** Exact from 1684-10-19 to 2255-03-14. */
const maxInstant = 9_000_000_000_000_000
/**
 * Beyond that in steps of 50 ms, so that order holds for every year and safe integers remain for later ones.
 */
const farStep = 50_000

const dateTimePattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d{2}):?(\d{2})?)?)?$/

/**
 * Parses an RFC 3339 date-time: any number of fraction digits (cut after six), a blank for the `T`, no
 * seconds, or a date alone (midnight); UTC without a zone. Undefined for anything else, such as a day that
 * the month does not have, hour 24 or an offset beyond 23:59. A leap second (`:60`) is the start of the next
 * minute.
 */
export function parseInstant(text: string): Instant | undefined {
  const m = dateTimePattern.exec(text)
  if (m === null) return undefined
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = m
    .slice(1, 7)
    .map((digits) => Number(digits ?? 0))
  const [, , , , , , , fraction = '', , sign, offsetHours = 0, offsetMinutes = 0] = m
  const date = new Date(0)
  // Not `Date.UTC`, which moves years below 100.
  const midnight = date.setUTCFullYear(year, month - 1, day)
  const isDay = date.getUTCMonth() === month - 1 && date.getUTCDate() === day
  if (!isDay || hour > 23 || minute > 59 || second > 60) return undefined
  if (Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return undefined
  const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * (sign === '-' ? -1 : 1)
  const seconds = midnight / 1_000 + hour * 3_600 + minute * 60 + second - offset * 60
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0'))
  const instant = seconds * 1_000_000 + micros
  if (Math.abs(instant) <= maxInstant) return instant
  const end = instant < 0 ? -maxInstant : maxInstant
  return end + Math.floor(((seconds - end / 1_000_000) * 1_000_000 + micros) / farStep)
}

/**
 * The first instant that is not before the text's moment: what is at or after, or before, a moment finer than
 * a microsecond is at or after, or before, this one.
 */
export function parseBound(text: string): Instant | undefined {
  const instant = parseInstant(text)
  const isFiner = /[.,]\d{6}\d*[1-9]/.test(text)
  return instant === undefined || !isFiner ? instant : instant + 1
}

/** The last formatted millisecond: the events of one append share it. */
let lastFormatted = { ms: Number.NaN, text: '' }

/** The one form of every timestamp that we write: UTC, six digits, `2026-03-01T10:00:00.000001Z`. */
export function formatInstant(instant: Instant): string {
  const ms = Math.floor(instant / 1000)
  const micros = instant - ms * 1000
  if (ms !== lastFormatted.ms) lastFormatted = { ms, text: new Date(ms).toISOString().slice(0, -1) }
  return `${lastFormatted.text}${String(micros).padStart(3, '0')}Z`
}
