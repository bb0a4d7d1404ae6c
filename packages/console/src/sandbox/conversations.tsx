import { firstChars } from '@slipway/shared/text'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useAction } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { StatusBadge } from '../list/status-badge.tsx'
import { formatAgo } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { Table } from '../ui/table.tsx'

/** Conversations in sandboxes, and the starts of new ones as they go. */
export function AppConversations() {
  const query = useQuery({
    queryKey: ['app-conversations'],
    queryFn: ({ signal }) =>
      sandboxServer.call('searchAppConversations', {
        query: { limit: '100', sort_order: 'UPDATED_AT_DESC' },
        signal,
      }),
    refetchInterval: 5_000,
  })
  const remove = useAction(['app-conversations'], (id: string) =>
    sandboxServer.call('deleteAppConversation', { params: { conversation_id: id } }),
  )
  return (
    <>
      <h1>Conversations</h1>
      <Table
        query={query}
        empty="No conversations"
        head={['Title', 'Agent', 'Sandbox', 'Last activity', '']}
        rows={(query.data?.items ?? []).map((one) => ({
          key: one.id,
          cells: [
            <Link key="title" dir="auto" to="/c/$id" params={{ id: one.id }}>
              {one.title ?? 'Untitled'}
            </Link>,
            one.execution_status === null ? '–' : <StatusBadge key="agent" status={one.execution_status} />,
            <StatusBadge key="sandbox" status={one.sandbox_status} />,
            formatAgo(Date.parse(one.updated_at)),
            <Menu
              key="menu"
              label={`Actions of ${one.title ?? one.id}`}
              button={<Icon name="more" />}
              items={[{ label: 'Delete', run: () => remove.mutate(one.id), isDangerous: true }]}
            />,
          ],
        }))}
      />
      <StartTasks />
    </>
  )
}

function StartTasks() {
  const query = useQuery({
    queryKey: ['start-tasks'],
    queryFn: ({ signal }) => sandboxServer.call('searchStartTasks', { query: { limit: '20' }, signal }),
    refetchInterval: 2_000,
  })
  return (
    <>
      <h2>Starts</h2>
      <Table
        query={query}
        empty="Nothing was started yet"
        head={['State', 'Detail', 'Sandbox', 'Began']}
        rows={(query.data?.items ?? []).map((task) => ({
          key: task.id,
          cells: [
            task.app_conversation_id === null ? (
              task.status
            ) : (
              <Link key="link" to="/c/$id" params={{ id: task.app_conversation_id }}>
                {task.status}
              </Link>
            ),
            <span key="detail" className="wrap">
              {firstChars(task.detail ?? '', 300)}
            </span>,
            <span key="sandbox" className="mono">
              {task.sandbox_id?.slice(0, 12)}
            </span>,
            formatAgo(Date.parse(task.created_at)),
          ],
        }))}
      />
    </>
  )
}
