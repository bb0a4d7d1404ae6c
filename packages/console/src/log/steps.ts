import type { LogEvent } from '../api/log.ts'

/** A tool call of a model's response, and its result when there is one. */
export interface Call {
  readonly action: LogEvent
  readonly result: LogEvent | undefined
}

/** What the timeline shows as one row: a response of the model with its calls, or one event. */
export type Row =
  | {
      readonly type: 'step'
      readonly key: string
      readonly position: number
      readonly calls: readonly Call[]
    }
  | { readonly type: 'event'; readonly key: string; readonly position: number; readonly item: LogEvent }

const resultKinds = new Set(['ObservationEvent', 'UserRejectObservation', 'AgentErrorEvent'])

/**
 * Groups events: actions of one model response are one step, and each has its result beside it. A result
 * whose action is not among the events is its own row.
 */
export function groupSteps(events: readonly LogEvent[]): Row[] {
  const rows: (Row & { calls?: Call[] })[] = []
  const steps = new Map<string, Call[]>()
  const callPlaces = new Map<string, { calls: Call[]; at: number }>()
  for (const item of events) {
    const { event, position } = item
    if (event.kind === 'ActionEvent') {
      const response = String(event.llm_response_id ?? position)
      let calls = steps.get(response)
      if (calls === undefined) {
        calls = []
        steps.set(response, calls)
        rows.push({ type: 'step', key: `s${position}`, position, calls })
      }
      const place = { calls, at: calls.push({ action: item, result: undefined }) - 1 }
      for (const id of [event.id, event.tool_call_id]) if (typeof id === 'string') callPlaces.set(id, place)
      continue
    }
    if (resultKinds.has(event.kind)) {
      const place = [event.action_id, event.tool_call_id]
        .map((id) => callPlaces.get(String(id)))
        .find((found) => found !== undefined)
      const call = place?.calls[place.at]
      if (place !== undefined && call !== undefined && call.result === undefined) {
        place.calls[place.at] = { ...call, result: item }
        continue
      }
    }
    rows.push({ type: 'event', key: `e${position}`, position, item })
  }
  return rows
}

/** The events of a row, in order. */
export function rowEvents(row: Row): LogEvent[] {
  if (row.type === 'event') return [row.item]
  const all = row.calls.flatMap(({ action, result }) => (result === undefined ? [action] : [action, result]))
  return all.sort((a, b) => a.position - b.position)
}

/** Whether two rows show the same events. */
export function isSameRow(a: Row, b: Row): boolean {
  if (a.type === 'event' || b.type === 'event')
    return a.type === 'event' && b.type === 'event' && a.item === b.item
  return (
    a.calls.length === b.calls.length &&
    a.calls.every(
      ({ action, result }, at) => action === b.calls[at]?.action && result === b.calls[at]?.result,
    )
  )
}
