import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { resolveRoute } from '../route.ts'
import { loadModelFacts } from './prices.ts'

async function facts(settings: Record<string, unknown>) {
  const parsed = llm.parse(settings)
  const route = resolveRoute(parsed)
  if ('issue' in route) throw new Error(route.issue)
  return await loadModelFacts(parsed, route)
}

const tokens = { input: 1000, cacheRead: 0, cacheWrite: 0, output: 100 }
const at = new Date('2026-01-01T00:00:00Z')

test.each([
  ['openai/gpt-4o', {}],
  ['anthropic/claude-sonnet-4-5', {}],
  ['gemini/gemini-2.5-pro', {}],
  ['bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0', {}],
  ['openrouter/anthropic/claude-sonnet-4', {}],
  ['litellm_proxy/anthropic/claude-sonnet-4-5', { base_url: 'http://h' }],
  ['openai-compatible/mine', { base_url: 'http://h', model_canonical_name: 'anthropic/claude-sonnet-4-5' }],
])('%s has a price', async (model, more) => {
  expect((await facts({ model, ...more })).cost(tokens, at)).toBeGreaterThan(0)
})

test.each([
  ['openai-compatible/gpt-4o', { base_url: 'http://h' }],
  ['openai/qwen3-coder', { base_url: 'http://h' }],
  ['ollama/llama3', {}],
  ['openai/no-such-model-at-all', {}],
])('%s has none', async (model, more) => {
  const { cost, contextWindow } = await facts({ model, ...more })
  expect(cost(tokens, at)).toBeUndefined()
  expect(contextWindow).toBeUndefined()
})

test('what is read from a cache costs less, and numbers that do not add up do no harm', async () => {
  const { cost, contextWindow } = await facts({ model: 'anthropic/claude-sonnet-4-5' })
  expect(contextWindow).toBeGreaterThanOrEqual(200_000)
  expect(cost({ ...tokens, cacheRead: 900 }, at)).toBeLessThan(cost(tokens, at) ?? 0)
  expect(cost({ ...tokens, cacheRead: 5000 }, at) ?? 0).toBeGreaterThanOrEqual(0)
})
