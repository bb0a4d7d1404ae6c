import { recordOf } from '@slipway/protocol/event-text'
import { useQuery } from '@tanstack/react-query'
import type { WireEvent } from '../api/log.ts'
import { agentServer } from '../api/session.ts'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import { TaskList } from '../ui/task-list.tsx'
import type { PanelProps } from './panel-props.ts'

/** Most pages of results that are searched for the newest list. */
const maxPages = 10

/** The newest task list of the agent. */
export function TasksPanel({ id, info }: PanelProps) {
  const tasks = useQuery({
    queryKey: ['tasks', id, info.updated_at],
    queryFn: ({ signal }) => findTasks(id, signal),
    placeholderData: (old) => old,
  })
  if (tasks.isPending) return <Loading />
  if (tasks.isError) return <ErrorState error={tasks.error} />
  if (tasks.data === null) return <EmptyState icon="tasks" title="The agent keeps no task list" />
  return <TaskList tasks={tasks.data} />
}

async function findTasks(id: string, signal: AbortSignal): Promise<readonly unknown[] | null> {
  let page_id: string | undefined
  for (let count = 0; count < maxPages; count++) {
    const page = await agentServer.call('searchEvents', {
      params: { conversation_id: id },
      query: { kind: 'ObservationEvent', sort_order: 'TIMESTAMP_DESC', limit: '100', page_id },
      signal,
    })
    for (const event of page.items as unknown as WireEvent[]) {
      const { task_list } = recordOf(event.observation)
      if (Array.isArray(task_list)) return task_list
    }
    if (page.next_page_id === null) break
    page_id = page.next_page_id
  }
  return null
}
