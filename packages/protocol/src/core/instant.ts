/** Microseconds since 1970-01-01T00:00:00Z, a safe integer; `Date` stops at milliseconds. */
export type Instant = number

/**
 * A time to the last digit that was sent: an instant, and what the text has beyond it as digits of a decimal
 * fraction without zeros at the end, absent when there are none. Texts of equal instants sort as their times
 * do.
 */
export interface Moment {
  readonly instant: Instant
  readonly finer?: string | undefined
}

/** A bound of time: an instant, or a moment that is finer. */
export type Bound = Instant | Moment

/** An instant is a microsecond from 1684-10-19 to 2255-03-14. */
const maxInstant = 9_000_000_000_000_000
/** Beyond that it is a step of 50 ms, so that safe integers last for every year. The rest is in `finer`. */
const farStep = 50_000
const farStepsPerSecond = 1_000_000 / farStep

const dateTimePattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d{2}):?(\d{2})?)?)?$/

/** The instant of `parseMoment`: what is finer is cut. */
export function parseInstant(text: string): Instant | undefined {
  return parseMoment(text)?.instant
}

/**
 * Parses an RFC 3339 date-time: any number of fraction digits, a blank for the `T`, no seconds, or a date
 * alone (midnight); UTC without a zone. Undefined for anything else, such as a day that the month does not
 * have, hour 24 or an offset beyond 23:59. A leap second (`:60`) is the start of the next minute.
 */
export function parseMoment(text: string): Moment | undefined {
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
  return toMoment(seconds, fraction)
}

function toMoment(seconds: number, fraction: string): Moment {
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0'))
  const further = fraction.slice(6)
  const instant = seconds * 1_000_000 + micros
  if (instant >= -maxInstant && instant < maxInstant) return newMoment(instant, further)
  const end = instant < 0 ? -maxInstant : maxInstant
  const steps = (seconds - end / 1_000_000) * farStepsPerSecond + Math.floor(micros / farStep)
  return newMoment(end + steps, String(micros % farStep).padStart(5, '0') + further)
}

function newMoment(instant: Instant, digits: string): Moment {
  const finer = digits.replace(/0+$/, '')
  return finer === '' ? { instant } : { instant, finer }
}

/** The first instant that is not before a bound: enough to compare it with times that are not finer. */
export function firstInstant(bound: Bound): Instant {
  return typeof bound === 'number' ? bound : bound.instant + (bound.finer ? 1 : 0)
}

/** Negative when a moment is before a bound, 0 when they are equal. */
export function compareMoments({ instant, finer = '' }: Moment, bound: Bound): number {
  const other = typeof bound === 'number' ? { instant: bound } : bound
  const { finer: otherFiner = '' } = other
  return instant - other.instant || (finer < otherFiner ? -1 : finer > otherFiner ? 1 : 0)
}

/** The instant of a new event: now, and above that of the newest as long as four digits write the year. */
export function nextInstant(now: Instant, newest: Instant | undefined): Instant {
  return newest === undefined ? now : Math.min(Math.max(now, newest + 1), lastWritable)
}

/** The last formatted millisecond: the events of one append share it. */
let lastFormatted = { ms: Number.NaN, text: '' }

/** The one form of every timestamp that we write: UTC, six digits, `2026-03-01T10:00:00.000001Z`. */
export function formatInstant(instant: Instant): string {
  const isFar = instant < -maxInstant || instant >= maxInstant
  const ms = isFar ? farMilliseconds(instant) : Math.floor(instant / 1000)
  const micros = isFar ? 0 : instant - ms * 1000
  if (ms !== lastFormatted.ms) lastFormatted = { ms, text: new Date(ms).toISOString().slice(0, -1) }
  return `${lastFormatted.text}${String(micros).padStart(3, '0')}Z`
}

function farMilliseconds(instant: Instant): number {
  const end = instant < 0 ? -maxInstant : maxInstant
  return end / 1_000 + (instant - end) * (farStep / 1_000)
}

const lastWritable = parseInstant('9999-12-31T23:59:59.95Z') ?? maxInstant

/** Null for null. */
export function formatNullableInstant(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant)
}
