import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { roundsOf } from './guarantee.ts'
import { guarantees } from './guarantees.ts'

/** How many rounds each guarantee is asked for; its share of them is run. */
const rounds = Number(process.env.SLIPWAY_CONTRACT_ROUNDS ?? 1)

test.for(Object.entries(guarantees))(
  '%s',
  { timeout: 120_000 + rounds * 20_000 },
  async ([, guarantee], { skip }) => {
    const unavailable = guarantee.whyUnavailable?.()
    if (unavailable !== undefined) {
      console.warn(`SKIPPED: ${unavailable}`)
      skip(unavailable)
    }
    const figures = await guarantee.run(roundsOf(guarantee, rounds))
    expect(Object.keys(figures).length).toBeGreaterThan(0)
  },
)

test('CONTRACT.md has every promise with its command', async () => {
  const text = await readFile(join(import.meta.dirname, '../../CONTRACT.md'), 'utf8')
  for (const [name, { promise }] of Object.entries(guarantees)) {
    expect(text).toContain(`| ${promise} |`)
    expect(text).toContain(`\`npm run contract -- ${name}\``)
  }
})
