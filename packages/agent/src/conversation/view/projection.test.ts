import type { Message } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { actionEvent, messageEvent, observationEvent } from '../testing/arbitraries.ts'
import { shorten } from './content-blocks.ts'
import { isViewEvent, type LogEvent } from './log-event.ts'
import { Projection } from './projection.ts'

function messagesOf(log: readonly LogEvent[], chars = 30_000, tokens = Number.POSITIVE_INFINITY): Message[] {
  return new Projection({ chars, tokens }).messages(log.filter(isViewEvent))
}

/** Roles and texts alone. */
function describeMessages(messages: readonly Message[]): string[] {
  return messages.map(({ role, content }) => {
    const texts = content.map((block) => (block.type === 'text' ? block.text : block.image_urls.join()))
    return `${role}: ${texts.join(' | ')}`
  })
}

/** An event as another writer's log may hold it. */
function foreignEvent(event: Record<string, unknown>): LogEvent {
  return event as unknown as LogEvent
}

const call = { tool_name: 'terminal', tool_call_id: 'ac' }

test('a system prompt is one message, its fixed part marked for the cache', () => {
  const prompt: LogEvent = {
    id: 's',
    kind: 'SystemPromptEvent',
    system_prompt: { text: 'You help.' },
    tools: [],
    dynamic_context: { text: 'It is Monday.', cache_prompt: true },
  }
  expect(messagesOf([messageEvent('u', 'user', 'Hi'), prompt])[0]).toEqual({
    role: 'system',
    content: [
      { type: 'text', text: 'You help.', cache_prompt: true },
      { type: 'text', text: 'It is Monday.', cache_prompt: false },
    ],
    thinking_blocks: [],
  })
})

test('the calls of one answer are one message with the reasoning of the first, and results come in their order', () => {
  const second = { ...actionEvent({ id: 'b', response: 'r' }), reasoning_content: 'not mine' } as LogEvent
  const messages = messagesOf([
    actionEvent({ id: 'a', response: 'r', thought: 'Two at once.', thinks: true }),
    second,
    observationEvent({ id: 'p', action_id: 'b', text: 'second' }),
    messageEvent('u', 'user', 'Wait!'),
    observationEvent({ id: 'o', action_id: 'a', text: 'first' }),
  ])
  expect(describeMessages(messages)).toEqual([
    'assistant: Two at once.',
    'tool: first',
    'tool: second',
    'user: Wait!',
  ])
  const [answer, ...rest] = messages
  expect(answer?.thinking_blocks).toEqual([{ type: 'thinking', thinking: 'hm', signature: 'sig-a' }])
  expect(answer?.reasoning_content).toBeUndefined()
  expect(answer?.tool_calls?.map(({ id }) => id)).toEqual(['ac', 'bc'])
  expect(rest.map(({ tool_call_id, name }) => [tool_call_id, name])).toEqual([
    ['ac', 'terminal'],
    ['bc', 'terminal'],
    [undefined, undefined],
  ])
})

test('a call goes back exactly as it came, though its arguments do not parse', () => {
  const tool_call = {
    id: 'ac',
    name: 'terminal',
    arguments: '{"command": "l',
    origin: 'responses',
    responses_item_id: 'fc_1',
  }
  const failed = foreignEvent({ ...actionEvent({ id: 'a' }), action: null, tool_call })
  const error: LogEvent = { ...call, id: 'e', kind: 'AgentErrorEvent', error: 'No JSON.' }
  const [answer, result] = messagesOf([failed, error])
  expect(answer?.tool_calls).toEqual([tool_call])
  expect(describeMessages([result as Message])).toEqual(['tool: No JSON.'])
})

test('an id that a provider gives again in a later answer belongs to the later call', () => {
  const error = (id: string, text: string): LogEvent => ({
    ...call,
    id,
    kind: 'AgentErrorEvent',
    error: text,
  })
  const messages = messagesOf([
    actionEvent({ id: 'a', call: 'ac' }),
    error('e', 'first'),
    actionEvent({ id: 'b', call: 'ac' }),
    error('f', 'second'),
    error('g', 'a second result of one call'),
  ])
  expect(describeMessages(messages)).toEqual(['assistant: ', 'tool: first', 'assistant: ', 'tool: second'])
})

test('calls without a result and results without a call are left out; a thought stays', () => {
  const dangling = [
    actionEvent({ id: 'a', thought: 'I begin.', thinks: true }),
    actionEvent({ id: 'b' }),
    observationEvent({ id: 'x', action_id: 'gone', call: 'gone' }),
  ]
  const messages = messagesOf(dangling)
  expect(messages).toEqual([
    {
      role: 'assistant',
      content: [{ type: 'text', text: 'I begin.', cache_prompt: false }],
      thinking_blocks: [],
    },
  ])
  const half = [
    actionEvent({ id: 'a', response: 'r', thinks: true }),
    actionEvent({ id: 'b', response: 'r' }),
  ]
  const [answer] = messagesOf([...half, observationEvent({ id: 'p', action_id: 'b' })])
  expect(answer?.tool_calls?.map(({ id }) => id)).toEqual(['bc'])
  expect(answer?.thinking_blocks).toHaveLength(1)
})

test('a result says whether it failed, that there was nothing, and who rejected it', () => {
  const error = (kind: string, members: object): LogEvent =>
    foreignEvent({ ...call, id: 'x', kind, action_id: 'a', ...members })
  const results: [LogEvent, string][] = [
    [
      observationEvent({ id: 'o', action_id: 'a', isError: true }),
      'tool: [An error occurred during execution.] | a.ts',
    ],
    [observationEvent({ id: 'o', action_id: 'a', text: ' ' }), 'tool: The tool gave no output.'],
    [error('AgentErrorEvent', { error: '' }), 'tool: The call failed without an error text.'],
    [
      error('UserRejectObservation', { rejection_reason: 'Not now.' }),
      'tool: The action was rejected by the user: Not now.',
    ],
    [
      error('UserRejectObservation', { rejection_source: 'hook' }),
      'tool: The action was rejected by a hook: User rejected the action',
    ],
  ]
  for (const [result, text] of results)
    expect(describeMessages(messagesOf([actionEvent({ id: 'a' }), result]))[1]).toBe(text)
})

test('what a terminal says around its output is shown once', () => {
  const ran = (output: string) => {
    const seen = observationEvent({ id: 'o', action_id: 'a', text: output })
    if (seen.kind !== 'ObservationEvent') throw new Error('no observation')
    const metadata = { exit_code: 1, pid: 7, prefix: '', suffix: '\n[exit status 1]' }
    const observed = foreignEvent({ ...seen, observation: { ...seen.observation, metadata } })
    return describeMessages(messagesOf([actionEvent({ id: 'a' }), observed]))[1]
  }
  expect(ran('none')).toBe('tool: none | \n[exit status 1]')
  expect(ran('none\n[exit status 1]')).toBe('tool: none\n[exit status 1]')
})

test('a screenshot is an image of its own type', () => {
  for (const [data, type] of Object.entries({
    iVBORw0KGgo: 'png',
    '/9j/4AAQ': 'jpeg',
    UklGRgAA: 'webp',
    R0lGODlh: 'gif',
  })) {
    const seen = { content: [], is_error: false, screenshot_data: data, kind: 'BrowserObservation' as const }
    const event = foreignEvent({
      ...call,
      id: 'o',
      kind: 'ObservationEvent',
      action_id: 'a',
      observation: seen,
    })
    expect(describeMessages(messagesOf([actionEvent({ id: 'a' }), event]))[1]).toBe(
      `tool: data:image/${type};base64,${data}`,
    )
  }
})

test('a message has what the context adds; an empty one of a user says so, one of the agent is left out', () => {
  const skilled = foreignEvent({
    ...messageEvent('u', 'user', 'Hi'),
    extended_content: [{ text: 'A skill.' }],
  })
  const log = [
    skilled,
    messageEvent('a', 'agent', ''),
    messageEvent('v', 'user', ' '),
    messageEvent('e', 'environment', 'Continue.'),
  ]
  expect(describeMessages(messagesOf(log))).toEqual([
    'user: Hi | A skill.',
    'user: (This message is empty.)',
    'user: Continue.',
  ])
})

test("an agent's message keeps its reasoning and no call", () => {
  const item = { id: 'rs_1', summary: ['s'], encrypted_content: 'secret' }
  const llm_message = {
    role: 'assistant',
    content: [{ type: 'text', text: 'Done.' }],
    tool_calls: [{ id: 'x', name: 'terminal', arguments: '{}', origin: 'completion' }],
    reasoning_content: 'hm',
    thinking_blocks: [{ type: 'redacted_thinking', data: 'zzz' }],
    responses_reasoning_item: item,
  }
  const [message] = messagesOf([
    foreignEvent({ id: 'm', kind: 'MessageEvent', source: 'agent', llm_message }),
  ])
  expect(message).toEqual({
    role: 'assistant',
    content: [{ type: 'text', text: 'Done.', cache_prompt: false }],
    reasoning_content: 'hm',
    thinking_blocks: [{ type: 'redacted_thinking', data: 'zzz' }],
    responses_reasoning_item: item,
  })
})

test('a summary is labelled as one', () => {
  const summary: LogEvent = {
    id: 'c-summary',
    kind: 'CondensationSummaryEvent',
    summary: 'Files were counted: 7.',
  }
  const [text = ''] = describeMessages(messagesOf([summary]))
  expect(text).toMatch(/^user: .*summary.*Files were counted: 7\.$/s)
})

test('events of other shapes are read as far as they go', () => {
  const older = { id: 'ac', type: 'function', function: { name: 'terminal', arguments: '{"command":"pwd"}' } }
  const log = [
    foreignEvent({
      id: 'u',
      kind: 'MessageEvent',
      source: 'user',
      llm_message: { role: 'user', content: 'Hi' },
    }),
    foreignEvent({ id: 'v', kind: 'MessageEvent', source: 'agent' }),
    foreignEvent({ ...actionEvent({ id: 'a' }), thought: undefined, tool_call: older }),
    foreignEvent({
      ...call,
      id: 'o',
      kind: 'ObservationEvent',
      action_id: 'a',
      observation: { stdout: '/home', kind: 'Old' },
    }),
    foreignEvent({ id: 'b', kind: 'ActionEvent' }),
    foreignEvent({ id: 'p', kind: 'ObservationEvent', action_id: 'b' }),
  ]
  const messages = messagesOf(log)
  expect(describeMessages(messages)).toEqual([
    'user: Hi',
    'assistant: ',
    'tool: {"stdout":"/home"}',
    'assistant: ',
    'tool: The tool gave no output.',
  ])
  expect(messages[1]?.tool_calls).toEqual([
    { id: 'ac', name: 'terminal', arguments: '{"command":"pwd"}', origin: 'completion' },
  ])
})

test('texts are bounded, but not the system prompt and what the model made itself', () => {
  const long = 'word '.repeat(500)
  const tool_call = { id: 'ac', name: 'terminal', arguments: `"${long}"`, origin: 'completion' }
  const log = [
    foreignEvent({ id: 's', kind: 'SystemPromptEvent', system_prompt: { text: long }, tools: [] }),
    messageEvent('u', 'user', long),
    foreignEvent({ ...actionEvent({ id: 'a' }), tool_call }),
    observationEvent({ id: 'o', action_id: 'a', text: long }),
  ]
  const [system, user, answer, result] = messagesOf(log, 300)
  expect(describeMessages([system as Message])[0]).toHaveLength('system: '.length + long.length)
  for (const message of [user, result]) {
    expect(describeMessages([message as Message])[0]).toMatch(
      /^\w+: word .*\[\.\.\. 2\d{3} characters left out \.\.\.\].*word $/s,
    )
  }
  expect(answer?.tool_calls).toEqual([tool_call])
})

test('a cut text is no longer than allowed, and no character of it is split', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 400 }),
      fc.integer({ min: 1, max: 400 }),
      (text, max) => {
        const short = shorten(text, max)
        expect(short.length).toBeLessThanOrEqual(max)
        if (text.length <= max) expect(short).toBe(text)
        expect(short.isWellFormed()).toBe(true)
      },
    ),
  )
})
