import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatDateTime } from '../ui/format.ts'
import { ShowMore } from '../ui/show-more.tsx'
import { Table } from '../ui/table.tsx'

/** Who changed what on this server, the newest first; for administrators. */
export function AuditPage() {
  const [text, setText] = useState('')
  const [isRefused, setRefused] = useState(false)
  const pages = useInfiniteQuery({
    queryKey: ['audit', text, isRefused],
    queryFn: ({ pageParam, signal }) =>
      sandboxServer.call('listAudit', {
        query: {
          limit: '50',
          ...(text.trim() !== '' && { text: text.trim() }),
          ...(isRefused && { refused: 'true' }),
          ...(pageParam !== '' && { page_id: pageParam }),
        },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ next_page_id }) => next_page_id ?? undefined,
    placeholderData: (old) => old,
  })
  const users = useAnswer(['users'], (signal) =>
    sandboxServer.call('listUsers', { query: { limit: '100' }, signal }),
  )
  const names = new Map((users.data?.items ?? []).map(({ id, name, email }) => [`user:${id}`, name ?? email]))
  const items = pages.data?.pages.flatMap((page) => page.items) ?? []
  return (
    <>
      <div className="page-head">
        <h1>Audit</h1>
      </div>
      <search className="table-filter">
        <input
          type="search"
          aria-label="Search in the audit"
          placeholder="Route or id"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
        <button
          type="button"
          aria-pressed={isRefused}
          className={isRefused ? 'toggled' : ''}
          onClick={() => setRefused(!isRefused)}
        >
          Refused only
        </button>
        <button type="button" onClick={() => void pages.refetch()} disabled={pages.isFetching}>
          Refresh
        </button>
      </search>
      <Table
        query={pages}
        empty={text === '' && !isRefused ? 'Nothing was changed yet' : 'Nothing matches'}
        head={['Time', 'Who', 'What', 'About', 'Answer']}
        rows={items.map((record) => ({
          key: record.id,
          cells: [
            <time key="time" dateTime={record.time} className="nowrap">
              {formatDateTime(Date.parse(record.time))}
            </time>,
            <span key="who">
              {record.caller === null ? '–' : (names.get(record.caller) ?? shortId(record.caller))}
              {record.via !== null && <p className="quiet">key {record.via.slice(0, 12)}</p>}
            </span>,
            <span key="what" className="wrap">
              {record.action}
              <p className="quiet mono">
                {record.method} {record.route}
              </p>
            </span>,
            <span key="about" className="wrap">
              {record.target.type.replace('_', ' ')} <span className="mono">{aboutOf(record, names)}</span>
              <Changes before={record.before} after={record.after} />
            </span>,
            <span key="status" className={(record.status ?? 500) >= 400 ? 'risk high' : 'risk'}>
              {record.status ?? 'unknown'}
            </span>,
          ],
        }))}
      />
      <ShowMore pages={pages} />
      <p className="quiet">
        The requests of a year that changed something or showed a secret, and those that were refused.{' '}
        <code>slipway audit export</code> writes them as JSON lines or CSV.
      </p>
    </>
  )
}

type Entry = Awaited<ReturnType<typeof sandboxServer.call<'listAudit'>>>['items'][number]

/** The name of a user, or the id of what it was about. */
function aboutOf({ target }: Entry, names: ReadonlyMap<string, string | null>): string {
  return target.id === null ? '' : (names.get(`user:${target.id}`) ?? shortId(target.id))
}

/** The members that changed, each as `name: before → after`. */
function Changes({ before, after }: Pick<Entry, 'before' | 'after'>) {
  const members = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])]
  const text = (value: unknown) => (value === undefined || value === null ? '–' : JSON.stringify(value))
  return members.length === 0 ? null : (
    <details>
      <summary>{members.join(', ')}</summary>
      {members.map((name) => (
        <p key={name} className="mono wrap">
          {name}: {text(before?.[name])} → {text(after?.[name])}
        </p>
      ))}
    </details>
  )
}

/** `user:6f9619ff…`: enough to tell ids apart. */
function shortId(id: string): string {
  const [kind, rest] = id.includes(':') ? id.split(':', 2) : ['', id]
  const short = (rest ?? '').length > 16 ? `${rest?.slice(0, 12)}…` : (rest ?? '')
  return kind === '' ? short : `${kind} ${short}`
}
