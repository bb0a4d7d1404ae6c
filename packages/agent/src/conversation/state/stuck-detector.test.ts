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
  expect(verdictOf(alternating(4))).toBe('no')
  expect(verdictOf(alternating(5))).toBe('nudge')
  expect(verdictOf([...alternating(5), nudge()])).toBe('no')
  expect(verdictOf(alternating(6))).toBe('stuck')
  expect(verdictOf([...step('c', '3'), ...alternating(6)])).toBe('stuck')
  expect(verdictOf(alternating(2), { alternating_pattern: 2 })).toBe('no')
  expect(verdictOf(times(8, (n) => step(n % 2 === 0 ? 'a' : 'b', n < 4 ? '1' : '2')))).toBe('no')
})

test('a cycle of three to six steps is stuck after two rounds', () => {
  const cycle = (count: number, names: readonly string[]) =>
    times(count, (n) => step(names[n % names.length] ?? '', `result of ${names[n % names.length]}`))
  expect(verdictOf(cycle(4, ['a', 'b', 'c']))).toBe('no')
  expect(verdictOf(cycle(5, ['a', 'b', 'c']))).toBe('nudge')
  expect(verdictOf(cycle(6, ['a', 'b', 'c']))).toBe('stuck')
  expect(verdictOf([...step('x', '1'), ...cycle(6, ['a', 'b', 'c'])])).toBe('stuck')
  expect(verdictOf(cycle(6, ['a', 'a', 'b']))).toBe('stuck')
  expect(verdictOf(cycle(6, ['a', 'b', 'c', 'd']))).toBe('no')
  expect(verdictOf(cycle(8, ['a', 'b', 'c', 'd']))).toBe('stuck')
  expect(verdictOf(cycle(11, ['a', 'b', 'c', 'd', 'e', 'f']))).toBe('nudge')
  expect(verdictOf(cycle(12, ['a', 'b', 'c', 'd', 'e', 'f']))).toBe('stuck')
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

/** Steps one after the other from midnight on: command, result, seconds that it takes, exit code. */
type Trace = readonly (readonly [command: string, result: string, seconds: number, exitCode?: number])[]

function traceEvents(trace: Trace): LogEvent[] {
  let now = Date.UTC(2026, 0, 1)
  const stamp = () => new Date(now).toISOString()
  return trace.flatMap(([command, result, seconds, exit_code = 0]) => {
    const id = `t${ids++}`
    const action = { ...actionEvent({ id, command }), timestamp: stamp() }
    now += seconds * 1000
    const observed = observationEvent({ id: `${id}o`, action_id: id, text: result })
    const observation = { ...(observed as { observation?: object }).observation, exit_code }
    return [action, { ...observed, observation, timestamp: stamp() } as LogEvent] // an observation of a terminal
  })
}

const repeat = (count: number, ...steps: Trace): Trace => Array.from({ length: count }, () => steps).flat()
const running = -1

const waits: readonly (readonly [string, Trace])[] = [
  ['empty commands while a program is silent', repeat(40, ['', '(no new output)', 30, running])],
  ['short waits that the model chose', repeat(30, ['', '(no new output)', 2, running])],
  ['empty commands of the shortest silence', repeat(20, ['', '(no new output)', 10, running])],
  [
    'a build that was started, and waits',
    [['make', 'cc a.c', 30, running], ...repeat(30, ['', '', 60, running])],
  ],
  ['a sleep and a look in one command', repeat(20, ['sleep 60; cat out', 'working', 60])],
  ['a sleep, then a look', repeat(20, ['sleep 30', '', 30], ['cat out', 'working', 0.1])],
  ['a look, then a sleep', repeat(20, ['cat out', 'working', 0.1], ['sleep 15', '', 15])],
  ['a poll of a service', repeat(20, ['sleep 10 && curl -s localhost:80/health', 'starting', 10])],
  ['a watch of pods', repeat(15, ['kubectl get pods; sleep 20', 'web 0/1 Pending', 20])],
  ['a download that says little', repeat(12, ['', '[==>      ]', 45, running])],
  ['a test run of minutes that passes', repeat(5, ['npm test', '120 passed', 180])],
  ['a tail that is followed', repeat(10, ['timeout 20 tail -f log || true', 'waiting for lock', 20])],
  ['a lock of a package manager', repeat(10, ['sleep 30; ls /var/lib/dpkg/lock', '/var/lib/dpkg/lock', 30])],
  ['two looks between waits', repeat(10, ['sleep 60', '', 60], ['ls', 'a', 0.1], ['cat out', 'x', 0.1])],
  ['a wait with C-c never pressed', repeat(8, ['', 'still compiling', 120, running])],
  ['a queue that stands', repeat(10, ['squeue; sleep 60', 'PENDING', 60])],
  ['a migration', [['rake db:migrate', '', 30, running], ...repeat(12, ['', '', 300, running])]],
  ['a certificate', repeat(6, ['sleep 120; dig +short txt x', '""', 120])],
  ['a run of CI', repeat(10, ['gh run watch --interval 30 || true', 'in progress', 600])],
  ['a training', repeat(10, ['sleep 300; tail -n1 train.log', 'epoch 3', 300])],
  ['changing results in a hurry', Array.from({ length: 20 }, (_, n) => ['cat count', `${n}`, 0.1] as const)],
]

const loops: readonly (readonly [string, Trace])[] = [
  ['the same listing', repeat(4, ['ls', 'a', 0.1])],
  ['the same listing, a little slow', repeat(4, ['ls -R /', 'a', 9])],
  ['a build that fails the same way', repeat(4, ['make', 'a.c:1: error', 30, 2])],
  ['a test run that fails the same way', repeat(4, ['npm test', '1 failed', 180, 1])],
  ['a program that is missing', repeat(4, ['foo', 'foo: command not found', 0.1, 127])],
  ['two commands in turn', repeat(4, ['ls', 'a', 0.1], ['pwd', '/', 0.1])],
  ['three commands in turn', repeat(4, ['ls', 'a', 0.1], ['pwd', '/', 0.1], ['id', 'root', 0.1])],
  ['four commands in turn', repeat(3, ['a', '1', 0], ['b', '2', 0], ['c', '3', 0], ['d', '4', 0])],
  ['an edit and a failing build', repeat(4, ['sed -i s/a/b/ x', '', 0.1], ['make', 'error', 40, 2])],
  ['a curl that is refused', repeat(4, ['curl -s localhost:1', '', 0.1, 7])],
  ['a clone that is refused after a while', repeat(4, ['git clone x', 'denied', 20, 128])],
  ['a time-out that is hit again and again', repeat(4, ['timeout 30 ./a', '', 30, 124])],
  ['a loop behind a wait', [['sleep 60', '', 60], ...repeat(4, ['ls', 'a', 0.1])]],
  ['a loop behind a running program', [['', '', 30, running], ...repeat(4, ['cat x', 'y', 0.1])]],
  ['empty commands that wait for nothing', repeat(4, ['', '', 0.1, running])],
  ['empty commands that return at once', repeat(4, ['', 'no program runs', 0.1])],
  ['a sleep that is too short to change anything', repeat(4, ['sleep 1', '', 1])],
  ['an installation that fails', repeat(4, ['npm ci', 'ERESOLVE', 25, 1])],
  ['a grep without a hit', repeat(4, ['grep -r foo', '', 3, 1])],
  ['a look at a file', repeat(4, ['cat README.md', '# R', 0])],
  ['cycles whose results are equal', repeat(3, ['cat a', '1', 0], ['cat b', '2', 0])],
]

test.each(waits)('waiting is work: %s', (_, trace) => {
  const events = traceEvents(trace)
  const seen = trace.map((_, at) => verdictOf(events.slice(0, 2 * (at + 1))))
  expect(seen).not.toContain('stuck')
})

test.each(loops)('a loop is found: %s', (_, trace) => {
  expect(verdictOf(traceEvents(trace))).toBe('stuck')
})

test('an hour of waits without anything new is for the user to judge', () => {
  const silent = repeat(7, ['', '', 600, running] as const)
  expect(verdictOf(traceEvents(silent))).toBe('silent')
  expect(verdictOf(traceEvents(silent.slice(1)))).toBe('no')
  expect(verdictOf([...traceEvents(silent), user()])).toBe('no')
  const polled = repeat(14, ['', '', 300, running], ['cat out', 'working', 0.1])
  expect(verdictOf(traceEvents(polled))).toBe('silent')
  const busy = polled.map(
    ([command, result, ...rest], at) => [command, at === 20 ? 'more' : result, ...rest] as const,
  )
  expect(verdictOf(traceEvents(busy))).toBe('no')
})

test('calls that succeed are no silence', () => {
  expect(verdictOf(traceEvents(repeat(30, ['npm test', '120 passed', 600])))).toBe('no')
  const mixed = repeat(7, ['', '', 500, running], ['make check', 'passed', 600])
  expect(verdictOf(traceEvents(mixed))).toBe('no')
})

/** The same events, moved by seconds. */
function later(events: readonly LogEvent[], seconds: number): LogEvent[] {
  const move = (timestamp = '') => new Date(Date.parse(timestamp) + seconds * 1000).toISOString()
  return events.map((event) => ({ ...event, timestamp: move(event.timestamp) }))
}

const statusAt = (value: string, seconds: number): LogEvent => ({
  ...{ id: `v${ids++}`, kind: 'ConversationStateUpdateEvent', key: 'execution_status', value },
  timestamp: new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
})

test('neither pauses nor waits for a confirmation are silence, and no waits', () => {
  const wait = ['', '', 60, running] as const
  const before = traceEvents(repeat(3, wait))
  const after = later(traceEvents(repeat(3, wait)), 9_000)
  const pause = [statusAt('paused', 180), statusAt('running', 9_000)]
  expect(verdictOf([...before, ...pause, ...after])).toBe('no')
  const [call, result] = traceEvents([['', '', 9_060, running]])
  if (call === undefined || result === undefined) throw new Error('no step')
  const asked = [statusAt('waiting_for_confirmation', 0), statusAt('running', 9_000)]
  const confirmed = [...before, ...later([call], 180), ...later([...asked, result], 180)]
  expect(verdictOf(confirmed)).toBe('no')
  const quick = times(4, (n) => {
    const [made, seen] = later(traceEvents([['ls', 'a', 60]]), n * 60)
    return made === undefined || seen === undefined ? [] : [made, statusAt('running', n * 60 + 59), seen]
  })
  expect(verdictOf(quick)).toBe('stuck')
})

test('time between calls and the same time of calls side by side do not add up', () => {
  const apart = times(20, (n) => later(traceEvents([['', '', 60, running]]), n * 600))
  expect(verdictOf(apart)).toBe('no')
  const beside = times(14, (n) => {
    const [first, second] = [0, 1].map(() => later(traceEvents([['', '', 250, running]]), n * 250))
    const [a, b, c, d] = [...(first ?? []), ...(second ?? [])]
    return [a, c, b, d].filter((event) => event !== undefined)
  })
  expect(verdictOf(beside)).toBe('no')
})

test('looks at a terminal in the background are waits while it runs', () => {
  const look = (status: string): LogEvent[] =>
    traceEvents([['', 'nothing new', 2]]).map((event) =>
      event.kind === 'ActionEvent'
        ? ({
            ...event,
            action: { kind: 'BackgroundTerminalAction', operation: 'output', id: 'a' },
          } as unknown as LogEvent)
        : ({
            ...event,
            observation: { kind: 'BackgroundTerminalObservation', status, exit_code: null },
          } as unknown as LogEvent),
    )
  expect(verdictOf(times(30, () => look('running')))).toBe('no')
  expect(verdictOf(times(4, () => look('waiting_for_input')))).toBe('stuck')
})
