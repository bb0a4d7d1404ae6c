import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { conversationQuery } from '../api/queries.ts'
import type { LogFilter } from '../log/filters.ts'
import { Panels } from '../panels/panels.tsx'
import { ErrorState } from '../ui/states.tsx'
import { Composer } from './composer.tsx'
import { ConfirmationBar } from './confirmation.tsx'
import { ConversationHeader } from './header.tsx'
import { LogView } from './log-view.tsx'
import { PlanBar } from './plan-bar.tsx'
import { useRefreshOnLive } from './refresh-on-live.ts'
import { useWaitingNotice } from './waiting-notice.ts'

/** One conversation: its log, what can be done with it, and panels beside it. */
export function Conversation({ id, filter }: { readonly id: string; readonly filter: LogFilter }) {
  const info = useQuery({ ...conversationQuery(id), refetchInterval: 15_000 })
  const onLive = useRefreshOnLive('conversation', id)
  const [isPanelOpen, setPanelOpen] = useState(false)
  useWaitingNotice(info.data)
  if (info.isError && info.data === undefined)
    return <ErrorState error={info.error} retry={() => void info.refetch()} />
  return (
    <LogView
      id={id}
      filter={filter}
      info={info.data}
      onLive={onLive}
      keys={{ p: () => setPanelOpen((old) => !old) }}
      head={
        <ConversationHeader
          id={id}
          info={info.data}
          isPanelOpen={isPanelOpen}
          togglePanel={() => setPanelOpen(!isPanelOpen)}
        />
      }
      dock={
        <>
          <ConfirmationBar id={id} info={info.data} />
          <PlanBar id={id} info={info.data} />
          <Composer id={id} info={info.data} />
        </>
      }
      panel={isPanelOpen && <Panels id={id} info={info.data} close={() => setPanelOpen(false)} />}
    />
  )
}
