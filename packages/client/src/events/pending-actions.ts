import type { Event } from '@slipway/protocol'
import { actionsDigest, PendingActions } from '@slipway/protocol/confirmation'
import type { Client } from '../calls/agent-server-client.ts'

/** What waits for one answer. */
export interface WaitingActions {
  /** ActionEvents, the oldest first. */
  readonly events: readonly Event[]
  /** `actions_digest` of an answer that is for exactly these. */
  readonly digest: string
}

/** The actions of a conversation that have no result yet; a message rejects those before it. */
export async function readPendingActions(
  client: Client,
  id: string,
  signal?: AbortSignal,
): Promise<WaitingActions> {
  const pending = new PendingActions<Event>()
  const events = await readSinceMessage(client, id, signal)
  for (const event of events.reverse()) pending.apply(event)
  return { events: pending.list(), digest: actionsDigest(pending.list()) }
}

/** The newest first. */
async function readSinceMessage(
  client: Client,
  id: string,
  signal: AbortSignal | undefined,
): Promise<Event[]> {
  const events: Event[] = []
  let page_id: string | undefined
  do {
    const page = await client.call('searchEvents', {
      params: { conversation_id: id },
      query: { sort_order: 'TIMESTAMP_DESC', limit: '100', page_id },
      signal,
    })
    for (const event of page.items) {
      if (event.kind === 'MessageEvent') return events
      if ('tool_call_id' in event) events.push(event.kind === 'ActionEvent' ? event : withoutResult(event))
    }
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return events
}

/** What says which action an event closes: results may be large, and there may be many since a message. */
function withoutResult(event: Event): Event {
  const { kind, id, action_id, tool_call_id } = event as Event &
    Partial<Record<'action_id' | 'tool_call_id', unknown>>
  return { kind, id, action_id, tool_call_id } as Event
}
