import { type Instant, type Moment, parseMoment } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'

/** Instants of years that are far away may be one below or above what earlier versions stored. */
const maxFarDifference = 1
/** Digits beyond microseconds that are not all zeros. */
const finerDigits = /[.,]\d{6}\d*[1-9]/

/** An instant that is no microsecond, but a step of 50 ms. */
export const farInstant = 9_000_000_000_000_000

/**
 * The moment of an event that an earlier version stored by its instant alone; undefined when nothing is
 * finer, and for an event that does not sort by its own timestamp.
 */
export function storedMoment(body: Buffer, stored: Instant): Moment | undefined {
  const isFar = Math.abs(stored) >= farInstant
  if (!isFar && !finerDigits.test(body.toString('latin1'))) return undefined
  const value = parseJson(body.toString())
  const timestamp = isRecord(value) ? value.timestamp : undefined
  const moment = typeof timestamp === 'string' ? parseMoment(timestamp) : undefined
  if (moment === undefined) return undefined
  const difference = Math.abs(moment.instant - stored)
  if (difference > (isFar ? maxFarDifference : 0)) return undefined
  return moment.finer === undefined && difference === 0 ? undefined : moment
}
