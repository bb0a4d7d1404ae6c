interface Pages {
  readonly hasNextPage: boolean
  readonly isFetchingNextPage: boolean
  fetchNextPage(): Promise<unknown>
}

/** Requests the next page of a list, while there is one. */
export function ShowMore({ pages }: { readonly pages: Pages }) {
  if (!pages.hasNextPage) return null
  return (
    <button type="button" onClick={() => void pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
      Show more
    </button>
  )
}
