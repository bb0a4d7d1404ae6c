import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { sandboxServer } from '../api/session.ts'
import { StatusBadge } from '../list/status-badge.tsx'
import { formatAgo, formatCost } from '../ui/format.ts'
import { ShowMore } from '../ui/show-more.tsx'
import { Table } from '../ui/table.tsx'

const orders = {
  UPDATED_AT_DESC: 'Last activity first',
  CREATED_AT_DESC: 'Newest first',
  COST_DESC: 'Most expensive first',
} as const
type Order = keyof typeof orders

/** The conversations of all users, for administrators, without what is in them. */
export function AllConversations() {
  const [text, setText] = useState('')
  const [order, setOrder] = useState<Order>('UPDATED_AT_DESC')
  const pages = useInfiniteQuery({
    queryKey: ['all-conversations', text, order],
    queryFn: ({ pageParam, signal }) =>
      sandboxServer.call('listAllConversations', {
        query: { limit: '50', sort_order: order, text: text.trim(), page_id: pageParam },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ next_page_id }) => next_page_id ?? undefined,
    placeholderData: (old) => old,
    refetchInterval: 10_000,
  })
  const items = [
    ...new Map(pages.data?.pages.flatMap((page) => page.items).map((one) => [one.id, one])).values(),
  ]
  return (
    <>
      <div className="page-head">
        <h1>All conversations</h1>
      </div>
      <search className="table-filter">
        <input
          type="search"
          aria-label="Search in titles"
          placeholder="Title"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
        <select aria-label="Order" value={order} onChange={({ target }) => setOrder(target.value as Order)}>
          {Object.entries(orders).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </search>
      <Table
        query={pages}
        empty={text === '' ? 'No user has a conversation' : 'Nothing matches'}
        head={['Title', 'User', 'Agent', 'Sandbox', 'Model', 'Cost', 'Last activity']}
        rows={items.map((one) => ({
          key: one.id,
          cells: [
            <span key="title" dir="auto" className="wrap">
              {one.title ?? 'Untitled'}
            </span>,
            one.user_name ?? one.user_id?.slice(0, 8) ?? '–',
            one.execution_status === null ? '–' : <StatusBadge key="agent" status={one.execution_status} />,
            <span key="sandbox">
              <StatusBadge status={one.sandbox_status} />{' '}
              <span className="mono">{one.sandbox_id.slice(0, 12)}</span>
            </span>,
            one.llm_model ?? '–',
            formatCost(one.cost),
            formatAgo(Date.parse(one.updated_at)),
          ],
        }))}
      />
      <ShowMore pages={pages} />
    </>
  )
}
