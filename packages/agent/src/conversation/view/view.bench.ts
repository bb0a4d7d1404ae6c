import { actionEvent, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import { type LogEvent, View } from './view.ts'

/**
 * `node packages/agent/src/conversation/view/view.bench.ts`: what one step of a conversation costs the view
 * (a call, its result, the messages for the next question), with a view of up to 80 events. The target: the
 * same after 100,000 events as after 100.
 */

const resultChars = 2_000
const measured = 1_000

/** Adds one step, and forgets the older half when the view has grown to 80 events. */
function step(view: View, n: number): void {
  view.add(actionEvent({ id: `a${n}`, thought: 'I look further.' }))
  view.add(observationEvent({ id: `o${n}`, action_id: `a${n}`, text: `${n} `.padEnd(resultChars, 'x') }))
  if (view.size < 80) return
  const forgotten_event_ids = view.save().slice(2, 42)
  const condensation = {
    kind: 'Condensation',
    summary: 'It continued.',
    summary_offset: 2,
    llm_response_id: 'r',
  } as const
  view.add({ ...condensation, id: `c${n}`, forgotten_event_ids } satisfies LogEvent)
}

function microsecondsAStep(history: number): number {
  const view = new View()
  view.add({ id: 's', kind: 'SystemPromptEvent', system_prompt: { text: 'You help.' }, tools: [] })
  view.add(messageEvent('u', 'user', 'Do it.'))
  for (let n = 0; n < history / 2; n++) step(view, n)
  const times = Array.from({ length: measured }, (_, n) => {
    const start = performance.now()
    step(view, history + n)
    view.messages()
    return performance.now() - start
  })
  return 1_000 * (times.toSorted((a, b) => a - b)[measured / 2] ?? 0)
}

microsecondsAStep(10_000)
for (const history of [100, 1_000, 10_000, 100_000]) {
  console.log(
    `${String(history).padStart(8)} events before: ${microsecondsAStep(history).toFixed(1)} µs a step (median)`,
  )
}
