/** How the tests of a run ended. */
export interface RunResults {
  readonly count: Readonly<Record<'passed' | 'failed' | 'skipped' | 'pending', number>>
  readonly failures: readonly Failure[]
  readonly files: readonly FileResult[]
  /** Why tests were skipped, as they printed it after `SKIPPED: `. */
  readonly skipReasons: readonly string[]
}

export interface FileResult {
  /** Path from the root of the repository. */
  readonly file: string
  readonly project: string
  readonly tests: number
  /** Names of the tests that were skipped. */
  readonly skipped: readonly string[]
  readonly wallSeconds: number
  readonly cpuSeconds: number | undefined
}

/** A test that failed, or with an empty name a file that could not be loaded. */
export interface Failure {
  readonly file: string
  readonly project: string
  readonly test: string
}

const slowest = 10
/** Characters of a test's name. */
const shownName = 80
const shownFailures = 8
const maxRepeatedFiles = 20
const maxRepeatedTests = 3

/** The results of several passes over different files, as one. */
export function mergeResults(passes: readonly RunResults[]): RunResults {
  const sum = (state: keyof RunResults['count']) =>
    passes.reduce((total, { count }) => total + count[state], 0)
  return {
    count: { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped'), pending: sum('pending') },
    failures: passes.flatMap(({ failures }) => failures),
    files: passes.flatMap(({ files }) => files),
    skipReasons: [...new Set(passes.flatMap(({ skipReasons }) => skipReasons))].toSorted(),
  }
}

/** What was skipped and why, with the first name of each file, and the slowest files. */
export function describeRun(results: RunResults): string[] {
  return [...skippedLines(results), ...slowestLines(results.files)]
}

/** `N passed, N failed`, with the skipped ones where there are any. */
export function countLine(count: RunResults['count']): string {
  const skipped = count.skipped + count.pending
  return `${count.passed} passed, ${count.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}

function skippedLines({ files, skipReasons }: RunResults): string[] {
  const incomplete = files.filter(({ skipped }) => skipped.length > 0)
  if (incomplete.length === 0) return []
  return [
    'Skipped:',
    ...skipReasons.map((reason) => `  ${reason}`),
    ...incomplete.map(({ file, tests, skipped }) => {
      const [name = ''] = skipped
      return `  ${skipped.length} of ${tests} in ${file}: ${name.length > shownName ? `${name.slice(0, shownName)}…` : name}`
    }),
    '',
  ]
}

function slowestLines(files: readonly FileResult[]): string[] {
  if (files.length < slowest) return []
  const rows = files
    .toSorted((one, other) => other.wallSeconds - one.wallSeconds)
    .slice(0, slowest)
    .map(({ file, wallSeconds, cpuSeconds }) => {
      const times = [wallSeconds, cpuSeconds].map((seconds) => (seconds?.toFixed(1) ?? '').padStart(7))
      return `${times.join('')}  ${file}`
    })
  return ['Slowest files (wall and CPU seconds):', ...rows, '']
}

/** At most ten lines; the last is the command that repeats exactly the failures. */
export function describeFailures(failures: readonly Failure[]): string[] {
  if (failures.length === 0) return []
  const hidden = failures.length - shownFailures
  const shown = failures
    .slice(0, hidden > 0 ? shownFailures - 1 : shownFailures)
    .map(({ file, test }) => `  ${file}${test === '' ? '' : `: ${test}`}`)
  const more = hidden > 0 ? [`  and ${hidden + 1} more`] : []
  return ['Failed:', ...shown, ...more, `Repeat: ${repeatCommand(failures)}`]
}

function repeatCommand(failures: readonly Failure[]): string {
  const files = [...new Set(failures.map(({ file }) => file))].slice(0, maxRepeatedFiles)
  const projects = [...new Set(failures.map(({ project }) => `--project ${project}`))]
  const tests = [...new Set(failures.map(({ test }) => test))]
  const isNamed = tests.length <= maxRepeatedTests && !tests.includes('')
  const names = isNamed ? [`-t ${quote(tests.map(escapePattern).join('|'))}`] : []
  return ['npm test --', ...projects, ...files, ...names].join(' ')
}

function escapePattern(name: string): string {
  return name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
