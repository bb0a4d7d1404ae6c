import { weighBundle } from '../support/console-bundle.ts'
import type { BenchContext } from '../support/fixtures.ts'
import { type ResultRow, withinBudget } from '../support/result-table.ts'

/** What a browser loads of the console, compressed: at once, and for each page and library on demand. */
export async function consoleSize(bench: BenchContext): Promise<ResultRow[]> {
  const parts = await weighBundle(await bench.directory())
  return parts.map(({ name, bytes, budget }) => withinBudget(name, 'bytes of a bundle', bytes, budget))
}
