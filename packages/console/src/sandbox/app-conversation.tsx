import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useAction } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { LogView } from '../conversation/log-view.tsx'
import { useRefreshOnLive } from '../conversation/refresh-on-live.ts'
import { StatusBadge } from '../list/status-badge.tsx'
import type { LogFilter } from '../log/filters.ts'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'

/** A conversation in a sandbox: its history, which outlives the sandbox, and messages to its agent. */
export function AppConversation({ id, filter }: { readonly id: string; readonly filter: LogFilter }) {
  const info = useQuery({
    queryKey: ['app-conversation', id],
    queryFn: async ({ signal }) => {
      const found = await sandboxServer.call('listAppConversations', { query: { ids: [id] }, signal })
      return (Array.isArray(found) ? found[0] : undefined) ?? null
    },
    refetchInterval: 5_000,
  })
  const onLive = useRefreshOnLive('app-conversation', id)
  if (info.isError && info.data === undefined)
    return <ErrorState error={info.error} retry={() => void info.refetch()} />
  if (info.data === undefined) return <Loading />
  if (info.data === null) return <EmptyState icon="search" title="There is no such conversation" />
  const { title, sandbox_status, execution_status, llm_model } = info.data
  return (
    <LogView
      id={id}
      filter={filter}
      onLive={onLive}
      head={
        <div className="conversation-head">
          <h1 dir="auto" className="title">
            {title ?? 'Untitled'}
          </h1>
          {execution_status !== null && <StatusBadge status={execution_status} />}
          <span className="spacer" />
          <span className="quiet facts">{llm_model}</span>
          <span className="quiet">
            Sandbox: <StatusBadge status={sandbox_status} />
          </span>
        </div>
      }
      dock={<Message id={id} />}
    />
  )
}

/** The server keeps what is sent while the sandbox is paused or starts, or says why it cannot. */
function Message({ id }: { readonly id: string }) {
  const [text, setText] = useState('')
  const send = useAction(
    ['app-conversation', id],
    () =>
      sandboxServer.call('sendAppMessage', {
        params: { conversation_id: id },
        body: { content: [{ type: 'text', text }] },
      }),
    () => setText(''),
  )
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (text.trim() !== '' && !send.isPending) send.mutate()
  }
  return (
    <form className="composer" onSubmit={submit}>
      <textarea
        id="message"
        aria-label="Message"
        placeholder="Write to the agent"
        rows={Math.min(8, Math.max(2, text.split('\n').length))}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit()
        }}
        dir="auto"
      />
      <div className="composer-buttons">
        <span className="spacer" />
        <button type="submit" className="primary" disabled={send.isPending || text.trim() === ''}>
          Send
        </button>
      </div>
    </form>
  )
}
