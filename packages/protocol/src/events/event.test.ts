import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { must } from '../core/assert.ts'
import { messageTexts } from '../message-texts.ts'
import { agentServerOpenApi } from '../openapi/openapi.ts'
import { event, validateEvent } from './event.ts'
import { eventKinds } from './kinds.ts'
import { defaultSource } from './sources.ts'

const toolCall = { tool_name: 'terminal', tool_call_id: 'c1' }
const text = (value: string) => ({ type: 'text', text: value })

/** The least that each kind needs (spec 2.2). */
const requiredMembers: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  Condensation: { llm_response_id: 'r1' },
  CondensationRequest: {},
  CondensationSummaryEvent: { summary: 's' },
  ConversationErrorEvent: { source: 'environment', code: 'c', detail: 'd' },
  ConversationStateUpdateEvent: {},
  LLMCompletionLogEvent: { filename: 'f', log_data: '{}' },
  ActionEvent: {
    thought: [],
    ...toolCall,
    tool_call: { id: 'c1', name: 'terminal', arguments: '{}', origin: 'completion' },
    llm_response_id: 'r1',
  },
  MessageEvent: { source: 'user', llm_message: { role: 'user' } },
  AgentErrorEvent: { ...toolCall, error: 'e' },
  ObservationEvent: { ...toolCall, observation: { kind: 'ThinkObservation' }, action_id: 'a1' },
  UserRejectObservation: { ...toolCall, action_id: 'a1' },
  SystemPromptEvent: { system_prompt: { text: 'p' }, tools: [] },
  TokenEvent: { source: 'agent', prompt_token_ids: [1], response_token_ids: [] },
  PauseEvent: {},
}

/** All that each kind may have besides, in the shape of the specification. */
const optionalMembers: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  Condensation: { forgotten_event_ids: ['a'], summary: null, summary_offset: 0 },
  ConversationStateUpdateEvent: { key: 'k', value: null },
  LLMCompletionLogEvent: { model_name: 'm', usage_id: 'u' },
  ActionEvent: {
    reasoning_content: null,
    thinking_blocks: [
      { type: 'thinking', thinking: 't', signature: null },
      { type: 'redacted_thinking', data: 'd' },
    ],
    responses_reasoning_item: {
      id: null,
      summary: ['s'],
      content: null,
      encrypted_content: 'e',
      status: null,
    },
    action: { kind: 'TerminalAction', command: 'ls', timeout: 1.5 },
    security_risk: 'HIGH',
    critic_result: { score: 1, message: null, metadata: { any: [1] } },
    summary: 's',
  },
  MessageEvent: {
    llm_response_id: null,
    activated_skills: ['s'],
    extended_content: [text('x')],
    sender: null,
    critic_result: null,
  },
  UserRejectObservation: { rejection_reason: 'r', rejection_source: 'hook' },
  SystemPromptEvent: { dynamic_context: null },
}

const cases = eventKinds.map((kind) => [kind, { ...must(requiredMembers[kind], kind), kind }] as const)

test('there are the 14 kinds of the specification', () => {
  expect([...eventKinds].sort()).toEqual(Object.keys(requiredMembers).sort())
})

test.each(cases)('%s is accepted with its required members, and with all of them', (kind, value) => {
  expect(validateEvent(value)).toEqual([])
  const common = { id: '01J', timestamp: '2026-03-01T10:00:00.000001', source: 'agent' }
  expect(validateEvent({ ...value, ...optionalMembers[kind], ...common })).toEqual([])
})

test.each(cases)('%s without a required member is refused at its place', (_, value) => {
  for (const name of Object.keys(value)) {
    const { [name]: __, ...others } = value as Record<string, unknown>
    expect(validateEvent(others)).toEqual([{ loc: [name], msg: 'Field required', type: 'missing' }])
  }
})

test.each(cases)('%s with another member is refused at its place', (_, value) => {
  const fault = (name: string) => ({
    loc: [name],
    msg: 'Extra inputs are not permitted',
    type: 'extra_forbidden',
  })
  expect(validateEvent({ ...value, parent_id: null })).toEqual([fault('parent_id')])
  const sly = JSON.parse(`{"__proto__":{"kind":"PauseEvent"},${JSON.stringify(value).slice(1)}`)
  expect(validateEvent(sly)).toEqual([fault('__proto__')])
})

test.each([
  ['PauseEvent', { source: 'hook' }, ['source'], 'enum'],
  ['PauseEvent', { source: null }, ['source'], 'enum'],
  ['PauseEvent', { id: 5 }, ['id'], 'string_type'],
  ['PauseEvent', { timestamp: 1772359200 }, ['timestamp'], 'string_type'],
  ['PauseEvent', { timestamp: 'noon' }, ['timestamp'], 'datetime_parsing'],
  ['Condensation', { summary_offset: -1 }, ['summary_offset'], 'greater_than_equal'],
  ['Condensation', { summary_offset: 1.5 }, ['summary_offset'], 'int_from_float'],
  ['Condensation', { forgotten_event_ids: null }, ['forgotten_event_ids'], 'list_type'],
  ['Condensation', { forgotten_event_ids: ['a', 1] }, ['forgotten_event_ids', 1], 'string_type'],
  ['TokenEvent', { prompt_token_ids: ['1'] }, ['prompt_token_ids', 0], 'float_type'],
  ['ActionEvent', { security_risk: 'high' }, ['security_risk'], 'enum'],
  ['ActionEvent', { thought: [{ text: 't', x: 1 }] }, ['thought', 0, 'x'], 'extra_forbidden'],
  ['ActionEvent', { action: { kind: 'NoAction' } }, ['action', 'kind'], 'union_tag_invalid'],
  [
    'ActionEvent',
    { critic_result: { score: 1.1, message: '' } },
    ['critic_result', 'score'],
    'less_than_equal',
  ],
  ['ActionEvent', { critic_result: { score: 0 } }, ['critic_result', 'message'], 'missing'],
  ['ActionEvent', { thinking_blocks: [{ type: 'thinking' }] }, ['thinking_blocks', 0, 'thinking'], 'missing'],
  ['MessageEvent', { llm_message: { role: 'critic' } }, ['llm_message', 'role'], 'enum'],
  ['MessageEvent', { llm_message: { role: 'user', content: 'hi' } }, ['llm_message', 'content'], 'list_type'],
  ['UserRejectObservation', { rejection_source: 'agent' }, ['rejection_source'], 'enum'],
  ['SystemPromptEvent', { tools: [{ kind: 'OtherTool' }] }, ['tools', 0, 'kind'], 'union_tag_invalid'],
])('%s with %j is refused at its place', (kind, change, loc, type) => {
  expect(validateEvent({ ...requiredMembers[kind], kind, ...change })).toMatchObject([{ loc, type }])
})

test('an unknown kind is one fault that names it and the 14 known ones', () => {
  const [fault, ...others] = validateEvent({ kind: 'StreamingDeltaEvent', content: 'x' })
  expect(others).toEqual([])
  expect(fault).toMatchObject({ loc: ['kind'], type: 'union_tag_invalid' })
  for (const kind of eventKinds) expect(fault?.msg).toContain(kind)
  expect(fault?.msg).toContain("'StreamingDeltaEvent'")
  expect(validateEvent({ kind: ['PauseEvent'] })).toMatchObject([
    { loc: ['kind'], type: 'union_tag_invalid' },
  ])
})

test.each([null, [], 'x', 1, true])('%j is no event', (value) => {
  expect(validateEvent(value)).toEqual([{ loc: [], msg: 'Input should be an object', type: 'model_type' }])
})

test('no fault shows the value that was refused', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...cases),
      fc.jsonValue({ maxDepth: 2 }),
      fc.nat(),
      ([, value], odd, pick) => {
        const names = Object.keys(value).filter((name) => name !== 'kind')
        const name = names[pick % names.length]
        if (name === undefined) return
        const secret = 'zq-secret-zq'
        for (const fault of validateEvent({ ...value, [name]: { secret, odd } }))
          expect(fault.msg).not.toContain(secret)
      },
    ),
  )
})

test('free-form JSON may nest as deep as it likes', () => {
  let value: unknown = {}
  for (let depth = 0; depth < 100_000; depth++) value = depth % 2 === 0 ? [value] : { value }
  expect(validateEvent({ kind: 'ConversationStateUpdateEvent', value })).toEqual([])
  const action = { kind: 'MCPToolAction', data: { value } }
  expect(validateEvent({ ...requiredMembers.ActionEvent, kind: 'ActionEvent', action })).toEqual([])
})

test.each([
  ['ActionEvent', 'agent'],
  ['ObservationEvent', 'environment'],
  ['PauseEvent', 'user'],
  ['AgentErrorEvent', 'agent'],
  ['SystemPromptEvent', 'agent'],
  ['Condensation', 'environment'],
  ['CondensationRequest', 'environment'],
  ['CondensationSummaryEvent', 'environment'],
  ['ConversationStateUpdateEvent', 'environment'],
  ['LLMCompletionLogEvent', 'environment'],
  ['UserRejectObservation', 'environment'],
  ['MessageEvent', undefined],
  ['ConversationErrorEvent', undefined],
  ['TokenEvent', undefined],
  ['constructor', undefined],
])('the default source of %s is %s', (kind, source) => {
  expect(defaultSource(kind)).toBe(source)
})

test('the defaults are those of the specification', () => {
  const parse = (kind: string) => event.parse({ ...requiredMembers[kind], kind })
  expect(parse('LLMCompletionLogEvent')).toMatchObject({ model_name: 'unknown', usage_id: 'default' })
  expect(parse('ActionEvent')).toMatchObject({ security_risk: 'UNKNOWN', source: 'agent' })
  expect(parse('UserRejectObservation')).toMatchObject({
    rejection_reason: 'User rejected the action',
    rejection_source: 'user',
  })
  expect(parse('SystemPromptEvent')).toMatchObject({ system_prompt: { type: 'text', cache_prompt: false } })
})

test('the described schema and the validator agree', () => {
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  const validate = ajv.compile({ ...agentServerOpenApi.toJSON(), $ref: '#/components/schemas/Event' })
  // Whole numbers that are not exact in JavaScript are refused; the description does not go into that.
  const isExact = (value: unknown) => !Number.isInteger(value) || Number.isSafeInteger(value)
  const odd = fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constantFrom('text', 'user', 0, -1, 'UNKNOWN'))
  fc.assert(
    fc.property(
      fc.constantFrom(...cases),
      fc.nat(),
      odd.filter((value) => [value].flat().every(isExact)),
      fc.boolean(),
      ([kind, minimal], pick, change, isExtra) => {
        const value: Record<string, unknown> = { ...minimal, ...optionalMembers[kind] }
        const names = Object.keys(value)
        value[isExtra ? `x${pick}` : must(names[pick % names.length], 'name')] = change
        expect(validateEvent(JSON.parse(JSON.stringify(value))).length === 0).toBe(validate(value))
      },
    ),
    { numRuns: 1000 },
  )
})

test('the texts of a message are its content, its extended content and its reasoning', () => {
  const llm_message = {
    role: 'assistant',
    content: [text('a'), { type: 'image', image_urls: ['i'] }, text('b')],
    reasoning_content: 'r',
    thinking_blocks: [{ type: 'thinking', thinking: 'no' }],
  }
  const value = {
    kind: 'MessageEvent',
    source: 'agent',
    llm_message,
    extended_content: [text('e')],
    sender: 'no',
  }
  expect(validateEvent(value)).toEqual([])
  expect(messageTexts(value)).toEqual(['a', 'b', 'e', 'r'])
})

test('messages of other writers have the texts that can be found in them', () => {
  expect(messageTexts({ kind: 'MessageEvent', llm_message: { content: 'plain' } })).toEqual(['plain'])
  expect(
    messageTexts({ kind: 'MessageEvent', llm_message: { content: ['x', null, { text: 5 }, [text('y')]] } }),
  ).toEqual(['x'])
})

test('whatever is no message has no texts, and nothing makes the search fail', () => {
  expect(messageTexts({ kind: 'AgentErrorEvent', llm_message: { content: 'x' } })).toEqual([])
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (llm_message, extended_content) => {
      const texts = messageTexts({ kind: 'MessageEvent', llm_message, extended_content })
      for (const one of texts) expect(typeof one).toBe('string')
      expect(messageTexts(llm_message)).toEqual([])
    }),
  )
})
