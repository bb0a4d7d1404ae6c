import type { Message } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countTokens, textTokens } from './tokens.ts'

function say(text: string, more: Partial<Message> = {}): Message {
  return {
    role: 'user',
    content: [{ type: 'text', text, cache_prompt: false }],
    thinking_blocks: [],
    ...more,
  }
}

test.each([
  // The numbers are those of widely used tokenizers, about.
  ['The quick brown fox jumps over the lazy dog, and then it goes home to sleep.', 17],
  ['function add(a: number, b: number): number {\n    return a + b\n}\n', 18],
  ['{"command":"ls -la /tmp","summary":"list files"}', 16],
  ['Привет, как дела сегодня?', 8],
  ['今天天气很好，我们去公园吧。', 12],
])('%s counts as rather more than its tokens, but not by much', (text, tokens) => {
  expect(textTokens(text)).toBeGreaterThanOrEqual(tokens * 0.9)
  expect(textTokens(text)).toBeLessThanOrEqual(tokens * 2)
})

test('texts together count as the sum of their parts, about', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      const apart = textTokens(a) + textTokens(b)
      expect(Math.abs(textTokens(a + b) - apart)).toBeLessThanOrEqual(0.5)
    }),
  )
})

test('images, calls and encrypted thoughts count, and a message is counted once', () => {
  const image: Message = say('x', {
    content: [{ type: 'image', image_urls: ['a', 'b'], cache_prompt: false }],
  })
  expect(countTokens([image])).toBeGreaterThanOrEqual(2000)
  const calls = say('', {
    tool_calls: [{ id: 'a', name: 'run', arguments: 'x'.repeat(400), origin: 'completion' }],
  })
  expect(countTokens([calls])).toBeGreaterThanOrEqual(80)
  const item = { id: 'rs', summary: [], encrypted_content: 'x'.repeat(800) }
  expect(countTokens([say('', { responses_reasoning_item: item })])).toBeGreaterThanOrEqual(100)
  const once = say('one two three')
  const first = countTokens([once])
  once.content = []
  expect(countTokens([once])).toBe(first)
})
