import { invalid } from '@slipway/protocol'

/** Where in an order a page ended: the last row's value and, among rows of the same value, its id. */
export interface Key {
  readonly value: string | number
  readonly id: string
}

const prefix = 'r1_'

/**
 * An opaque text that holds the place itself, not the name of a row, so that it is good when the row has moved or gone. Whose
 * rows a page shows is decided by the query alone.
 */
export function writePageId(order: string, { value, id }: Key): string {
  return prefix + Buffer.from(JSON.stringify([order, value, id])).toString('base64url')
}

/** Throws a Problem `invalid` for what is no page id of this order. */
export function readPageId(order: string, text: string): Key {
  const key = text.startsWith(prefix) ? keyIn(order, text.slice(prefix.length)) : undefined
  if (key === undefined || writePageId(order, key) !== text)
    throw invalid(['query', 'page_id'], 'Unknown page id')
  return key
}

function keyIn(order: string, encoded: string): Key | undefined {
  const members = parsed(Buffer.from(encoded, 'base64url').toString())
  if (!Array.isArray(members) || members[0] !== order) return undefined
  const [, value, id]: unknown[] = members
  if (typeof id !== 'string') return undefined
  if (typeof value === 'string' || Number.isSafeInteger(value)) return { value: value as string | number, id }
  return undefined
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
