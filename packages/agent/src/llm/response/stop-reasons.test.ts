import { expect, test } from 'vitest'
import { stopMeaning } from './stop-reasons.ts'

test.each([
  ['stop', 'end_turn', 'stop'],
  ['stop', undefined, 'stop'],
  ['tool-calls', 'tool_use', 'stop'],
  ['other', 'eos_token', 'stop'],
  ['stop', 'pause_turn', 'length'],
  ['length', 'MAX_TOKENS', 'length'],
  ['length', 'model_context_window_exceeded', 'window'],
  ['other', 'model_context_window_exceeded', 'window'],
  ['content-filter', 'SAFETY', 'refusal'],
  ['other', 'LANGUAGE', 'refusal'],
  ['error', 'MALFORMED_FUNCTION_CALL', 'broken'],
  ['other', 'insufficient_system_resource', 'broken'],
  ['other', 'something_new', 'broken'],
  ['other', undefined, undefined],
  ['error', undefined, undefined],
] as const)('%s with the word %s means %s', (unified, raw, meaning) => {
  expect(stopMeaning({ unified, raw }, false)).toBe(meaning)
})

test('a reply with calls ends by them, and without a reason there is no reply', () => {
  expect(stopMeaning({ unified: 'stop', raw: 'STOP' }, true)).toBe('tool_calls')
  expect(stopMeaning(undefined, true)).toBeUndefined()
})
