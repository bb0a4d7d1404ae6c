import type { StuckThresholds } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { actionEvent, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import type { LogEvent } from '../view/log-event.ts'
import { StuckDetector } from './stuck-detector.ts'

/**
 * The public cases of OpenHands' stuck detector (software-agent-sdk, `tests/cross/test_stuck_detector*.py`,
 * `tests/sdk/conversation/local/test_stuck_detector_nudge.py`), restated.
 */
const thresholds: StuckThresholds = {
  action_observation: 4,
  action_error: 3,
  monologue: 3,
  alternating_pattern: 6,
}

let count = 0
const user = () => messageEvent(`u${count++}`, 'user', 'Please run ls.')
const nudge = () => messageEvent(`n${count++}`, 'environment', 'Try another way.')
const agent = (text: string) => messageEvent(`m${count++}`, 'agent', text)

function step(command: string, text = `output of ${command}`): LogEvent[] {
  const id = `s${count++}`
  return [actionEvent({ id, command }), observationEvent({ id: `${id}o`, action_id: id, text })]
}

function failure(command: string): LogEvent[] {
  const id = `f${count++}`
  const error = `Command '${command}' not found`
  const own = { tool_name: 'terminal', tool_call_id: `${id}c` }
  return [actionEvent({ id, command }), { ...own, id: `${id}e`, kind: 'AgentErrorEvent', error }]
}

const times = (number: number, make: (at: number) => LogEvent[]) =>
  Array.from({ length: number }, (_, at) => make(at)).flat()

function verdict(log: readonly LogEvent[], own: Partial<StuckThresholds> = {}): string {
  const detector = new StuckDetector()
  for (const event of log) detector.add(event)
  return detector.detect({ ...thresholds, ...own })
}

test.each<[string, () => readonly LogEvent[], string, Partial<StuckThresholds>?]>([
  ['one step is too little', () => [user(), ...step('ls')], 'no'],
  ['three repetitions are not four', () => [user(), ...times(3, () => step('ls'))], 'nudge'],
  ['four repetitions are stuck', () => [user(), ...times(4, () => step('ls'))], 'stuck'],
  ['two failures are not three', () => [user(), ...times(2, () => failure('invalid'))], 'no'],
  ['the third failure brings a message', () => [user(), ...times(3, () => failure('invalid'))], 'nudge'],
  [
    'the fourth failure after it is stuck',
    () => [user(), ...times(3, () => failure('invalid')), nudge(), ...failure('invalid')],
    'stuck',
  ],
  [
    'the same failures bring no second message',
    () => [user(), ...times(3, () => failure('invalid')), nudge()],
    'no',
  ],
  ['three messages in a row are stuck', () => [user(), ...times(3, (at) => [agent(`Hm ${at}`)])], 'stuck'],
  [
    'different commands are not stuck',
    () => [user(), ...['ls', 'pwd', 'whoami', 'date'].flatMap((command) => step(command))],
    'no',
  ],
  [
    'a message of the user begins again',
    () => [user(), ...times(4, () => step('ls')), user(), ...step('ls')],
    'no',
  ],
  [
    'two commands in turn are stuck',
    () => [user(), ...times(3, () => [...step('ls'), ...step('pwd')])],
    'stuck',
  ],
  ['without a message of the user', () => times(4, () => step('ls')), 'stuck'],
  [
    'far behind many other events',
    () => [...times(50, (at) => step(`c${at}`)), ...times(4, () => step('ls'))],
    'stuck',
  ],
  [
    'old repetitions do not count',
    () => [...times(3, () => step('ls')), ...times(3, (at) => step(`c${at}`))],
    'no',
  ],
  [
    'a lower threshold of repetitions',
    () => [user(), ...times(2, () => step('ls'))],
    'stuck',
    { action_observation: 2 },
  ],
  [
    'a higher threshold of messages',
    () => [user(), ...times(3, () => [agent('Hm')])],
    'no',
    { monologue: 5 },
  ],
])('%s', (_, log, expected, own) => {
  expect(verdict(log(), own)).toBe(expected)
})
