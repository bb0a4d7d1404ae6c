import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maxMetrics, parseMetrics, parseStatsMetrics, type UsageMetrics } from './usage-metrics.ts'

const reported = fc.record({
  model_name: fc.string(),
  accumulated_cost: fc.double({ min: 0, max: 1e6, noNaN: true }),
  accumulated_token_usage: fc.option(
    fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat(), cache_read_tokens: fc.nat() }),
  ),
})

test('whatever is reported in whatever order, neither cost nor tokens go down', () => {
  fc.assert(
    fc.property(fc.array(reported, { maxLength: 8 }), (reports) => {
      let kept: UsageMetrics | null = null
      for (const report of reports) {
        const before: UsageMetrics | null = kept
        kept = maxMetrics(kept, parseMetrics(report))
        expect(kept?.accumulated_cost ?? 0).toBeGreaterThanOrEqual(before?.accumulated_cost ?? 0)
        const tokens = (metrics: UsageMetrics | null) =>
          Number(metrics?.accumulated_token_usage?.prompt_tokens ?? 0)
        expect(tokens(kept)).toBeGreaterThanOrEqual(tokens(before))
      }
    }),
  )
})

test('anything may be reported', () => {
  fc.assert(fc.property(fc.anything(), (value) => void [parseMetrics(value), parseStatsMetrics(value)]))
  expect(
    parseMetrics({ accumulated_cost: Number.NaN, accumulated_token_usage: { prompt_tokens: -1 } }),
  ).toMatchObject({
    accumulated_cost: 0,
    accumulated_token_usage: { prompt_tokens: 0 },
  })
})

test('the models of a conversation are added up', () => {
  const usage = (count: number) => ({
    accumulated_cost: count,
    accumulated_token_usage: { prompt_tokens: count },
  })
  const found = parseStatsMetrics({ usage_to_metrics: { agent: usage(2), condenser: usage(3) } })
  expect(found).toMatchObject({ accumulated_cost: 5, accumulated_token_usage: { prompt_tokens: 5 } })
  expect(parseStatsMetrics({})).toBeUndefined()
})
