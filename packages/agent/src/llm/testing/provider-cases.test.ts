import { expect, test } from 'vitest'
import { historyCases } from '../refusals/testing/history-cases.ts'
import { itemCases } from '../refusals/testing/item-cases.ts'
import { parameterCases } from '../refusals/testing/parameter-cases.ts'
import { pictureCases } from '../refusals/testing/picture-cases.ts'
import { finalAnswers, tooLargeAnswers, toolsRefused } from '../refusals/testing/refusal-answers.ts'
import { providerFailures } from './provider-failures.ts'
import { serverFailures } from './server-failures.ts'
import { validators } from './validators/validators.ts'

/** Cases in tables that tests share; those of streams and of texts with calls stand in their tests. */
const families: Readonly<Record<string, readonly unknown[]>> = {
  'rules of strict servers': Object.values(validators).flatMap(({ name, rules }) =>
    rules.map(({ id, source }) => [name, id, source]),
  ),
  'refused parameters': parameterCases,
  'refused pictures': pictureCases,
  'refused items of the history': [...historyCases, ...itemCases],
  'refused tools': toolsRefused,
  'requests that are too large': tooLargeAnswers,
  'said at once': finalAnswers,
  'other failures': [...providerFailures, ...serverFailures],
}

test('there are 200 distinct cases of providers and more', () => {
  const counts = Object.entries(families).map(([family, cases]) => {
    const distinct = new Set(cases.map((one) => String(JSON.stringify(one))))
    return [family, distinct.size] as const
  })
  for (const [family, count] of counts) expect([family, count]).toEqual([family, families[family]?.length])
  const total = counts.reduce((sum, [, count]) => sum + count, 0)
  console.info(`${total} cases of providers: ${counts.map(([family, n]) => `${n} ${family}`).join(', ')}`)
  expect(total).toBeGreaterThanOrEqual(200)
})
