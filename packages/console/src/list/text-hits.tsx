import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { getFromServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'

interface Hit {
  readonly position: number
  readonly timestamp: string
  /** A piece of the text around the match, and where in it the match is. */
  readonly text: string
  readonly match: readonly [number, number]
}

interface Found {
  readonly conversation_id: string
  readonly title: string | null
  readonly hits: readonly Hit[]
}

const maxConversations = 20
/** A page of the search is of bounded time and may be empty, so some are read in a row. */
const maxPages = 20

/** What the messages of all conversations say about a text; nothing where the server cannot search them. */
export function TextHits({ text }: { readonly text: string }) {
  const found = useQuery({
    queryKey: ['text-hits', text],
    queryFn: ({ signal }) => searchText(text, signal),
    placeholderData: (old) => old,
    staleTime: 30_000,
  })
  if (!found.data || found.data.length === 0) return null
  return (
    <section className="text-hits" aria-label="Found in messages">
      <h2>In messages</h2>
      <ul className="cards">
        {found.data.map(({ conversation_id, title, hits }) => (
          <li key={conversation_id}>
            <strong dir="auto">{title ?? 'Untitled'}</strong>
            {hits.map(({ position, text: piece, match: [start, end], timestamp }) => (
              <Link
                key={position}
                to="/c/$id"
                params={{ id: conversation_id }}
                hash={String(position)}
                className="text-hit wrap"
              >
                <span dir="auto">
                  {piece.slice(0, start)}
                  <mark>{piece.slice(start, end)}</mark>
                  {piece.slice(end)}
                </span>{' '}
                <span className="quiet">{formatAgo(Date.parse(timestamp))}</span>
              </Link>
            ))}
          </li>
        ))}
      </ul>
    </section>
  )
}

async function searchText(text: string, signal: AbortSignal): Promise<readonly Found[]> {
  const found: Found[] = []
  let pageId: string | null = ''
  for (let count = 0; count < maxPages && pageId !== null && found.length < maxConversations; count++) {
    const query = new URLSearchParams({ body: text, ...(pageId === '' ? {} : { page_id: pageId }) })
    const response = await getFromServer(`api/conversations/search_text?${query}`, signal)
    if (!response.ok) break
    const page: { items: Found[]; next_page_id: string | null } = await response.json()
    found.push(...page.items)
    pageId = page.next_page_id
  }
  return found
}
