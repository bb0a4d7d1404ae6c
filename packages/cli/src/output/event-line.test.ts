import { eventKinds } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { summarizeEvent } from './event-line.ts'

const text = (words: string) => [{ type: 'text', text: words }]
const call = { tool_name: 'terminal', tool_call_id: 'c1' }

test.each([
  [
    { kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content: text('Grüße\n an alle') } },
    'Grüße an alle',
  ],
  [{ kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content: [] } }, '(no text)'],
  [
    { kind: 'ActionEvent', ...call, thought: text('why'), action: { kind: 'X' }, summary: 'list files' },
    'terminal: list files',
  ],
  [
    {
      kind: 'ActionEvent',
      ...call,
      thought: [],
      action: { command: 'ls', kind: 'TerminalAction' },
      summary: 'terminal: {"command":"ls"}',
    },
    'terminal: ls',
  ],
  [
    { kind: 'ActionEvent', ...call, thought: text('why'), action: { kind: 'X' }, security_risk: 'HIGH' },
    'terminal [HIGH]: why',
  ],
  [
    { kind: 'ActionEvent', ...call, thought: [], action: { command: 'ls', kind: 'X' } },
    'terminal: {"command":"ls"}',
  ],
  [
    { kind: 'ActionEvent', ...call, thought: [], action: { command: 'ls -l', kind: 'TerminalAction' } },
    'terminal: ls -l',
  ],
  [{ kind: 'ActionEvent', ...call, thought: text('try'), action: null }, 'terminal (not executable): try'],
  [{ kind: 'ObservationEvent', ...call, observation: { content: text('7'), kind: 'X' } }, 'terminal: 7'],
  [
    { kind: 'ObservationEvent', ...call, observation: { content: [], is_error: true, kind: 'X' } },
    'terminal failed: (X)',
  ],
  [
    {
      kind: 'ObservationEvent',
      ...call,
      observation: { content: text('no'), exit_code: 2, kind: 'TerminalObservation' },
    },
    'terminal (exit code 2): no',
  ],
  [{ kind: 'UserRejectObservation', ...call, action_id: 'a' }, 'terminal refused: User rejected the action'],
  [
    {
      kind: 'UserRejectObservation',
      ...call,
      action_id: 'a',
      rejection_reason: 'no',
      rejection_source: 'hook',
    },
    'terminal refused by a hook: no',
  ],
  [{ kind: 'AgentErrorEvent', ...call, error: 'no such tool' }, 'terminal: no such tool'],
  [
    { kind: 'ACPToolCallEvent', tool_call_id: 'c', title: 'Edit a.txt', status: 'failed' },
    'Edit a.txt (failed)',
  ],
  [{ kind: 'ConversationErrorEvent', code: 'KeyError', detail: 'x' }, 'KeyError: x'],
  [{ kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'idle' }, 'status: idle'],
  [
    {
      kind: 'ConversationStateUpdateEvent',
      key: 'execution_status',
      value: 'waiting_for_confirmation',
    },
    'status: waits for confirmation',
  ],
  [{ kind: 'ConversationStateUpdateEvent', key: 'tags', value: { a: 'b' } }, 'tags = {"a":"b"}'],
  [{ kind: 'SystemPromptEvent', system_prompt: { text: 'Be kind.' }, tools: [{}, {}] }, 'Be kind. (2 tools)'],
  [{ kind: 'Condensation', forgotten_event_ids: ['a'], summary: 'short' }, '1 events forgotten: short'],
  [{ kind: 'CondensationSummaryEvent', summary: 'short' }, 'short'],
  [{ kind: 'CondensationRequest' }, 'a condensation was asked for'],
  [{ kind: 'PauseEvent' }, 'the run was stopped'],
  [{ kind: 'LLMCompletionLogEvent', filename: 'a.json', log_data: '{}' }, 'a.json (unknown)'],
  [
    { kind: 'TokenEvent', prompt_token_ids: [1, 2], response_token_ids: [3] },
    '2 prompt tokens, 1 response tokens',
  ],
  [{ kind: 'OtherEvent', id: 'x', timestamp: 'y', source: 'hook', extra: 1 }, '{"extra":1}'],
])('%j is summed up as %j', (event, summary) => {
  expect(summarizeEvent(event).summary).toBe(summary)
})

test('an event without a source is shown with the default of its kind', () => {
  expect(summarizeEvent({ kind: 'PauseEvent' }).source).toBe('user')
  expect(summarizeEvent({ kind: 'ActionEvent', source: 'environment' }).source).toBe('environment')
})

test('control characters of any member are neutralised', () => {
  const evil = '\u001b]0;owned\u0007'
  const line = summarizeEvent({ kind: `K${evil}`, source: evil, timestamp: evil, x: evil })
  const state = summarizeEvent({ kind: 'AgentErrorEvent', tool_name: evil, error: evil })
  expect(Object.values(line).concat(Object.values(state)).join('')).not.toMatch(/\p{Cc}/u)
})

test('encrypted content and signatures are never shown', () => {
  const hidden = { encrypted_content: 'HIDDEN', signature: 'HIDDEN' }
  const thinking_blocks = [{ type: 'thinking', thinking: 't', ...hidden }]
  const everywhere = {
    responses_reasoning_item: hidden,
    thinking_blocks,
    value: { deep: [hidden] },
    action: hidden,
  }
  for (const kind of [...eventKinds, 'OtherEvent']) {
    const event = { kind, ...everywhere, llm_message: { content: [], ...everywhere } }
    expect(summarizeEvent(event).summary).not.toContain('HIDDEN')
  }
  expect(
    summarizeEvent({ kind: 'LLMCompletionLogEvent', filename: 'f', log_data: JSON.stringify(hidden) })
      .summary,
  ).toBe('f (unknown)')
})

test('any JSON value has a line, in one line and not too long', () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.constantFrom(...eventKinds, 'OtherEvent', '__proto__', 'valueOf'),
      (value, kind) => {
        const event =
          typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value, kind } : value
        const { summary } = summarizeEvent(event)
        expect(summary).not.toMatch(/\p{Cc}/u)
        expect([...summary].length).toBeLessThanOrEqual(500)
      },
    ),
  )
})

test('an action of any shape has a line', () => {
  const kinds = [
    'TerminalAction',
    'TaskTrackerAction',
    'FileEditorAction',
    'GrepAction',
    'constructor',
    '__proto__',
  ]
  const shape = fc.dictionary(fc.constantFrom('command', 'path', 'task_list', 'data', 'x'), fc.jsonValue())
  fc.assert(
    fc.property(shape, fc.constantFrom(...kinds), (members, kind) => {
      const action = { ...members, kind }
      expect(summarizeEvent({ kind: 'ActionEvent', tool_name: 't', thought: [], action }).summary).toMatch(
        /^t:/,
      )
    }),
  )
})

test('a huge text is cut', () => {
  const error = 'a'.repeat(10_000_000)
  expect(summarizeEvent({ kind: 'AgentErrorEvent', tool_name: 't', error }).summary.length).toBe(500)
})
