import fc from 'fast-check'
import { expect, test } from 'vitest'
import { modelProvider } from './model-provider.ts'
import { WorkMetrics } from './work-metrics.ts'

test('providers are a closed set for any model name', () => {
  const seen = new Set<string>()
  fc.assert(fc.property(fc.string(), (model) => void seen.add(modelProvider(model))))
  for (const name of ['x/y', '/y', 'anthropic', 'sk-secret/openai', 'openai /x'])
    seen.add(modelProvider(name))
  expect([...seen]).toEqual(['other'])
  expect(['openai/gpt', 'anthropic/claude', 'scripted/x'].map(modelProvider)).toEqual([
    'openai',
    'anthropic',
    'scripted',
  ])
})

test('work is counted when it ends, a model call with its usage', async () => {
  const metrics = new WorkMetrics()
  const families = () => Promise.all(metrics.all.map((metric) => metric.get()))
  const value = async (name: string) => {
    const family = (await families()).find((one) => one.name === `slipway_${name}`)
    return family?.values.map(({ labels, value }) => ({ labels, value }))
  }
  const watching = metrics.monitor({ kind: 'model', model: 'openai/gpt' })
  expect(watching.within(() => 5)).toBe(5)
  expect(await value('model_calls_total')).toEqual([])
  const usage = {
    model: 'openai/gpt',
    prompt_tokens: 10,
    completion_tokens: 2,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 1,
    context_window: 0,
    per_turn_token: 12,
    response_id: 'secret-id',
  }
  watching.end({ outcome: 'ok', isFailure: false, modelUsage: { usage, cost: 0.5 } })
  metrics.monitor({ kind: 'tool', tool: 'TerminalTool' }).end({ outcome: 'error', isFailure: true })
  metrics.monitor({ kind: 'run' }).end({ outcome: 'stuck', isFailure: true })
  metrics.monitor({ kind: 'condensation' }).end({ outcome: 'ok', isFailure: false })
  expect(await value('model_calls_total')).toEqual([
    { labels: { provider: 'openai', outcome: 'ok' }, value: 1 },
  ])
  expect(await value('model_tokens_total')).toContainEqual({
    labels: { provider: 'openai', kind: 'prompt' },
    value: 10,
  })
  expect(await value('model_cost_dollars_total')).toEqual([{ labels: { provider: 'openai' }, value: 0.5 }])
  expect(await value('tool_calls_total')).toEqual([
    { labels: { tool: 'TerminalTool', outcome: 'error' }, value: 1 },
  ])
  expect(await value('runs_total')).toEqual([{ labels: { outcome: 'stuck' }, value: 1 }])
  expect(await value('condensations_total')).toEqual([{ labels: { outcome: 'ok' }, value: 1 }])
  expect(JSON.stringify(await families())).not.toContain('secret-id')
})
