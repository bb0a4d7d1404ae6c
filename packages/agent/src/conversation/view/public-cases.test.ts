import { expect, test } from 'vitest'
import { actionEvent, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import { type LogEvent, View } from './view.ts'
import { groupUnits } from './view-units.ts'

/**
 * The public cases of OpenHands' condenser view (software-agent-sdk, `tests/sdk/context/view`), restated:
 * what a log makes of the view, and that calls and results of one turn stay together.
 */
const message = (id: string | number) => messageEvent(String(id), 'user', `Message ${id}`)
const messages = (count: number) => Array.from({ length: count }, (_, at) => message(at))
const request: LogEvent = { id: 'request', kind: 'CondensationRequest', source: 'environment' }

interface Forgets {
  readonly summary?: string
  readonly at?: number
}

function condensation(id: string, forgotten: readonly string[], { summary, at }: Forgets = {}): LogEvent {
  return {
    ...{ id, kind: 'Condensation', source: 'environment', llm_response_id: id },
    ...{ forgotten_event_ids: [...forgotten], summary: summary ?? null, summary_offset: at ?? null },
  }
}

const withSummary = (id: string, forgotten: readonly string[], at: number) =>
  condensation(id, forgotten, { summary: `Summary ${id}`, at })

function viewOf(log: readonly LogEvent[]): View {
  const view = new View()
  for (const event of log) view.add(event)
  return view
}

const [m0, m1, m2, m3, m4] = messages(5) as [LogEvent, LogEvent, LogEvent, LogEvent, LogEvent]

test.each<[string, readonly LogEvent[], readonly string[]]>([
  ['nothing is forgotten', [m0, m1, m2], ['0', '1', '2']],
  ['an event of each is forgotten', [m0, m1, condensation('a', ['0']), m2], ['1', '2']],
  ['all are forgotten', [m0, m1, condensation('a', ['0', '1'])], []],
  ['the view is empty', [condensation('a', [])], []],
  ['no id is named', [m0, condensation('a', [])], ['0']],
  ['an unknown id is named', [m0, condensation('a', ['nobody'])], ['0']],
  ['a request is never in the view', [m0, request, m1], ['0', '1']],
  ['a request and its condensation', [m0, m1, request, condensation('a', ['0'])], ['1']],
  ['a condensation before a request', [m0, condensation('a', ['0']), m1, request], ['1']],
  ['several requests', [m0, request, condensation('a', ['0']), m1, request, m2], ['1', '2']],
  [
    'one condensation after the other',
    [m0, m1, condensation('a', ['0']), m2, condensation('b', ['1'])],
    ['2'],
  ],
  [
    'events that no model sees',
    [m0, { id: 'p', kind: 'PauseEvent' }, m1, condensation('a', ['0']), m2],
    ['1', '2'],
  ],
  ['a summary', [m0, m1, m2, withSummary('a', ['0'], 0)], ['a-summary', '1', '2']],
  ['a summary at the end', [m0, m1, m2, m3, withSummary('a', ['0'], 3)], ['1', '2', '3', 'a-summary']],
  ['only a summary', [m0, m1, withSummary('a', ['0', '1'], 0)], ['a-summary']],
  ['no summary without its text', [m0, m1, m2, condensation('a', ['1'], { at: 1 })], ['0', '2']],
  [
    'summaries at different places',
    [m0, m1, withSummary('a', ['0'], 0), m2, m3, withSummary('b', ['2'], 2), m4],
    ['a-summary', '1', 'b-summary', '3', '4'],
  ],
  [
    'the place counts in the view as it becomes',
    [m0, m1, m2, m3, m4, withSummary('a', ['0', '1'], 1)],
    ['2', 'a-summary', '3', '4'],
  ],
  [
    'two summaries at one place: the newer is before the older',
    [m0, m1, m2, withSummary('a', ['1'], 1), withSummary('b', ['2'], 1)],
    ['0', 'b-summary', 'a-summary'],
  ],
  [
    'three summaries at one place',
    [m0, m1, m2, m3, ...['1', '2', '3'].map((id) => withSummary(`s${id}`, [id], 1))],
    ['0', 's3-summary', 's2-summary', 's1-summary'],
  ],
  [
    'the first summary is forgotten, the second stays',
    [m0, m1, withSummary('a', ['0'], 0), withSummary('b', ['1'], 1), condensation('c', ['a-summary'])],
    ['b-summary'],
  ],
  [
    'the newest summary is forgotten',
    [m0, m1, withSummary('a', ['0'], 0), withSummary('b', ['1'], 1), condensation('c', ['b-summary'])],
    ['a-summary'],
  ],
  [
    'the middle one of three is forgotten',
    [
      ...[m0, m1, m2, withSummary('a', ['0'], 0), withSummary('b', ['1'], 1), withSummary('c', ['2'], 2)],
      condensation('d', ['b-summary']),
    ],
    ['a-summary', 'c-summary'],
  ],
  [
    'a forgotten summary moves the later ones up',
    [m0, m1, m2, withSummary('a', ['0'], 0), withSummary('b', ['2'], 2), condensation('c', ['a-summary'])],
    ['1', 'b-summary'],
  ],
  [
    'all summaries are forgotten',
    [
      m0,
      m1,
      m2,
      withSummary('a', [], 0),
      withSummary('b', [], 2),
      condensation('c', ['a-summary', 'b-summary']),
    ],
    ['0', '1', '2'],
  ],
  [
    'each condensation replaces the summary before it',
    [
      ...[m0, m1, withSummary('a', ['0'], 0), m2, withSummary('b', ['a-summary', '1'], 0), m3],
      withSummary('c', ['b-summary', '2'], 0),
    ],
    ['c-summary', '3'],
  ],
  [
    'events and a summary are forgotten together',
    [m0, m1, withSummary('a', ['0'], 0), m2, m3, withSummary('b', ['a-summary', '1'], 0)],
    ['b-summary', '2', '3'],
  ],
  [
    'summaries between events',
    [m0, m1, m2, m3, m4, withSummary('a', ['1'], 1), withSummary('b', ['3'], 3)],
    ['0', 'a-summary', '2', 'b-summary', '4'],
  ],
  [
    'a summary that is missing is forgotten',
    [m0, m1, withSummary('a', ['0'], 0), condensation('b', ['nobody-summary'])],
    ['a-summary', '1'],
  ],
])('%s', (_, log, ids) => {
  expect(viewOf(log).save()).toEqual(ids)
  expect(viewOf(log).messages()).toHaveLength(ids.length)
})

test('the summary of a condensation is the same event each time', () => {
  const log = [m0, m1, withSummary('a', ['0'], 0)]
  expect(viewOf(log).events[0]).toEqual(viewOf(log).events[0])
  expect(viewOf(log).events[0]).toMatchObject({ id: 'a-summary', summary: 'Summary a' })
})

/** Calls of one turn and their results. */
function batch(name: string, calls: number, results = calls): LogEvent[] {
  const ids = Array.from({ length: calls }, (_, at) => `${name}${at}`)
  return [
    ...ids.map((id, at) => actionEvent({ id, response: name, ...(at === 0 ? { thinks: true } : {}) })),
    ...ids.slice(0, results).map((id) => observationEvent({ id: `${id}o`, action_id: id, call: `${id}c` })),
  ]
}

test.each<[string, readonly LogEvent[], readonly (readonly [number, number])[]]>([
  ['no event', [], []],
  [
    'messages',
    [m0, m1, m2],
    [
      [0, 0],
      [1, 1],
      [2, 2],
    ],
  ],
  ['a call and its result', batch('a', 1), [[0, 1]]],
  [
    'a call between messages',
    [m0, ...batch('a', 1), m1],
    [
      [0, 0],
      [1, 2],
      [3, 3],
    ],
  ],
  ['three calls of one turn', batch('a', 3), [[0, 5]]],
  [
    'turns one after the other',
    [...batch('a', 2), ...batch('b', 1)],
    [
      [0, 3],
      [4, 5],
    ],
  ],
  [
    'turns with messages between them',
    [...batch('a', 2), m0, ...batch('b', 2)],
    [
      [0, 3],
      [4, 4],
      [5, 8],
    ],
  ],
])('%s can be divided only between turns', (_, log, units) => {
  const { events } = viewOf(log)
  expect(groupUnits(events).map(({ first, last }) => [first, last])).toEqual(units)
})

test.each([
  ['a call of three', ['a0'], ['a1', 'a1c', 'a2', 'a2c']],
  ['a result of three', ['a1o'], ['a0', 'a0c', 'a2', 'a2c']],
  ['two results of three', ['a0o', 'a1o'], ['a2', 'a2c']],
  ['all calls and results', ['a0', 'a1', 'a2', 'a0o', 'a1o', 'a2o'], []],
])('after %s is forgotten, the model gets only pairs', (_, forgotten, kept) => {
  const view = viewOf([m0, ...batch('a', 3), ...batch('b', 1), condensation('c', forgotten)])
  const calls = view.messages().flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id))
  const results = view.messages().flatMap(({ tool_call_id }) => tool_call_id ?? [])
  expect(results).toEqual(calls)
  expect(calls).toEqual([...kept.filter((id) => id.endsWith('c')), 'b0c'])
})
