import { createPageIdCodec, unknownPageId } from '../paging/page-id-codec.ts'
import type { PageQuery, RowPage } from './rows.ts'

const pageIds = createPageIdCodec<string>('', (key) => key, String)

/**
 * A page of a list in memory, whose items have different keys. A Problem `invalid` for a page id that is not
 * of this list.
 */
export function pageOfList<T>(
  list: readonly T[],
  keyOf: (item: T) => string,
  { limit, page_id }: PageQuery,
): RowPage<T> {
  const key = page_id === undefined ? undefined : pageIds.decode(page_id)
  const start = page_id === undefined ? 0 : list.findIndex((item) => keyOf(item) === key)
  if (start === -1) throw unknownPageId()
  const next = list[start + limit]
  return {
    items: list.slice(start, start + limit),
    next_page_id: next === undefined ? null : pageIds.encode(keyOf(next)),
  }
}
