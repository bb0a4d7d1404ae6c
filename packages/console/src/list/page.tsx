import type { CallOutput } from '@slipway/client'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type DragEvent, type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import { agentServer } from '../api/session.ts'
import { isTyping } from '../app/shortcuts.tsx'
import { Icon } from '../ui/icon.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import { useConversationActions } from './actions.ts'
import { type ListSearch, statuses, statusLabels } from './list-search.ts'
import { RenameDialog } from './rename-dialog.tsx'
import { ConversationRow } from './row.tsx'
import { TextHits } from './text-hits.tsx'

type SearchChange = Partial<Record<keyof ListSearch, string | undefined>>
type Row = CallOutput<'searchConversations'>['items'][number]

/** All conversations, the newest first, with search in titles, filters, and what can be done to one. */
export function ListPage() {
  const search = useSearch({ from: '/' })
  const navigate = useNavigate({ from: '/' })
  const setSearch = (change: SearchChange) =>
    void navigate({ search: (old) => ({ ...old, ...change }) as ListSearch, replace: true })
  const { q = '', status, tag } = search
  const { hidden, remove, importFiles } = useConversationActions()
  const { query, rows } = useRows(search, hidden)
  const scroller = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 68,
    overscan: 8,
    getItemKey: (at) => rows[at]?.id ?? at,
  })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (last >= rows.length - 20 && query.hasNextPage && !query.isFetching) void query.fetchNextPage()
  }, [last, rows.length, query])

  const settledText = useSettled(q)
  const [selected, setSelected] = useState(0)
  const [renaming, setRenaming] = useState<{ id: string; title: string }>()
  const searchField = useRef<HTMLInputElement>(null)
  const select = (at: number) => {
    const next = Math.min(Math.max(0, at), rows.length - 1)
    setSelected(next)
    virtual.scrollToIndex(next)
    requestAnimationFrame(() => document.getElementById(`row-${rows[next]?.id}`)?.focus())
  }
  const rename = ({ id, title }: Row) => setRenaming({ id, title: title ?? '' })
  useKeys((key) => {
    const row = rows[selected]
    if (key === 'j') select(selected + 1)
    else if (key === 'k') select(selected - 1)
    else if (key === '/') searchField.current?.focus()
    else if (key === 'e' && row) rename(row)
    else if (key === '#' && row) remove(row.id, row.title)
    else return false
    return true
  })

  const [isDragging, setDragging] = useState(false)
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setDragging(false)
    void importFiles([...event.dataTransfer.files])
  }
  const fileField = useRef<HTMLInputElement>(null)
  const isEmpty = rows.length === 0 && !query.hasNextPage
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is a shortcut for the import button
    <div
      className={isDragging ? 'list-page dragging' : 'list-page'}
      onDragOver={(event) => {
        event.preventDefault()
        setDragging(true)
      }}
      onDragLeave={(event) => event.currentTarget === event.target && setDragging(false)}
      onDrop={drop}
    >
      <div className="page-head">
        <h1>Conversations</h1>
        <span className="spacer" />
        <input
          ref={fileField}
          type="file"
          accept=".jsonl,.ndjson"
          multiple
          hidden
          onChange={(event) => void importFiles([...(event.target.files ?? [])])}
        />
        <button type="button" onClick={() => fileField.current?.click()}>
          <Icon name="upload" /> Import
        </button>
        <Link to="/new" className="button primary">
          <Icon name="plus" /> New
        </Link>
      </div>
      <SearchBar {...{ search, setSearch, searchField }} />
      {query.isPending && <Loading />}
      {query.isError && rows.length === 0 && (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      )}
      {query.isSuccess && isEmpty && (
        <NothingHere isFiltered={q !== '' || status !== undefined || tag !== undefined} />
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
      <section className="list-scroller" ref={scroller} tabIndex={0} aria-label="Conversations">
        <ul style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const info = rows[item.index]
            if (info === undefined) return null
            return (
              <li
                key={item.key}
                data-index={item.index}
                ref={virtual.measureElement}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <ConversationRow
                  info={info}
                  onFocus={() => setSelected(item.index)}
                  onTag={(name) => setSearch({ tag: name })}
                  onRename={() => rename(info)}
                  onDelete={() => remove(info.id, info.title)}
                />
              </li>
            )
          })}
        </ul>
      </section>
      {settledText.length > 2 && <TextHits text={settledText} />}
      {renaming && <RenameDialog {...renaming} onClose={() => setRenaming(undefined)} />}
      {isDragging && <div className="drop-hint">Drop exported conversations (.jsonl) to import them</div>}
    </div>
  )
}

/** The conversations of a search, page by page, without those that were just removed. */
function useRows({ q = '', status, tag }: ListSearch, hidden: ReadonlySet<string>) {
  const query = useInfiniteQuery({
    queryKey: ['conversations', status, tag],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      agentServer.call('searchConversations', {
        query: {
          limit: '100',
          sort_order: 'UPDATED_AT_DESC',
          page_id: pageParam,
          status,
          ...(tag === undefined ? {} : { tag: [tag] }),
        },
        signal,
      }),
    getNextPageParam: (page) => page.next_page_id ?? undefined,
    refetchInterval: 5_000,
  })
  const rows = useMemo(() => {
    const needle = q.toLowerCase()
    const all = (query.data?.pages ?? []).flatMap((page) => page.items)
    return all.filter(
      ({ id, title }) =>
        !hidden.has(id) && (needle === '' || `${title ?? ''}\n${id}`.toLowerCase().includes(needle)),
    )
  }, [query.data, q, hidden])
  // A search in titles reads all pages: the server has no such filter.
  useEffect(() => {
    if (q !== '' && query.hasNextPage && !query.isFetching) void query.fetchNextPage()
  }, [q, query])
  return { query, rows }
}

/** The text when the typing has paused, for the search in messages. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 350)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

/** `onKey` returns whether it did something. */
function useKeys(onKey: (key: string) => boolean) {
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return
      if (onKey(event.key)) event.preventDefault()
    }
    document.addEventListener('keydown', listener)
    return () => document.removeEventListener('keydown', listener)
  })
}

function SearchBar(props: {
  readonly search: ListSearch
  readonly setSearch: (change: SearchChange) => void
  readonly searchField: RefObject<HTMLInputElement | null>
}) {
  const { search, setSearch, searchField } = props
  const { q = '', status, tag } = search
  return (
    <search className="filter-bar">
      <input
        ref={searchField}
        type="search"
        aria-label="Search in titles and messages"
        placeholder="Search in titles and messages"
        value={q}
        onChange={(event) => setSearch({ q: event.target.value || undefined })}
      />
      <select
        aria-label="Status"
        value={status ?? ''}
        onChange={(event) => setSearch({ status: event.target.value || undefined })}
      >
        <option value="">Any status</option>
        {statuses.map((name) => (
          <option key={name} value={name}>
            {statusLabels[name]}
          </option>
        ))}
      </select>
      {tag !== undefined && (
        <button type="button" className="chip" onClick={() => setSearch({ tag: undefined })}>
          {tag} <Icon name="close" />
          <span className="sr-only">Show all tags</span>
        </button>
      )}
    </search>
  )
}

function NothingHere({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) return <EmptyState icon="search" title="Nothing matches" />
  return (
    <EmptyState icon="spark" title="No conversations yet">
      <p>Begin one, or drop an exported conversation (.jsonl) here.</p>
      <Link to="/new" className="button primary">
        New conversation
      </Link>
    </EmptyState>
  )
}
