import type { LogEvent } from '@slipway/protocol/event-text'
import type { StoredEvent } from '@slipway/storage'
import { redactExportedEvent } from '../../../core/conversations/trajectory.ts'

/** Events for people: without secrets of models and sealed texts. Imported ones may hold any member. */
export function shownEvents(events: readonly StoredEvent[]): LogEvent[] {
  return events.map(({ position, bytes }) => {
    const event = JSON.parse(redactExportedEvent(bytes).toString())
    return { position, event: { ...event, kind: String(event.kind) } }
  })
}
