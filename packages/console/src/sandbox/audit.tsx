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
        rows={items.map((record, at) => ({
          key: `${record.request_id} ${record.time} ${at}`,
          cells: [
            <time key="time" dateTime={record.time} className="nowrap">
              {formatDateTime(Date.parse(record.time))}
            </time>,
            <span key="who">
              {record.caller === null ? '–' : (names.get(record.caller) ?? shortId(record.caller))}
              {record.via !== null && <p className="quiet">key {record.via.slice(0, 12)}</p>}
            </span>,
            <span key="what" className="mono wrap">
              {record.method} {record.route}
            </span>,
            <span key="about" className="mono wrap">
              {[record.sandbox, record.conversation]
                .filter((id) => id !== null)
                .map(shortId)
                .join(', ')}
            </span>,
            <span key="status" className={record.status >= 400 ? 'risk high' : 'risk'}>
              {record.status}
            </span>,
          ],
        }))}
      />
      <ShowMore pages={pages} />
      <p className="quiet">
        The newest 1,000 requests that changed something or showed a secret. The log of the server, or the
        file of SLIPWAY_AUDIT_LOG, has all.
      </p>
    </>
  )
}

/** `user:6f9619ff…`: enough to tell ids apart. */
function shortId(id: string): string {
  const [kind, rest] = id.includes(':') ? id.split(':', 2) : ['', id]
  const short = (rest ?? '').length > 16 ? `${rest?.slice(0, 12)}…` : (rest ?? '')
  return kind === '' ? short : `${kind} ${short}`
}
