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

test('for any reports in any order, cost and tokens never decrease', () => {
  fc.assert(
    fc.property(fc.array(reported, { maxLength: 8 }), (reports) => {
      let current: UsageMetrics | null = null
      for (const report of reports) {
        const before: UsageMetrics | null = current
        current = maxMetrics(current, parseMetrics(report))
        expect(current?.accumulated_cost ?? 0).toBeGreaterThanOrEqual(before?.accumulated_cost ?? 0)
        const tokens = (metrics: UsageMetrics | null) =>
          Number(metrics?.accumulated_token_usage?.prompt_tokens ?? 0)
        expect(tokens(current)).toBeGreaterThanOrEqual(tokens(before))
      }
    }),
  )
})

test('any value can be parsed', () => {
  fc.assert(fc.property(fc.anything(), (value) => void [parseMetrics(value), parseStatsMetrics(value)]))
  expect(
    parseMetrics({ accumulated_cost: Number.NaN, accumulated_token_usage: { prompt_tokens: -1 } }),
  ).toMatchObject({
    accumulated_cost: 0,
    accumulated_token_usage: { prompt_tokens: 0 },
  })
})

test('the usage of all models of a conversation is added', () => {
  const usage = (count: number) => ({
    accumulated_cost: count,
    accumulated_token_usage: { prompt_tokens: count },
  })
  const found = parseStatsMetrics({ usage_to_metrics: { agent: usage(2), condenser: usage(3) } })
  expect(found).toMatchObject({ accumulated_cost: 5, accumulated_token_usage: { prompt_tokens: 5 } })
  expect(parseStatsMetrics({})).toBeUndefined()
})
