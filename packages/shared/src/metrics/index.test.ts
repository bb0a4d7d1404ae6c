import { expect, test } from 'vitest'
import { createCounter, createGauge, createHistogram, createLabeledGauge } from './index.ts'

test('a gauge reads its value when it is collected', async () => {
  let value = 1
  const gauge = createGauge('x', 'X.', () => value)
  const byState = createLabeledGauge('y', 'Y.', 'state', async () => [['open', value]])
  value = 2
  expect((await gauge.get()).values).toMatchObject([{ value: 2 }])
  expect((await byState.get()).values).toMatchObject([{ labels: { state: 'open' }, value: 2 }])
})

test('a labeled gauge that cannot be read has no values until it can', async () => {
  const reads = [Promise.resolve([['open', 1] as const]), Promise.reject(new Error('closed'))]
  const gauge = createLabeledGauge('y', 'Y.', 'state', () => reads.shift() ?? Promise.resolve([['open', 2]]))
  const read = async () => (await gauge.get()).values.map(({ value }) => value)
  expect([await read(), await read(), await read()]).toEqual([[1], [], [2]])
})

test('metrics of one name may exist many times, because they belong to no registry', async () => {
  for (let time = 0; time < 2; time++) {
    const counter = createCounter('x', 'X.', 'outcome')
    counter.inc({ outcome: 'ok' })
    expect((await counter.get()).values).toMatchObject([{ labels: { outcome: 'ok' }, value: 1 }])
    createHistogram('y', 'Y.', [1, 2]).observe(1)
  }
})
