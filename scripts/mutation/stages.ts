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
// One after the other: a check of hours leaves the second core to whoever works here.
const flags = ['--maxWorkers=1', '--bail', '1']
const plain = ['--project=plain', ...flags]
const daily = [main, 'daily', '--project=plain', '--project=costly', '--project=smoke', ...flags]
/** Those of `test:all` that need neither container engines nor a cluster. */
const own = [main, 'daily', '--project=own', '--project=map', ...flags]
const all = [main, 'all', '--bail', '1']

/** The suites of `conformance` that run a package in programs and servers. */
const suites: Readonly<Record<string, readonly string[]>> = {
  agent: ['conformance/agent-server'],
  'agent-server': ['conformance/agent-server', 'conformance/map'],
  client: ['conformance/clients'],
  console: ['conformance/console'],
  protocol: ['conformance/agent-server'],
  'sandbox-server': ['conformance/sandbox-server'],
  'session-store': ['conformance/agent-server', 'conformance/clients'],
}

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
    name: 'package',
    maxMs: 60 * minute,
    args: (file) => [...own, ...packageTests(file)],
    repeatArgs: (testFile) => [...own, testFile],
  },
  {
    name: 'test:all',
    maxMs: 90 * minute,
    args: () => all,
    repeatArgs: (testFile) => [...all, testFile],
  },
]

/** Folders with the tests of the package of a source. */
export function packageTests(file: string): readonly string[] {
  const name = file.split('/')[1] ?? ''
  return [`packages/${name}/`, ...(suites[name] ?? [])]
}
