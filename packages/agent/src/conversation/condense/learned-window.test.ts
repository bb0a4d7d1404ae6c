import { expect, test } from 'vitest'
import { learnedModelName } from '../../llm/route.ts'
import { learnWindow } from './learned-window.ts'

test.each<[string, number]>([
  [
    "HTTP 400: This model's maximum context length is 32768 tokens. However, you requested 101,593 tokens.",
    32_768,
  ],
  ['request (1665 tokens) exceeds the available context size (1024 tokens), try increasing it', 1_024],
  ['prompt is too long: 210000 tokens > 200000 maximum', 200_000],
  ['`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000', 4_096],
  ['Your request exceeded model token limit: 8192 (requested: 9000)', 8_192],
  ["The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8_192],
  ['The input token count (2000000) exceeds the maximum number of tokens allowed (1,048,576).', 1_048_576],
  ["This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 131_072],
  ['The decoder prompt (length 9000) is longer than the maximum model length of 8192.', 8_192],
  ['Range of input length should be [1, 98304]', 98_304],
  ['when context overflows. However, the model is loaded with context length of only 4096 tokens', 4_096],
])('%s names its limit', (detail, window) => {
  expect(learnWindow(detail, { requestTokens: 3_000_000 })).toEqual({ tokens: window, isNamed: true })
})

test('without a number, or with one that is no news, a quarter less is tried', () => {
  const error = 'invalid params, context window exceeds limit (2013)'
  const guess = (tokens: number) => ({ tokens, isNamed: false })
  expect(learnWindow(error, { requestTokens: 10_000 })).toEqual(guess(7_500))
  expect(learnWindow(error, { requestTokens: 10_000, known: 8_000 })).toEqual(guess(6_000))
  const old = 'maximum context length is 8000'
  expect(learnWindow(old, { requestTokens: 7_000, known: 8_000 })).toEqual(guess(5_250))
  expect(learnWindow('', { requestTokens: 600 })).toEqual(guess(512))
})

test('a limit is that of a model at its server, without what the address has of keys', () => {
  expect(learnedModelName({ model: 'm', base_url: undefined })).toBe('m')
  expect(learnedModelName({ model: 'm', base_url: 'http://u:secret@h:1/v1?key=k' })).toBe('m at h:1')
})
