import { expect, test } from 'vitest'
import { endure, resultTable } from './endure.ts'

/** `npm run endure` does the same with more conversations; `.ci/nightly` with 2,000. */
const conversations = Number(process.env.SLIPWAY_ENDURE_CASES ?? 12)
const seed = Number(process.env.SLIPWAY_ENDURE_SEED ?? 20_261_130)

test(`each of ${conversations} random conversations ends with an answer (seed ${seed})`, async () => {
  const result = await endure({ conversations, seed, killEvery: 6 })
  const table = resultTable(result)
  expect(result.kills, table).toBe(Math.ceil(conversations / 6) - 1)
  expect(result.provider.refusals, table).toEqual({})
  expect(
    result.outcomes.filter(({ death }) => death !== undefined),
    table,
  ).toEqual([])
}, 600_000)
