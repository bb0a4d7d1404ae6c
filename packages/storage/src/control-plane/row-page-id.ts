import { createPageIdCodec, unknownPageId } from '../paging/page-id-codec.ts'

/** The last row of a page: its value in the order, and its id. */
export interface PagePosition {
  readonly value: string | number
  readonly id: string
}

const codec = createPageIdCodec<readonly [order: string, value: string | number, id: string]>(
  'r1_',
  JSON.stringify,
  (bytes) => {
    const [order, value, id] = JSON.parse(bytes.toString())
    const isValid = typeof id === 'string' && (typeof value === 'string' || Number.isSafeInteger(value))
    return isValid ? [order, value, id] : undefined
  },
)

/** Contains the position itself: it stays valid when the row changes or is removed. */
export function encodeRowPageId(order: string, { value, id }: PagePosition): string {
  return codec.encode([order, value, id])
}

/** Throws a Problem `invalid` for a text that is not a page id of this order. */
export function decodeRowPageId(order: string, text: string): PagePosition {
  const [textOrder, value, id] = codec.decode(text) ?? []
  if (textOrder !== order || value === undefined || id === undefined) throw unknownPageId()
  return { value, id }
}
