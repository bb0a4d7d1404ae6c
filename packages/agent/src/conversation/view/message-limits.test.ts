import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { LearnedWindow, Model } from '../../llm/model.ts'
import { messageLimits } from './message-limits.ts'

function limitOf(settings: object, learnedWindow?: LearnedWindow, contextWindow?: number): number {
  const parsed = llm.parse({ model: 'm', ...settings })
  const generate = async () => ({ kind: 'aborted' }) as const
  const model: Model = { llm: parsed, learnedWindow, contextWindow, countTokens: () => 0, generate }
  return messageLimits(model).tokens
}

test('one message takes a quarter of the window without the reply', () => {
  expect(limitOf({})).toBe(Number.POSITIVE_INFINITY)
  expect(limitOf({}, undefined, 8000)).toBe(2000)
  expect(limitOf({ max_output_tokens: 100_000 }, undefined, 8000)).toBe(1000)
  expect(limitOf({ max_output_tokens: 800 }, { tokens: 8000, isNamed: true }, 200_000)).toBe(1800)
  expect(limitOf({ max_output_tokens: 800, max_input_tokens: 8000 })).toBe(2000)
  // A guess is what a request may have.
  expect(limitOf({ max_output_tokens: 800 }, { tokens: 4000, isNamed: false }, 200_000)).toBe(1000)
})
