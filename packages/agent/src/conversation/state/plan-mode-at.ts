import type { EventLog } from '@slipway/storage'
import { searchEvents } from './search-events.ts'
import { planModeKey } from './state.ts'

/**
 * Whether a log is in plan mode at a position; undefined when it says nothing: a message in plan mode is
 * stored with a state update. Reads all state updates.
 */
export async function planModeAt(
  log: Pick<EventLog, 'search'>,
  conversation: string,
  position: number,
): Promise<boolean | undefined> {
  const query = { kind: 'ConversationStateUpdateEvent', sort_order: 'TIMESTAMP_DESC' } as const
  for await (const event of searchEvents(log, conversation, query)) {
    if (event.position > position) continue
    const { key, value }: { readonly key?: unknown; readonly value?: unknown } = JSON.parse(
      event.bytes.toString(),
    )
    if (key === planModeKey) return value === true
  }
  const messages = { kind: 'MessageEvent', sort_order: 'TIMESTAMP' } as const
  for await (const first of searchEvents(log, conversation, messages, 1))
    return first.position <= position ? false : undefined
  return undefined
}
