import type { Event } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { expect, test } from 'vitest'
import { agentError, statusUpdate, userMessage } from '../events/event-drafts.ts'
import { State } from '../state/state.ts'
import { type Circumstances, type Move, nextMove } from './step.ts'

const thresholds = { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
const circumstances: Circumstances = {
  policy: { kind: 'NeverConfirm' },
  tools: new Map(),
  thresholds,
  stepsLeft: 10,
  mustCondense: false,
}

function stateOf(drafts: readonly EventDraft[]): State {
  const state = new State()
  drafts.forEach((draft, index) => {
    const event: Event = JSON.parse(JSON.stringify({ id: `e${index}`, ...draft }))
    state.apply({ ...event, id: event.id ?? '' }, index + 1)
  })
  return state
}

const action = (id: string): EventDraft => ({
  id,
  kind: 'ActionEvent',
  source: 'agent',
  thought: [],
  action: { kind: 'TerminalAction', command: 'ls', is_input: false, reset: false },
  tool_name: 'terminal',
  tool_call_id: id,
  tool_call: { id, name: 'terminal', arguments: '{}', origin: 'completion' },
  llm_response_id: 'r',
})
const failed = (id: string) => agentError({ tool_name: 'terminal', tool_call_id: id }, 'no')
const said = userMessage('user', 'go')
const answer: EventDraft = {
  kind: 'MessageEvent',
  source: 'agent',
  llm_message: { role: 'assistant', content: [], thinking_blocks: [] },
}
const errors = (count: number) =>
  Array.from({ length: count }, (_, n) => [action(`${n}`), failed(`${n}`)]).flat()
const request: EventDraft = { kind: 'CondensationRequest', source: 'environment' }

test.each<[what: string, events: EventDraft[], more: Partial<Circumstances>, move: Move]>([
  ['nothing was said', [], {}, 'conclude'],
  ['something was said', [said], {}, 'think'],
  ['it was answered', [said, answer], {}, 'conclude'],
  ['a call has no result', [said, action('a')], {}, 'act'],
  [
    'a call has no result and somebody is to agree',
    [said, action('a')],
    { policy: { kind: 'AlwaysConfirm', deadline_seconds: undefined } },
    'ask',
  ],
  [
    'somebody agreed',
    [said, action('a'), statusUpdate('waiting_for_confirmation'), statusUpdate('running')],
    { policy: { kind: 'AlwaysConfirm', deadline_seconds: undefined } },
    'act',
  ],
  ['a call has a result', [said, action('a'), failed('a')], {}, 'think'],
  ['a message came between a call and its result', [said, action('a'), said], { stepsLeft: 0 }, 'act'],
  ['no step is left', [said], { stepsLeft: 0 }, 'limit'],
  ['no step is left and none is needed', [said, answer], { stepsLeft: 0 }, 'conclude'],
  ['the view is too long', [said], { mustCondense: true }, 'condense'],
  ['the view is too long and nothing waits', [said, answer], { mustCondense: true }, 'conclude'],
  [
    'a condensation was asked for and nothing waits',
    [said, answer, request],
    { mustCondense: true },
    'condense',
  ],
  ['the same error came three times', [said, ...errors(3)], {}, 'nudge'],
  ['the same error came four times', [said, ...errors(4)], {}, 'stuck'],
  [
    'the same error came four times and nobody looks',
    [said, ...errors(4)],
    { thresholds: undefined },
    'think',
  ],
  [
    'the agent talks to itself',
    [
      said,
      answer,
      userMessage('environment', 'on'),
      answer,
      userMessage('environment', 'on'),
      answer,
      userMessage('environment', 'on'),
    ],
    {},
    'stuck',
  ],
])('when %s', (_, events, more, move) => {
  expect(nextMove(stateOf(events), { ...circumstances, ...more })).toBe(move)
})
