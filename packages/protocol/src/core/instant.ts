/**
 * A moment as whole microseconds since 1970-01-01T00:00:00Z, a safe integer of JavaScript. `Date` is not good enough
 * for it: it stops at milliseconds.
 */
export type Instant = number

/** Moments before 1684-10-19 and after 2255-03-14 are held at these ends, with room left for what comes after. */
const maxInstant = 9_000_000_000_000_000

const dateTimePattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d{2}):?(\d{2})?)?)?$/

/**
 * Reads an RFC 3339 date-time, with or without zone (without: UTC), with any number of fraction digits (those
 * after the sixth are cut), also with a blank for the `T`, without seconds, or a date alone (midnight).
 * Answers undefined for anything else: a day that the month does not have, hour 24, a leap second (`:60` is
 * read as the first moment of the next minute), an offset beyond 23:59.
 */
export function parseInstant(text: string): Instant | undefined {
  const m = dateTimePattern.exec(text)
  if (m === null) return undefined
  const [
    ,
    year,
    month,
    day,
    hour = '0',
    minute = '0',
    second = '0',
    fraction = '',
    ,
    sign,
    offHour,
    offMinute,
  ] = m
  const y = Number(year)
  const mo = Number(month)
  const d = Number(day)
  const h = Number(hour)
  const mi = Number(minute)
  const s = Number(second)
  if (mo < 1 || mo > 12 || d < 1 || d > daysInMonth(y, mo) || h > 23 || mi > 59 || s > 60) return undefined
  const oh = Number(offHour ?? 0)
  const om = Number(offMinute ?? 0)
  if (oh > 23 || om > 59) return undefined
  const offset = (oh * 60 + om) * (sign === '-' ? -1 : 1)
  const seconds = daysSinceEpoch(y, mo, d) * 86_400 + h * 3_600 + mi * 60 + s - offset * 60
  const instant = seconds * 1_000_000 + Number(fraction.slice(0, 6).padEnd(6, '0'))
  return Math.max(-maxInstant, Math.min(maxInstant, instant))
}

/** The one form of every timestamp that we write: UTC, six digits, `2026-03-01T10:00:00.000001Z`. */
export function formatInstant(instant: Instant): string {
  const ms = Math.floor(instant / 1000)
  const micros = instant - ms * 1000
  return `${new Date(ms).toISOString().slice(0, -1)}${String(micros).padStart(3, '0')}Z`
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/** Days of the proleptic Gregorian calendar from 1970-01-01; years below 100 too, which `Date.UTC` moves. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year
  const era = Math.floor(y / 400)
  const yearOfEra = y - era * 400
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1
  return (
    era * 146_097 +
    yearOfEra * 365 +
    Math.floor(yearOfEra / 4) -
    Math.floor(yearOfEra / 100) +
    dayOfYear -
    719_468
  )
}
