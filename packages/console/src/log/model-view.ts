import type { CallOutput } from '@slipway/client'
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { createContext } from 'react'
import type { LogEvent } from '../api/log.ts'
import { agentServer } from '../api/session.ts'

export type ModelView = CallOutput<'getModelView'>

/** What the model sees of a conversation; read again when `version` changes. */
export const modelViewQuery = (id: string, version: string) =>
  queryOptions({
    queryKey: ['view', id, version],
    queryFn: ({ signal }) => agentServer.call('getModelView', { params: { conversation_id: id }, signal }),
    placeholderData: keepPreviousData,
  })

/** How often a log was condensed; the server has an index of kinds. */
export const condensationsQuery = (id: string) =>
  queryOptions({
    queryKey: ['condensations', id],
    queryFn: ({ signal }) =>
      agentServer.call('countEvents', {
        params: { conversation_id: id },
        query: { kind: 'Condensation' },
        signal,
      }),
  })

/** Of the log that is shown; undefined until it is read, and where the server has none. */
export const ModelViewContext = createContext<ModelView | undefined>(undefined)

const seenKinds: ReadonlySet<unknown> = new Set([
  ...['SystemPromptEvent', 'MessageEvent', 'ActionEvent'],
  ...['ObservationEvent', 'AgentErrorEvent', 'UserRejectObservation'],
])

/** Whether the model saw an event and does not see it any more. */
export function isForgotten({ event, position }: LogEvent, { head, ranges }: ModelView): boolean {
  if (!seenKinds.has(event.kind) || position > head) return false
  return !ranges.some(({ first, last }) => position >= first && position <= last)
}

/** Whether an event changes what the model sees of the events before it. */
export function changesView({ event: { kind, key } }: LogEvent): boolean {
  if (kind === 'ConversationStateUpdateEvent') return key === 'leaf_event_id' || key === 'pruned_results'
  return kind === 'Condensation'
}
