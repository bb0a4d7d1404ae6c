import { formatInstant, type Instant, parseInstant } from '@slipway/protocol'

/** What the name of a bash event is made of. */
export interface BashEventKey {
  readonly instant: Instant
  readonly kind: 'BashCommand' | 'BashOutput'
  /** 32 hexadecimal digits, as `id`. */
  readonly commandId: string
  readonly id: string
}

/** `<UTC time, 20 digits>_<kind>[_<command id>]_<id>`: the page id at which a page begins with this event. */
export function encodePageId({ instant, kind, commandId, id }: BashEventKey): string {
  return [instantDigits(instant), kind, ...(kind === 'BashOutput' ? [commandId] : []), id].join('_')
}

export interface PagePosition {
  readonly id: string
  /** The first and the last moment that the digits may mean. */
  readonly from: Instant
  readonly to: Instant
  /** Made by a client of the last event that it has seen: it tells seconds, and asks for what comes after. */
  readonly isAfter: boolean
}

/** Undefined for a text that is no name. */
export function decodePageId(text: string): PagePosition | undefined {
  const match = /^(\d{14})(\d{0,6})_Bash(?:Command|Output)(?:_[0-9a-f]{32})?_([0-9a-f]{32})$/i.exec(text)
  if (match === null) return undefined
  const [, seconds = '', fraction = '', id = ''] = match
  const from = parseDigits(seconds, fraction.padEnd(6, '0'))
  const to = parseDigits(seconds, fraction.padEnd(6, '9'))
  if (from === undefined || to === undefined) return undefined
  return { id: id.toLowerCase(), from, to, isAfter: fraction.length < 6 }
}

/** `20260301100000000001` */
export function instantDigits(instant: Instant): string {
  return formatInstant(instant).replaceAll(/\D/g, '')
}

function parseDigits(seconds: string, fraction: string): Instant | undefined {
  const [, y, mo, d, h, mi, s] = /^(.{4})(..)(..)(..)(..)(..)$/.exec(seconds) ?? []
  return parseInstant(`${y}-${mo}-${d}T${h}:${mi}:${s}.${fraction}Z`)
}
