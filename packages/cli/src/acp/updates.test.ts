import { expect, test } from 'vitest'
import { toToolCall } from './tool-calls.ts'
import { SessionUpdates } from './updates.ts'

const reply = (...texts: readonly string[]) => ({
  kind: 'MessageEvent',
  source: 'agent',
  llm_message: { content: texts.map((text) => ({ text })), reasoning_content: 'I think.' },
})
const chunk = (sessionUpdate: string, text: string) => ({ sessionUpdate, content: { type: 'text', text } })

test('what was streamed is not repeated, and what is missing is completed', () => {
  const updates = new SessionUpdates()
  updates.fromUpdate({ kind: 'StreamingDeltaEvent', reasoning_content: 'I ', content: 'Hel' })
  expect(updates.fromEvent(reply('Hello', ' there'))).toEqual([
    chunk('agent_thought_chunk', 'think.'),
    chunk('agent_message_chunk', 'lo there'),
  ])
  expect(updates.fromEvent(reply('Again'))).toContainEqual(chunk('agent_message_chunk', 'Again'))
  updates.fromUpdate({ kind: 'StreamingDeltaEvent', content: 'Broken' })
  expect(updates.fromUpdate({ kind: 'StreamingResetEvent' })).toMatchObject([
    { sessionUpdate: 'agent_message_chunk' },
  ])
  expect(updates.fromEvent(reply('Whole'))).toContainEqual(chunk('agent_message_chunk', 'Whole'))
})

test('usage has the tokens in the context and the cost', () => {
  const token_usage = { per_turn_token: 1200, context_window: 200_000 }
  const agent = { accumulated_cost: 0.25, accumulated_token_usage: token_usage }
  const value = { usage_to_metrics: { agent } }
  const update = { kind: 'ConversationStateUpdateEvent', key: 'stats', value } as const
  const cost = { amount: 0.25, currency: 'USD' }
  expect(new SessionUpdates().fromUpdate(update)).toEqual([
    { sessionUpdate: 'usage_update', used: 1200, size: 200_000, cost },
  ])
  const unknown = { ...update, value: { usage_to_metrics: {} } }
  expect(new SessionUpdates().fromUpdate(unknown)).toEqual([])
})

test('an error names the call, and the update the action', () => {
  const updates = new SessionUpdates()
  const action = { kind: 'ActionEvent', id: 'a1', tool_call_id: 'c1', tool_name: 'terminal' }
  updates.fromEvent({ ...action, action: { kind: 'TerminalAction', command: 'ls' } })
  const error = { kind: 'AgentErrorEvent', tool_call_id: 'c1', error: 'Interrupted' }
  expect(updates.fromEvent(error)).toMatchObject([{ toolCallId: 'a1', status: 'failed' }])
  expect(updates.fromEvent(error)).toEqual([])
})

test('a call of an external agent begins once and is updated', () => {
  const updates = new SessionUpdates()
  const call = { kind: 'ACPToolCallEvent', tool_call_id: 'x', title: 'Read a.txt', status: 'in_progress' }
  expect(updates.fromEvent(call)).toMatchObject([{ sessionUpdate: 'tool_call', status: 'in_progress' }])
  const end = { ...call, status: 'completed', content: [{ content: { type: 'text', text: 'one' } }] }
  expect(updates.fromEvent(end)).toMatchObject([{ sessionUpdate: 'tool_call_update', status: 'completed' }])
})

test.each([
  null,
  {},
  { kind: 'ActionEvent' },
  { kind: 'MessageEvent', source: 'user' },
  { kind: 'ObservationEvent' },
])('an event of another shape, %j, is no failure', (event) => {
  expect(() => new SessionUpdates().fromEvent({ ...event })).not.toThrow()
})

test('a question hides nothing: other members of an edit, and fences in a command', () => {
  const call = { tool_name: 'file_editor', tool_call: { arguments: '{"outside_sandbox":true}' } }
  const edit = { kind: 'FileEditorAction', command: 'create', path: '/a', file_text: 'x' }
  expect(toToolCall({ ...call, id: 'a', action: edit }).content).toEqual([
    { type: 'diff', path: '/a', oldText: null, newText: 'x' },
    { type: 'content', content: { type: 'text', text: '```\noutside_sandbox: true\n```' } },
  ])
  const command = 'echo "```"\nrm -rf x'
  const { content } = toToolCall({
    tool_name: 'terminal',
    id: 'b',
    action: { kind: 'TerminalAction', command },
  })
  expect(content).toEqual([
    { type: 'content', content: { type: 'text', text: '````\necho "```"\nrm -rf x\n````' } },
  ])
})
