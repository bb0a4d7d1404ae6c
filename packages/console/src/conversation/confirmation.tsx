import { type CallOutput, readPendingActions } from '@slipway/client'
import { eventTime, recordOf } from '@slipway/protocol/event-text'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { WireEvent } from '../api/log.ts'
import { useAction } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { formatDuration } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'
import { QuestionBody, useRoom } from './question-body.tsx'

/**
 * What waits for an answer, with its risk and how long there is to answer. The buttons stay in reach whatever
 * the length of the command, and are enabled once it is shown: an answer is for what was seen.
 */
export function ConfirmationBar({
  id,
  info,
}: {
  readonly id: string
  readonly info: CallOutput<'getConversation'> | undefined
}) {
  const isWaiting = info?.execution_status === 'waiting_for_confirmation'
  const pending = useQuery({
    queryKey: ['conversation', id, 'pending', info?.updated_at],
    enabled: isWaiting,
    queryFn: ({ signal }) => readPendingActions(agentServer, id, signal),
  })
  const actions = (pending.data?.events ?? []) as unknown as WireEvent[]
  const isShown = pending.isSuccess && actions.length > 0
  const [reason, setReason] = useState('')
  const probe = useRef<HTMLSpanElement>(null)
  const room = useRoom(probe, isWaiting ? actions.length : 0)
  const answer = useAction(
    ['conversation', id],
    (accept: boolean) =>
      agentServer.call('respondToConfirmation', {
        params: { conversation_id: id },
        body: {
          accept,
          ...(accept || reason.trim() === '' ? {} : { reason }),
          // For what is shown alone: another client may have answered, and another action may wait.
          action_ids: actions.map((event) => String(event.id)),
          actions_digest: pending.data?.digest,
        },
      }),
    () => setReason(''),
  )
  if (!isWaiting || info === undefined) return null
  const seconds = recordOf(info.confirmation_policy).deadline_seconds
  const first = actions[0]
  return (
    <section className="confirmation" aria-label="Waits for your answer">
      <h2>
        <Icon name="warn" /> The agent asks before it acts
        {typeof seconds === 'number' && first !== undefined && (
          <Deadline until={eventTime(first) + seconds * 1_000} />
        )}
      </h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
      <section className="confirmation-calls" tabIndex={0} aria-label="Calls that wait">
        <span ref={probe} className="output probe" aria-hidden="true">
          {'0'.repeat(100)}
        </span>
        {actions.map((event) => (
          <QuestionBody key={String(event.id)} event={event} room={room} />
        ))}
        {pending.isPending && <Loading label="Reading the calls" />}
        {!pending.isPending && !isShown && (
          <ErrorState
            error={pending.error ?? 'No call that waits was found.'}
            retry={() => void pending.refetch()}
          />
        )}
      </section>
      <input
        aria-label="Reason for a rejection"
        placeholder="Reason, if you reject (the agent reads it)"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      <div className="confirmation-buttons">
        <button type="button" onClick={() => answer.mutate(false)} disabled={!isShown || answer.isPending}>
          <Icon name="close" /> Reject
        </button>
        <button
          type="button"
          className="primary"
          onClick={() => answer.mutate(true)}
          disabled={!isShown || answer.isPending}
        >
          <Icon name="check" /> Approve
        </button>
      </div>
    </section>
  )
}

function Deadline({ until }: { readonly until: number }) {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(timer)
  }, [])
  return (
    <span className="deadline">rejected automatically in {formatDuration(Math.max(0, until - now))}</span>
  )
}
