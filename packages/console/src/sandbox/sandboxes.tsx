import { firstChars, formatBytes } from '@slipway/shared/text'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useRef } from 'react'
import { useAction } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { StatusBadge } from '../list/status-badge.tsx'
import { formatAgo, formatDateTime } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { Table } from '../ui/table.tsx'

/** The sandboxes of the caller, with their state and what can be done with each. */
export function Sandboxes({ isAdmin }: { readonly isAdmin: boolean }) {
  const query = useQuery({
    queryKey: ['sandboxes'],
    queryFn: ({ signal }) => sandboxServer.call('searchSandboxes', { query: { limit: '100' }, signal }),
    refetchInterval: 3_000,
  })
  const boxes = query.data?.items ?? []
  const use = useUse(boxes.flatMap(({ id, status }) => (status === 'RUNNING' ? id : [])))
  const act = useAction(
    ['sandboxes'],
    ({ name, id }: { name: 'pauseSandbox' | 'resumeSandbox'; id: string }) =>
      sandboxServer.call(name, { params: { sandbox_id: id } }),
  )
  const remove = useAction(['sandboxes'], (id: string) =>
    sandboxServer.call('deleteSandbox', { params: { sandbox_id: id } }),
  )
  const start = useAction(['sandboxes'], () => sandboxServer.call('startSandbox', {}))
  return (
    <>
      <div className="page-head">
        <h1>Sandboxes</h1>
        <span className="spacer" />
        <button type="button" className="primary" disabled={start.isPending} onClick={() => start.mutate()}>
          <Icon name="plus" /> Start
        </button>
      </div>
      {isAdmin && (
        <p className="quiet">
          These are your own.{' '}
          <Link to="/fleet/$section" params={{ section: 'all-sandboxes' }}>
            Sandboxes of all users
          </Link>
        </p>
      )}
      <Table
        query={query}
        empty={isAdmin ? 'No sandboxes of your own' : 'No sandboxes'}
        head={['Id', 'State', 'Spec', 'Use', 'Limits', 'Age', '']}
        rows={boxes.map((box) => ({
          key: box.id,
          cells: [
            <span key="id" className="mono">
              {box.id.slice(0, 12)}
            </span>,
            <span key="status">
              <StatusBadge status={box.status} />
              {box.status_reason !== null && (
                <p className="wrap">
                  {box.status_reason.message} <code>{box.status_reason.next_command}</code>
                </p>
              )}
              {box.status_detail !== null && (
                <p className="quiet wrap">{firstChars(box.status_detail, 300)}</p>
              )}
              {box.deletes_at !== null && (
                <p className="quiet wrap">
                  Deleted with its files on {formatDateTime(Date.parse(box.deletes_at))} unless it is resumed
                </p>
              )}
            </span>,
            box.sandbox_spec_id,
            use.get(box.id) ?? '',
            [
              box.resources.memory_bytes && formatBytes(box.resources.memory_bytes),
              box.resources.cpus && `${box.resources.cpus} CPU`,
              box.isolation.kind,
            ]
              .filter(Boolean)
              .join(' · '),
            formatAgo(Date.parse(box.created_at)),
            <Menu
              key="menu"
              label={`Actions of ${box.id}`}
              button={<Icon name="more" />}
              items={[
                box.status === 'RUNNING'
                  ? { label: 'Pause', run: () => act.mutate({ name: 'pauseSandbox', id: box.id }) }
                  : { label: 'Resume', run: () => act.mutate({ name: 'resumeSandbox', id: box.id }) },
                { label: 'Delete', run: () => remove.mutate(box.id), isDangerous: true },
              ]}
            />,
          ],
        }))}
      />
    </>
  )
}

/** Memory and processors of running sandboxes, as text, by id. The first reading has no rate yet. */
function useUse(ids: readonly string[]): ReadonlyMap<string, string> {
  const last = useRef<ReadonlyMap<string, { readonly at: number; readonly cpuSeconds: number }>>(new Map())
  const query = useQuery({
    queryKey: ['sandboxes', 'use', ...ids],
    queryFn: async ({ signal }) => {
      const uses = await sandboxServer.call('getSandboxUse', { query: { id: [...ids] }, signal })
      const at = performance.now()
      const found = uses.filter((use) => use !== null)
      const texts = found.map(({ sandbox_id, memory_bytes, cpu_seconds }) => {
        const before = last.current.get(sandbox_id)
        const share = before && (cpu_seconds - before.cpuSeconds) / ((at - before.at) / 1_000)
        const cpus = share === undefined ? '' : ` · ${Math.max(0, share).toFixed(2)} CPU`
        return [sandbox_id, `${formatBytes(memory_bytes)}${cpus}`] as const
      })
      last.current = new Map(
        found.map(({ sandbox_id, cpu_seconds }) => [sandbox_id, { at, cpuSeconds: cpu_seconds }]),
      )
      return new Map(texts)
    },
    enabled: ids.length > 0,
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  })
  return query.data ?? new Map()
}
