import fc from 'fast-check'
import { expect, test } from 'vitest'
import { observationEvent } from '../testing/arbitraries.ts'
import type { ViewEvent } from '../view/log-event.ts'
import { carryOver } from './carry.ts'

const summary = (text: string): ViewEvent => ({
  id: 'c-summary',
  kind: 'CondensationSummaryEvent',
  source: 'environment',
  summary: text,
})
const tracker = (title: string): ViewEvent =>
  ({
    ...observationEvent({ id: title, action_id: 'a' }),
    observation: { kind: 'TaskTrackerObservation', command: 'plan', task_list: [{ title }] },
  }) as unknown as ViewEvent
const goal = (active: boolean) => ({
  active,
  status: 'running' as const,
  iteration: 1,
  max_iterations: 3,
  objective: 'All tests pass.',
  verdict: null,
})
const carry = (text: string, forgotten: readonly ViewEvent[], remaining: readonly ViewEvent[] = []) =>
  carryOver(text, { forgotten, remaining, goal: undefined }, 20_000)

test('a task list is in the summary while no newer one is in the view', () => {
  expect(carry('Text.', [tracker('old'), tracker('new')])).toBe('Text.\n\n## Task list\n- [todo] new')
  expect(carry('Text.', [tracker('old')], [tracker('new')])).toBe('Text.')
  expect(carry('Text.', [summary('Before.\n\n## Task list\n- [done] one')])).toBe(
    'Text.\n\n## Task list\n- [done] one',
  )
  expect(carry('Text.', [summary('## Task list\n- [done] one'), tracker('new')])).toContain('[todo] new')
})

test('the goal is in the summary while it is pursued', () => {
  const of = (active: boolean) =>
    carryOver('Text.', { forgotten: [], remaining: [], goal: goal(active) }, 20_000)
  expect(of(true)).toBe('Text.\n\n## Goal\nAll tests pass.')
  expect(of(false)).toBe('Text.')
})

test('facts are kept in their order, each once, and a summary may repeat or leave them out', () => {
  expect(carry('B.\n## Facts\n- two\n- one', [summary('A.\n\n## Facts\n- one')])).toBe(
    'B.\n\n## Facts\n- one\n- two',
  )
  expect(carry('C.', [summary('B.\n\n## Facts\n- one\n- two')])).toBe('C.\n\n## Facts\n- one\n- two')
})

test('no summary is longer than it may be, and the newest facts are those that stay', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 30_000 }), fc.nat({ max: 500 }), (text, count) => {
      const facts = Array.from({ length: count }, (_, n) => `- fact ${n}: ${'x'.repeat(50)}`)
      const result = carryOver(
        `${text}\n## Facts\n${facts.join('\n')}`,
        { forgotten: [tracker('t')], remaining: [], goal: goal(true) },
        20_000,
      )
      expect(result.length).toBeLessThanOrEqual(20_000)
      if (count > 0) expect(result).toContain(facts.at(-1))
    }),
  )
})
