import {
  type BashSearchQuery,
  formatInstant,
  type Instant,
  invalidInput,
  parseInstant,
} from '@slipway/protocol'
import type { BashEventRow } from '@slipway/storage'

type EventKey = Pick<BashEventRow, 'instant' | 'commandId' | 'id' | 'order'>

/** `<UTC time, 20 digits>_<kind>[_<command id>]_<id>`: the page id at which a page begins with this event. */
export function encodeBashPageId({ instant, commandId, id, order }: EventKey): string {
  const name = order === -1 ? ['BashCommand'] : ['BashOutput', commandId]
  return [formatInstant(instant).replaceAll(/\D/g, ''), ...name, id].join('_')
}

interface PagePosition {
  readonly id: string
  /** The first and the last instant that the digits can mean. */
  readonly from: Instant
  readonly to: Instant
  /** A client made it from its last event, in seconds: the page begins after that event. */
  readonly isAfter: boolean
}

/**
 * The range of a page, end exclusive, from the bounds of the query and its page id. An unknown page id is a
 * Problem `invalid`.
 */
export function instantRange(
  query: Pick<BashSearchQuery, 'timestamp__gte' | 'timestamp__lt' | 'page_id' | 'sort_order'>,
  findInstant: (id: string) => Instant | undefined,
): { from: Instant; to: Instant } {
  const { timestamp__gte: from = 0, timestamp__lt: to = Number.MAX_SAFE_INTEGER, page_id } = query
  if (page_id === undefined) return { from, to }
  const position = decodeBashPageId(page_id)
  if (position === undefined) throw invalidInput(['query', 'page_id'], 'Unknown page id')
  const knownInstant = findInstant(position.id)
  const skipped = position.isAfter && knownInstant !== undefined ? 1 : 0
  return query.sort_order === 'TIMESTAMP_DESC'
    ? { from, to: Math.min(to, (knownInstant ?? position.to) + 1 - skipped) }
    : { from: Math.max(from, (knownInstant ?? position.from) + skipped), to }
}

/** Undefined for a text that is not a page id. */
function decodeBashPageId(text: string): PagePosition | undefined {
  const match = /^(\d{14})(\d{0,6})_Bash(?:Command|Output)(?:_[0-9a-f]{32})?_([0-9a-f]{32})$/i.exec(text)
  if (match === null) return undefined
  const [, seconds = '', fraction = '', id = ''] = match
  const from = parseDigits(seconds, fraction.padEnd(6, '0'))
  const to = parseDigits(seconds, fraction.padEnd(6, '9'))
  if (from === undefined || to === undefined) return undefined
  return { id: id.toLowerCase(), from, to, isAfter: fraction.length < 6 }
}

function parseDigits(seconds: string, fraction: string): Instant | undefined {
  const [, y, mo, d, h, mi, s] = /^(.{4})(..)(..)(..)(..)(..)$/.exec(seconds) ?? []
  return parseInstant(`${y}-${mo}-${d}T${h}:${mi}:${s}.${fraction}Z`)
}
