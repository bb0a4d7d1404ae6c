import { expect, test } from 'vitest'
import { generateAgentHistory, maxView } from './generate-agent-history.ts'

interface GeneratedEvent {
  readonly id: string
  readonly kind: string
  readonly action_id?: string
  readonly forgotten_event_ids?: readonly string[]
}

function parseHistory(count: number, hasCondenser: boolean): GeneratedEvent[] {
  return [...generateAgentHistory(count, { hasCondenser })].map(({ bytes }) => JSON.parse(bytes.toString()))
}

/** The length of the view after each event; each Condensation forgets only events of the view. */
function viewSizes(events: readonly GeneratedEvent[]): number[] {
  const view = new Set<string>()
  return events.map(({ id, kind, forgotten_event_ids = [] }) => {
    for (const forgotten of forgotten_event_ids) expect(view.delete(forgotten)).toBe(true)
    view.add(kind === 'Condensation' ? `${id}-summary` : id)
    return view.size
  })
}

test('a history has the requested number of events with unique ids, and each call has its result', () => {
  for (const hasCondenser of [true, false]) {
    const events = parseHistory(999, hasCondenser)
    expect(events.length - 999).toBeOneOf([0, 1])
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length)
    const actions = events.filter(({ kind }) => kind === 'ActionEvent').map(({ id }) => id)
    expect(events.flatMap(({ action_id }) => action_id ?? [])).toEqual(actions)
  }
})

test('with a condenser the view never exceeds the limit, without one it is the whole history', () => {
  const sizes = viewSizes(parseHistory(5_000, true))
  expect(Math.max(...sizes)).toBe(maxView)
  expect(Math.min(...sizes.slice(maxView))).toBeGreaterThanOrEqual(maxView / 2)
  expect(viewSizes(parseHistory(500, false)).at(-1)).toBe(500)
})

test('a Condensation forgets calls together with their results', () => {
  const events = parseHistory(5_000, true)
  const forgotten = new Set(events.flatMap(({ forgotten_event_ids }) => forgotten_event_ids ?? []))
  const halves = events.filter(
    ({ id, action_id }) => action_id !== undefined && forgotten.has(id) !== forgotten.has(action_id),
  )
  expect(halves).toEqual([])
})
