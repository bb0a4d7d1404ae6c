import type { OwnedSandbox } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useAction } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { StatusBadge } from '../list/status-badge.tsx'
import { formatAgo, formatCost } from '../ui/format.ts'
import { ShowMore } from '../ui/show-more.tsx'
import { Table } from '../ui/table.tsx'

const states = ['RUNNING', 'STARTING', 'PAUSED', 'ERROR', 'MISSING'] as const
const orders = {
  USED_AT_DESC: 'Last used first',
  USED_AT: 'Longest unused first',
  CREATED_AT_DESC: 'Newest first',
  CREATED_AT: 'Oldest first',
  COST_DESC: 'Most expensive first',
} as const
type Order = keyof typeof orders
type Action = 'pause' | 'delete'

/** The sandboxes of all users, for administrators: searched, sorted, paused and deleted many at once. */
export function AllSandboxes() {
  const [text, setText] = useState('')
  const [status, setStatus] = useState('')
  const [order, setOrder] = useState<Order>('USED_AT_DESC')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const pages = useInfiniteQuery({
    queryKey: ['all-sandboxes', text, status, order],
    queryFn: ({ pageParam, signal }) =>
      sandboxServer.call('listAllSandboxes', {
        query: { limit: '50', sort_order: order, text: text.trim(), status, page_id: pageParam },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ next_page_id }) => next_page_id ?? undefined,
    placeholderData: (old) => old,
    refetchInterval: 5_000,
  })
  // One that moved while pages were read is on two of them.
  const items = [
    ...new Map(pages.data?.pages.flatMap((page) => page.items).map((box) => [box.id, box])).values(),
  ]
  // The limit of one request.
  const ids = items
    .map(({ id }) => id)
    .filter((id) => chosen.has(id))
    .filter((_, at) => at < 100)
  const act = useAction(
    ['all-sandboxes'],
    (action: Action) => sandboxServer.call('changeSandboxes', { body: { action, ids } }),
    ({ results }, action) => {
      const failed = results.filter((result) => result.status !== 200)
      setChosen(new Set(failed.map(({ id }) => id)))
      for (const { id, detail } of failed.slice(0, 3))
        showToast({ text: `${id}: ${detail ?? `no ${action}`}`, tone: 'error' })
    },
  )
  const isFiltered = text.trim() !== '' || status !== ''
  return (
    <>
      <div className="page-head">
        <h1>All sandboxes</h1>
      </div>
      <search className="table-filter">
        <input
          type="search"
          aria-label="Search in the sandboxes"
          placeholder="Id, user, spec or detail"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
        <select aria-label="State" value={status} onChange={({ target }) => setStatus(target.value)}>
          <option value="">Any state</option>
          {states.map((name) => (
            <option key={name} value={name}>
              {name.toLowerCase()}
            </option>
          ))}
        </select>
        <select aria-label="Order" value={order} onChange={({ target }) => setOrder(target.value as Order)}>
          {Object.entries(orders).map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </search>
      {ids.length > 0 && <ChosenActions count={ids.length} isPending={act.isPending} act={act.mutate} />}
      <Table
        query={pages}
        empty={isFiltered ? 'Nothing matches' : 'No user has a sandbox'}
        head={['Select', 'Id', 'User', 'State', 'Spec', 'Conversations', 'Cost', 'Used', 'Age']}
        rows={items.map((box) => ({
          key: box.id,
          cells: cellsOf(box, chosen.has(box.id), () => setChosen(toggled(chosen, box.id))),
        }))}
      />
      <ShowMore pages={pages} />
    </>
  )
}

/** A deletion is asked for twice. */
function ChosenActions(props: {
  readonly count: number
  readonly isPending: boolean
  readonly act: (action: Action) => void
}) {
  const { count, isPending, act } = props
  const [isSure, setSure] = useState(false)
  const remove = () => {
    if (isSure) act('delete')
    setSure(!isSure)
  }
  return (
    <section className="table-filter" aria-label="Selected sandboxes">
      <span>{count} selected</span>
      <button type="button" disabled={isPending} onClick={() => act('pause')}>
        Pause
      </button>
      <button type="button" className="danger" disabled={isPending} onClick={remove}>
        {isSure ? `Delete ${count} with their files` : 'Delete'}
      </button>
    </section>
  )
}

function cellsOf(box: OwnedSandbox, isChosen: boolean, toggle: () => void) {
  const { status_reason: reason, status_detail: detail } = box
  return [
    <input
      key="select"
      type="checkbox"
      aria-label={`Select ${box.id}`}
      checked={isChosen}
      onChange={toggle}
    />,
    <span key="id" className="mono">
      {box.id.slice(0, 12)}
    </span>,
    box.user_name ?? box.user_id?.slice(0, 8) ?? '–',
    <span key="state">
      <StatusBadge status={box.status} />
      {reason !== null && (
        <p className="wrap">
          {reason.message} <code>{reason.next_command}</code>
        </p>
      )}
      {detail !== null && <p className="quiet wrap">{firstChars(detail, 300)}</p>}
    </span>,
    box.sandbox_spec_id,
    String(box.conversations),
    formatCost(box.cost),
    formatAgo(Date.parse(box.used_at)),
    formatAgo(Date.parse(box.created_at)),
  ]
}

function toggled(chosen: ReadonlySet<string>, id: string): ReadonlySet<string> {
  return chosen.has(id) ? new Set([...chosen].filter((one) => one !== id)) : new Set([...chosen, id])
}
