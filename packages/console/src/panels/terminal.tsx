import { exitCode, observationText, recordOf, textOf } from '@slipway/protocol/event-text'
import { firstChars } from '@slipway/shared/text'
import { useQuery } from '@tanstack/react-query'
import type { WireEvent } from '../api/log.ts'
import { agentServer } from '../api/session.ts'
import { Ansi } from '../ui/ansi.tsx'
import { LongText } from '../ui/long-text.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import type { PanelProps } from './panel-props.ts'

/** The newest commands of the agent and what they wrote, the newest last. */
export function TerminalPanel({ id, info }: PanelProps) {
  const commands = useQuery({
    queryKey: ['terminal', id, info.updated_at],
    queryFn: async ({ signal }) => {
      const query = { kind: 'ObservationEvent', sort_order: 'TIMESTAMP_DESC', limit: '100' } as const
      const page = await agentServer.call('searchEvents', { params: { conversation_id: id }, query, signal })
      return (page.items as unknown as WireEvent[])
        .filter(
          (event) =>
            textOf(recordOf(event.observation).command) && /bash|terminal/.test(String(event.tool_name)),
        )
        .reverse()
    },
    placeholderData: (old) => old,
  })
  if (commands.isPending) return <Loading />
  if (commands.isError) return <ErrorState error={commands.error} />
  if (commands.data.length === 0) return <EmptyState icon="terminal" title="No commands yet" />
  return (
    <ol className="commands">
      {commands.data.map((event) => {
        const code = exitCode(event)
        return (
          <li key={String(event.id)}>
            <p className="mono command-line wrap">
              $ {firstChars(String(recordOf(event.observation).command), 2_000)}{' '}
              {code !== undefined && code !== 0 && <span className="risk high">exit {code}</span>}
            </p>
            <LongText text={observationText(event.observation)} render={(part) => <Ansi text={part} />} />
          </li>
        )
      })}
    </ol>
  )
}
