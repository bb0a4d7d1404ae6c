/** A run of tests that may find a fault. */
export interface Stage {
  readonly name: string
  /** Longer runs hang, which finds the fault as well. */
  readonly maxMs: number
  /** Arguments of Node in the root of the tree: the tests for a fault in `file`. */
  args(file: string): readonly string[]
  /** The tests of one file alone, in the same projects. */
  repeatArgs(testFile: string): readonly string[]
}

const minute = 60_000
const vitest = ['node_modules/vitest/vitest.mjs']
const main = 'scripts/test/main.ts'
const bail = ['--bail', '1']
const plain = ['--project=plain', ...bail]
const daily = [main, 'daily', '--project=plain', '--project=smoke', ...bail]
const all = [main, 'all', ...bail]

/** The cheapest first. */
export const stages: readonly Stage[] = [
  {
    name: 'related',
    maxMs: 15 * minute,
    args: (file) => [...vitest, 'related', file, '--run', '--passWithNoTests', ...plain],
    repeatArgs: (testFile) => [...vitest, 'run', testFile, ...plain],
  },
  {
    name: 'npm test',
    maxMs: 30 * minute,
    args: () => daily,
    repeatArgs: (testFile) => [...daily, testFile],
  },
  {
    name: 'test:all',
    maxMs: 90 * minute,
    args: () => all,
    repeatArgs: (testFile) => [...all, testFile],
  },
]
