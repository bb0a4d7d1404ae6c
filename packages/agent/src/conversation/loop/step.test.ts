import type { Event } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { expect, test } from 'vitest'
import { agentErrorEvent, statusUpdate, userMessage } from '../events/event-drafts.ts'
import { ConversationState } from '../state/state.ts'
import { nextStep, type Step, type StepInput } from './step.ts'

const thresholds = { action_observation: 4, action_error: 3, monologue: 3, alternating_pattern: 6 }
const stepInput: StepInput = {
  policy: { kind: 'NeverConfirm' },
  tools: new Map(),
  thresholds,
  stepsLeft: 10,
  mustCondense: false,
}

function stateOf(drafts: readonly EventDraft[]): ConversationState {
  const state = new ConversationState()
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
const failed = (id: string) => agentErrorEvent({ tool_name: 'terminal', tool_call_id: id }, 'no')
const userText = userMessage('user', 'go')
const answer: EventDraft = {
  kind: 'MessageEvent',
  source: 'agent',
  llm_message: { role: 'assistant', content: [], thinking_blocks: [] },
}
const errors = (count: number) =>
  Array.from({ length: count }, (_, n) => [action(`${n}`), failed(`${n}`)]).flat()
const request: EventDraft = { kind: 'CondensationRequest', source: 'environment' }

test.each<[what: string, events: EventDraft[], more: Partial<StepInput>, move: Step]>([
  ['nothing was said', [], {}, 'conclude'],
  ['something was said', [userText], {}, 'think'],
  ['it was answered', [userText, answer], {}, 'conclude'],
  ['a call has no result', [userText, action('a')], {}, 'act'],
  [
    'a call has no result and somebody is to agree',
    [userText, action('a')],
    { policy: { kind: 'AlwaysConfirm', deadline_seconds: undefined } },
    'ask',
  ],
  [
    'somebody agreed',
    [userText, action('a'), statusUpdate('waiting_for_confirmation'), statusUpdate('running')],
    { policy: { kind: 'AlwaysConfirm', deadline_seconds: undefined } },
    'act',
  ],
  ['a call has a result', [userText, action('a'), failed('a')], {}, 'think'],
  [
    'a message came between a call and its result',
    [userText, action('a'), userText],
    { stepsLeft: 0 },
    'act',
  ],
  ['no step is left', [userText], { stepsLeft: 0 }, 'limit'],
  ['no step is left and none is needed', [userText, answer], { stepsLeft: 0 }, 'conclude'],
  ['the view is too long', [userText], { mustCondense: true }, 'condense'],
  ['the view is too long and nothing waits', [userText, answer], { mustCondense: true }, 'conclude'],
  [
    'a condensation was asked for and nothing waits',
    [userText, answer, request],
    { mustCondense: true },
    'condense',
  ],
  ['the same error came three times', [userText, ...errors(3)], {}, 'nudge'],
  ['the same error came four times', [userText, ...errors(4)], {}, 'stuck'],
  [
    'the same error came four times and no one looks',
    [userText, ...errors(4)],
    { thresholds: undefined },
    'think',
  ],
  [
    'the agent talks to itself',
    [
      userText,
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
  expect(nextStep(stateOf(events), { ...stepInput, ...more })).toBe(move)
})
