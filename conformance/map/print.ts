import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { families } from './families.ts'

/**
 * `npx node conformance/map/print.ts [--json] [FILE ...]`: runs the cases of the map, or those of files whose
 * path contains one of the words, and prints the outcome of each sub-feature. With `SLIPWAY_MAP_URL` (and
 * `SLIPWAY_MAP_KEY`) against that server, otherwise against the working tree. Exits with 1 when a case fails.
 */
type Outcome = 'pass' | 'differs' | 'not applicable' | 'skipped' | 'fail'

interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly {
      readonly title: string
      readonly status: string
      readonly failureMessages?: readonly string[]
    }[]
  }[]
}

interface Row {
  readonly id: string
  readonly outcome: Outcome
  readonly promise: string
  readonly reason: string
  /** Of a case that fails: the first line of its error. */
  readonly error?: string
}

const isJson = process.argv.includes('--json')
const words = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const root = resolve(import.meta.dirname, '../..')
const directory = await mkdtemp(join(tmpdir(), 'slipway-map-report-'))
try {
  const file = join(directory, 'report.json')
  await runSuite(file)
  const report: Report = JSON.parse(await readFile(file, 'utf8'))
  const rows = readRows(report)
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
  )
  if (isJson) console.log(JSON.stringify(rows, null, 2))
  else for (const line of formatRows(rows)) console.log(line)
  for (const { name, message } of broken) console.error(`${name}: ${message}`)
  process.exitCode = broken.length > 0 || rows.some(({ outcome }) => outcome === 'fail') ? 1 : 0
} finally {
  await rm(directory, { recursive: true, force: true })
}

async function runSuite(file: string): Promise<void> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const filters = words.length > 0 ? words : ['conformance/map']
  const options = ['--no-file-parallelism', '--reporter=json', `--outputFile=${file}`]
  const child = spawn(process.execPath, [vitest, 'run', ...filters, ...options], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await new Promise((done) => child.on('close', done))
}

function readRows({ testResults }: Report): Row[] {
  const cases = testResults.flatMap(({ assertionResults }) => assertionResults)
  return cases
    .flatMap(({ title, status, failureMessages }) => {
      const found = /^\[(F\d\d\.[\w-]+)\] (.*?)(?: \{([a-z ]+): (.*)\})?$/.exec(title)
      if (found === null) return []
      const [, id = '', promise = '', expected, reason = ''] = found
      const error = failureMessages?.[0]?.split('\n', 1)[0]?.slice(0, 300)
      return [
        { id, promise, reason, outcome: rate(status, expected), ...(error === undefined ? {} : { error }) },
      ]
    })
    .sort((a, b) => (a.id.slice(0, 3) < b.id.slice(0, 3) ? -1 : a.id.slice(0, 3) > b.id.slice(0, 3) ? 1 : 0))
}

function rate(status: string, expected: string | undefined): Outcome {
  if (status === 'failed') return 'fail'
  if (expected === undefined) return status === 'passed' ? 'pass' : 'skipped'
  return expected as Outcome
}

function* formatRows(rows: readonly Row[]): Generator<string> {
  for (const { id, outcome, promise, reason } of rows)
    yield `${outcome.padEnd(15)}${id.padEnd(40)}${promise}${reason === '' ? '' : ` (${reason})`}`
  yield ''
  for (const [family, { what, count }] of Object.entries(families)) {
    const own = rows.filter(({ id }) => id.startsWith(`${family}.`))
    if (own.length > 0) yield `${family} ${what.padEnd(48)}${own.length} of ${count}: ${countOutcomes(own)}`
  }
  const total = Object.values(families).reduce((sum, { count }) => sum + count, 0)
  yield `${rows.length} of ${total} sub-features: ${countOutcomes(rows)}`
}

function countOutcomes(rows: readonly Row[]): string {
  const outcomes: Outcome[] = ['pass', 'differs', 'not applicable', 'skipped', 'fail']
  return outcomes
    .map((outcome) => [outcome, rows.filter((row) => row.outcome === outcome).length] as const)
    .filter(([, count]) => count > 0)
    .map(([outcome, count]) => `${count} ${outcome}`)
    .join(', ')
}
