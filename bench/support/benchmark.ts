import type { BenchContext } from './fixtures.ts'
import type { ResultRow } from './result-table.ts'

export interface Benchmark {
  run(bench: BenchContext): Promise<ResultRow[]>
  /** Takes very long: it runs only when it is named. */
  readonly isOnlyByName?: boolean
  /** Why it cannot run on this machine; undefined when it can. */
  whyUnavailable?(): Promise<string | undefined>
}
