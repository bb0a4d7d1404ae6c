import type { Message } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { encodeProviderMetadata } from '../request/provider-metadata.ts'
import { joinMessages } from './join-messages.ts'

const thought = (name: string) => ({ type: 'thinking' as const, thinking: name, signature: `s-${name}` })
const order = (letters: string) => encodeProviderMetadata('anthropic', 'order', 0, letters)
const message = (texts: readonly string[], more: Partial<Message> = {}): Message => ({
  role: 'assistant',
  content: texts.map((text) => ({ type: 'text', text, cache_prompt: false })),
  thinking_blocks: [],
  ...more,
})
const textsOf = (joined: Message | undefined) =>
  joined?.content.map((part) => (part.type === 'text' ? part.text : ''))
const tool_calls = [{ id: 'c', name: 'think', arguments: '{}', origin: 'completion' as const }]

test('texts without thoughts become one, with the calls of the last', () => {
  const joined = joinMessages([message(['One ', 'and ']), message(['two.'], { tool_calls })])
  expect(textsOf(joined)).toEqual(['One and two.'])
  expect(joined).toMatchObject({ thinking_blocks: [], tool_calls })
})

test('thoughts stay between the texts where they were received, and only the cut is joined', () => {
  const joined = joinMessages([
    message(['a', 'b'], { thinking_blocks: [thought('1'), order('trt')], reasoning_content: '1' }),
    message(['c'], { thinking_blocks: [thought('2'), order('trc')], reasoning_content: '2', tool_calls }),
  ])
  expect(textsOf(joined)).toEqual(['a', 'bc'])
  expect(joined?.thinking_blocks).toEqual([thought('1'), thought('2'), order('trtrc')])
  expect(joined).toMatchObject({ reasoning_content: '1\n\n2', tool_calls })
})

test('a continuation that begins with a thought keeps the texts apart', () => {
  const joined = joinMessages([
    message(['a'], { thinking_blocks: [thought('1')] }),
    message(['b'], { thinking_blocks: [thought('2')] }),
  ])
  expect(textsOf(joined)).toEqual(['a', 'b'])
  expect(joined?.thinking_blocks).toEqual([thought('1'), thought('2'), order('rtrt')])
})
