import type { StuckThresholds } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { actionEvent, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import type { LogEvent } from '../view/log-event.ts'
import { StuckDetector } from './stuck-detector.ts'

const thresholds: StuckThresholds = {
  action_observation: 4,
  action_error: 3,
  monologue: 3,
  alternating_pattern: 6,
}

let ids = 0

/** A call and its result; every id is new. */
function step(command: string, result: string): LogEvent[] {
  const id = `s${ids++}`
  return [actionEvent({ id, command }), observationEvent({ id: `${id}o`, action_id: id, text: result })]
}

function failure(command: string, error = 'It broke.'): LogEvent[] {
  const id = `f${ids++}`
  const own = { tool_name: 'terminal', tool_call_id: `${id}c` }
  return [actionEvent({ id, command }), { ...own, id: `${id}e`, kind: 'AgentErrorEvent', error }]
}

const user = () => messageEvent(`u${ids++}`, 'user', 'And now?')
const nudge = () => messageEvent(`n${ids++}`, 'environment', 'Try something else.')
const agent = () => messageEvent(`a${ids++}`, 'agent', 'Well.')

function times(count: number, make: (index: number) => LogEvent[]): LogEvent[] {
  return Array.from({ length: count }, (_, index) => make(index)).flat()
}

function verdictOf(events: readonly LogEvent[], own: Partial<StuckThresholds> = {}): string {
  const recent = new StuckDetector()
  for (const event of events) recent.add(event)
  return recent.detect({ ...thresholds, ...own })
}

test('the same action with the same observation is stuck at the threshold', () => {
  expect(verdictOf(times(2, () => step('ls', 'a')))).toBe('no')
  expect(verdictOf(times(3, () => step('ls', 'a')))).toBe('nudge')
  expect(verdictOf([...times(3, () => step('ls', 'a')), nudge()])).toBe('no')
  expect(verdictOf([...times(3, () => step('ls', 'a')), nudge(), ...step('ls', 'a')])).toBe('stuck')
  expect(verdictOf(times(4, () => step('ls', 'a')))).toBe('stuck')
  expect(verdictOf([...step('pwd', '/'), ...times(4, () => step('ls', 'a'))])).toBe('stuck')
  expect(verdictOf([...times(3, () => step('ls', 'a')), ...step('ls', 'b'), ...step('ls', 'a')])).toBe('no')
  expect(
    verdictOf(
      times(6, () => step('ls', 'a')),
      { action_observation: 8 },
    ),
  ).toBe('no')
  expect(
    verdictOf(
      times(7, () => step('ls', 'a')),
      { action_observation: 8 },
    ),
  ).toBe('nudge')
  expect(verdictOf(step('ls', 'a'), { action_observation: 2 })).toBe('no')
})

test('thresholds are honoured up to the 64 steps that are remembered', () => {
  const same = times(100, () => step('ls', 'a'))
  expect(verdictOf(same, { action_observation: 64 })).toBe('stuck')
  expect(verdictOf(same, { action_observation: 65 })).toBe('no')
})

test('polling is no loop: the same action with another result each time', () => {
  expect(verdictOf(times(40, (n) => step('status', `${n} %`)))).toBe('no')
  expect(verdictOf(times(40, (n) => step('status', n % 2 === 0 ? 'busy' : 'waiting')))).toBe('no')
})

test('a thought that differs makes another action', () => {
  const thinking = (n: number): LogEvent[] => [
    actionEvent({ id: `t${n}`, thought: `attempt ${n}` }),
    observationEvent({ id: `t${n}o`, action_id: `t${n}` }),
  ]
  expect(verdictOf(times(9, thinking))).toBe('no')
})

test('process ids and names of output files make no difference', () => {
  const ran = (n: number): LogEvent[] => {
    const [call, seen] = step('ls', 'a')
    if (call === undefined || seen?.kind !== 'ObservationEvent') throw new Error('no step')
    const own = { metadata: { pid: n }, full_output_save_dir: `/tmp/${n}` }
    return [call, { ...seen, observation: { ...seen.observation, ...own } } as LogEvent]
  }
  expect(verdictOf(times(4, ran))).toBe('stuck')
})

test('a terminal that names its directory in the first result only has the same result again', () => {
  const note = (text: string) => step('ls', text)
  const first = note('[Exit code 0. Working directory: /work]')
  const others = Array.from({ length: 3 }, () => note('[Exit code 0]'))
  expect(verdictOf([first, ...others].flat())).toBe('stuck')
})

test('a failing action is nudged once at the threshold and stuck with one failure more', () => {
  const recent = new StuckDetector()
  const add = (events: readonly LogEvent[]) => {
    for (const event of events) recent.add(event)
    return recent.detect(thresholds)
  }
  expect(add(times(2, () => failure('ls')))).toBe('no')
  expect(add(failure('ls', 'It broke in another way.'))).toBe('nudge')
  expect(recent.detect(thresholds)).toBe('nudge')
  expect(add([nudge()])).toBe('no')
  expect(add(failure('ls'))).toBe('stuck')
  expect(add(failure('pwd'))).toBe('no')
})

test('failures without a message in between are stuck all the same', () => {
  expect(verdictOf(times(4, () => failure('ls')))).toBe('stuck')
  expect(
    verdictOf(
      times(4, () => failure('ls')),
      { action_error: 4 },
    ),
  ).toBe('nudge')
})

test('invalid calls differ by their arguments', () => {
  const broken = (n: number): LogEvent[] =>
    failure('ls').map((event) =>
      event.kind === 'ActionEvent'
        ? { ...event, action: null, tool_call: { ...event.tool_call, arguments: `{"n": ${n}` } }
        : event,
    )
  expect(verdictOf(times(6, broken))).toBe('no')
  expect(verdictOf(times(6, () => broken(1)))).toBe('stuck')
})

test('agent messages in a row are stuck, nudges between them or not', () => {
  expect(verdictOf([agent(), agent()])).toBe('no')
  expect(verdictOf([agent(), nudge(), agent(), nudge(), agent()])).toBe('stuck')
  expect(verdictOf([agent(), agent(), ...step('ls', 'a'), agent()])).toBe('no')
  expect(verdictOf([agent(), agent(), user(), agent()])).toBe('no')
})

test('two alternating steps are stuck after six, but two different ones never are', () => {
  const alternating = (count: number) => times(count, (n) => (n % 2 === 0 ? step('a', '1') : step('b', '2')))
  expect(verdictOf(alternating(5))).toBe('no')
  expect(verdictOf(alternating(6))).toBe('stuck')
  expect(verdictOf([...step('c', '3'), ...alternating(6)])).toBe('stuck')
  expect(verdictOf(alternating(2), { alternating_pattern: 2 })).toBe('no')
  expect(verdictOf(times(8, (n) => step(n % 2 === 0 ? 'a' : 'b', n < 4 ? '1' : '2')))).toBe('no')
})

test('a cycle of three or four steps is stuck after two rounds', () => {
  const cycle = (count: number, names: readonly string[]) =>
    times(count, (n) => step(names[n % names.length] ?? '', `result of ${names[n % names.length]}`))
  expect(verdictOf(cycle(5, ['a', 'b', 'c']))).toBe('no')
  expect(verdictOf(cycle(6, ['a', 'b', 'c']))).toBe('stuck')
  expect(verdictOf([...step('x', '1'), ...cycle(6, ['a', 'b', 'c'])])).toBe('stuck')
  expect(verdictOf(cycle(6, ['a', 'a', 'b']))).toBe('stuck')
  expect(verdictOf(cycle(7, ['a', 'b', 'c', 'd']))).toBe('no')
  expect(verdictOf(cycle(8, ['a', 'b', 'c', 'd']))).toBe('stuck')
  expect(verdictOf(cycle(6, ['a', 'b', 'c']), { alternating_pattern: 9 })).toBe('no')
  expect(verdictOf(cycle(9, ['a', 'b', 'c']), { alternating_pattern: 9 })).toBe('stuck')
  // Editing, testing and looking with another result each time is work.
  expect(verdictOf(times(30, (n) => step(['edit', 'test', 'look'][n % 3] ?? '', `result ${n}`)))).toBe('no')
  expect(verdictOf(times(30, (n) => step('poll', ['1', '2', '3'][n % 3] ?? '')))).toBe('no')
})

test('calls of one answer are compared with their own results, in whatever order those come', () => {
  const both = (n: number): LogEvent[] => [
    actionEvent({ id: `x${n}`, command: 'a', response: `r${n}` }),
    actionEvent({ id: `y${n}`, command: 'b', response: `r${n}` }),
    observationEvent({ id: `y${n}o`, action_id: `y${n}`, text: '2' }),
    observationEvent({ id: `x${n}o`, action_id: `x${n}`, text: '1' }),
  ]
  expect(verdictOf(times(2, both))).toBe('no')
  expect(verdictOf(times(3, both))).toBe('stuck')
})

test('a call that has no result yet is no part of a pattern', () => {
  const open = actionEvent({ id: 'open', command: 'ls' })
  expect(verdictOf([...times(3, () => step('ls', 'a')), open])).not.toBe('stuck')
})

test('what is no action, result or message changes nothing, and a user message ends every pattern', () => {
  const other: fc.Arbitrary<LogEvent> = fc.constantFrom<LogEvent[]>(
    { id: 'x', kind: 'ConversationStateUpdateEvent', key: 'stats', value: {} },
    { id: 'x', kind: 'TokenEvent', source: 'agent', prompt_token_ids: [], response_token_ids: [] },
    { id: 'x', kind: 'LLMCompletionLogEvent', filename: 'f', log_data: '{}' },
    { id: 'x', kind: 'PauseEvent' },
  )
  const pattern = fc.constantFrom(
    times(4, () => step('ls', 'a')),
    times(3, () => failure('ls')),
    [agent(), agent(), agent()],
    times(6, (n) => step(n % 2 === 0 ? 'a' : 'b', '1')),
    times(3, () => step('ls', 'a')),
  )
  fc.assert(
    fc.property(pattern, fc.array(other, { minLength: 30, maxLength: 30 }), (events, others) => {
      const noisy = events.flatMap((event, index) => [event, ...others.slice(index, index + 3)])
      expect(verdictOf(noisy)).toBe(verdictOf(events))
      expect(verdictOf([...noisy, user()])).toBe('no')
    }),
  )
})
