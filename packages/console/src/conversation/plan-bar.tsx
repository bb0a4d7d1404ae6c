import type { CallOutput } from '@slipway/client'
import { useAction } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { Icon } from '../ui/icon.tsx'

/** Begins and ends plan mode. */
export function setPlanMode(id: string, plan_mode: boolean) {
  return agentServer.call('patchConversation', { params: { conversation_id: id }, body: { plan_mode } })
}

/** Says that the agent may change nothing yet, and accepts its plan. */
export function PlanBar({
  id,
  info,
}: {
  readonly id: string
  readonly info: CallOutput<'getConversation'> | undefined
}) {
  const end = useAction(['conversation', id], async (isAccepted: boolean) => {
    await setPlanMode(id, false)
    if (isAccepted) await agentServer.call('runConversation', { params: { conversation_id: id } })
  })
  if (info?.plan_mode !== true) return null
  const isRunning = info.execution_status === 'running'
  return (
    <section className="confirmation" aria-label="Plan mode">
      <h2>
        <Icon name="warn" /> Plan mode: nothing is changed until you accept the plan
      </h2>
      <div className="confirmation-buttons">
        <button type="button" onClick={() => end.mutate(false)} disabled={end.isPending}>
          <Icon name="close" /> End plan mode
        </button>
        <button
          type="button"
          className="primary"
          onClick={() => end.mutate(true)}
          disabled={isRunning || end.isPending}
        >
          <Icon name="check" /> Accept and run
        </button>
      </div>
    </section>
  )
}
