import { invalidInput } from '@slipway/protocol'

/** Where in an order a page ended: the last row's value and, among rows of the same value, its id. */
export interface PagePosition {
  readonly value: string | number
  readonly id: string
}

const prefix = 'r1_'

/**
 * An opaque text that holds the place itself, not the name of a row, so that it is good when the row has moved or gone. Whose
 * rows a page shows is decided by the query alone.
 */
export function encodePageId(order: string, { value, id }: PagePosition): string {
  return prefix + Buffer.from(JSON.stringify([order, value, id])).toString('base64url')
}

/** Throws a Problem `invalid` for what is no page id of this order. */
export function decodePageId(order: string, text: string): PagePosition {
  const position = text.startsWith(prefix) ? decodePosition(order, text.slice(prefix.length)) : undefined
  if (position === undefined || encodePageId(order, position) !== text)
    throw invalidInput(['query', 'page_id'], 'Unknown page id')
  return position
}

function decodePosition(order: string, encoded: string): PagePosition | undefined {
  const members = parseJson(Buffer.from(encoded, 'base64url').toString())
  if (!Array.isArray(members) || members[0] !== order) return undefined
  const [, value, id]: unknown[] = members
  if (typeof id !== 'string') return undefined
  if (typeof value === 'string' || Number.isSafeInteger(value)) return { value: value as string | number, id }
  return undefined
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
