import { createPageIdCodec, unknownPageId } from '@slipway/storage'

/** A page of a provider. */
export interface ProviderPage<T> {
  readonly items: readonly T[]
  /** What `read` takes for the next page; undefined at the end. */
  readonly next: string | undefined
}

/**
 * A list that a provider shows in pages: the one of a cursor, or the first. The size of its pages is always
 * the same, so that a place in a page means the same item whatever limit a caller asks for.
 */
export type ProviderList<T> = (cursor: string | undefined) => Promise<ProviderPage<T>>

/** Requests to providers for one page of ours: a filter that matches little continues at the next one. */
const maxReads = 10

interface Position {
  readonly list: number
  readonly offset: number
  readonly cursor: string | undefined
}

const pageIds = createPageIdCodec<Position>(
  '',
  ({ list, offset, cursor = '' }) => `${list}:${offset}:${cursor}`,
  (bytes) => {
    const [, list, offset, cursor] = /^(\d{1,4}):(\d{1,4}):(.*)$/s.exec(String(bytes)) ?? []
    if (list === undefined) return undefined
    return { list: Number(list), offset: Number(offset), cursor: cursor || undefined }
  },
)

/**
 * A page of several lists, one after the other. Walking by `next_page_id` shows every item, also with another
 * limit on each page. Rejects with the Problem of a provider, never with a part of a page in its place.
 */
export async function readPage<T>(
  lists: readonly ProviderList<T>[],
  { limit, page_id }: { readonly limit: number; readonly page_id?: string | undefined },
): Promise<{ items: T[]; next_page_id: string | null }> {
  const start = page_id === undefined ? { list: 0, offset: 0, cursor: undefined } : pageIds.decode(page_id)
  if (start === undefined || (page_id !== undefined && start.list >= lists.length)) throw unknownPageId()
  const items: T[] = []
  let position: Position = start
  for (let reads = 0; reads < maxReads && items.length < limit; reads++) {
    const { list, offset, cursor } = position
    const page = await lists[list]?.(cursor)
    if (page === undefined) break
    const taken = page.items.slice(offset, offset + limit - items.length)
    items.push(...taken)
    const end = offset + taken.length
    if (end < page.items.length) position = { ...position, offset: end }
    else if (page.next === undefined) position = { list: list + 1, offset: 0, cursor: undefined }
    else position = { list, offset: 0, cursor: page.next }
  }
  return { items, next_page_id: position.list < lists.length ? pageIds.encode(position) : null }
}
