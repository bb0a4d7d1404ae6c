import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { families } from './map/families.ts'
import { requirements } from './wire/requirements.ts'

/**
 * `npx node conformance/print.ts [--json] [FILE ...]`: runs the cases of the map and of the wire, or those of files
 * whose path contains one of the words, and prints the outcome of each sub-feature and each requirement.
 * Against the working tree, or the servers that `SLIPWAY_MAP_URL` with `SLIPWAY_MAP_KEY` (map) and
 * `SLIPWAY_URL` with `SLIPWAY_SESSION_API_KEY` (wire) name. Exits with 1 when a case fails, or a requirement
 * does not pass.
 */
type Outcome = 'pass' | 'differs' | 'not applicable' | 'skipped' | 'fail'

interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: readonly ReportedCase[]
  }[]
}

interface ReportedCase {
  readonly title: string
  readonly status: string
  readonly failureMessages?: readonly string[]
}

interface Row {
  readonly id: string
  readonly outcome: Outcome
  readonly promise: string
  /** Why a sub-feature differs or does not apply; section and priority of a requirement. */
  readonly reason: string
  /** Of a case that fails: the first line of its error. */
  readonly error?: string
}

const isJson = process.argv.includes('--json')
const words = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const root = resolve(import.meta.dirname, '..')
const directory = await mkdtemp(join(tmpdir(), 'slipway-conformance-report-'))
try {
  const file = join(directory, 'report.json')
  await runSuite(file)
  const report: Report = JSON.parse(await readFile(file, 'utf8'))
  const cases = report.testResults.flatMap(({ assertionResults }) => assertionResults)
  const [mapRows, wireRows] = [readMapRows(cases), readWireRows(cases)]
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && assertionResults.length === 0,
  )
  if (isJson) console.log(JSON.stringify([...mapRows, ...wireRows], null, 2))
  else for (const line of formatRows(mapRows, wireRows)) console.log(line)
  for (const { name, message } of broken) console.error(`${name}: ${message}`)
  const hasFailed =
    mapRows.some(({ outcome }) => outcome === 'fail') || wireRows.some(({ outcome }) => outcome !== 'pass')
  process.exitCode = broken.length > 0 || hasFailed ? 1 : 0
} finally {
  await rm(directory, { recursive: true, force: true })
}

async function runSuite(file: string): Promise<void> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const filters = words.length > 0 ? words : ['conformance/map', 'conformance/wire']
  const options = ['--no-file-parallelism', '--reporter=json', `--outputFile=${file}`]
  const child = spawn(process.execPath, [vitest, 'run', ...filters, ...options], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await new Promise((done) => child.on('close', done))
}

function readMapRows(cases: readonly ReportedCase[]): Row[] {
  return cases
    .flatMap((each) => {
      const found = /^\[(F\d\d\.[\w-]+)\] (.*?)(?: \{([a-z ]+): (.*)\})?$/.exec(each.title)
      if (found === null) return []
      const [, id = '', promise = '', expected, reason = ''] = found
      return [{ id, promise, reason, outcome: rate(each, expected), ...firstError([each]) }]
    })
    .sort((a, b) => (a.id.slice(0, 3) < b.id.slice(0, 3) ? -1 : a.id.slice(0, 3) > b.id.slice(0, 3) ? 1 : 0))
}

function rate({ status }: ReportedCase, expected: string | undefined): Outcome {
  if (status === 'failed') return 'fail'
  if (expected === undefined) return status === 'passed' ? 'pass' : 'skipped'
  return expected as Outcome
}

/** A requirement passes when none of its cases fails and one passes; those of files that did not run are left out. */
function readWireRows(cases: readonly ReportedCase[]): Row[] {
  return requirements.flatMap(({ id, section, priority, what }) => {
    const own = cases.filter(({ title }) => title.startsWith(`[${id}] `))
    if (own.length === 0 && words.length > 0) return []
    const outcomes = own.map((each) => rate(each, undefined))
    const outcome = (['fail', 'pass'] as const).find((each) => outcomes.includes(each)) ?? 'skipped'
    return [{ id, promise: what, reason: `${section} ${priority}`, outcome, ...firstError(own) }]
  })
}

function firstError(cases: readonly ReportedCase[]): { error?: string } {
  const message = cases.flatMap(({ failureMessages = [] }) => failureMessages)[0]
  return message === undefined ? {} : { error: message.split('\n', 1)[0]?.slice(0, 300) ?? '' }
}

function* formatRows(mapRows: readonly Row[], wireRows: readonly Row[]): Generator<string> {
  for (const { id, outcome, promise, reason } of [...mapRows, ...wireRows])
    yield `${outcome.padEnd(15)}${id.padEnd(id.startsWith('F') ? 40 : 68)}${promise}${reason && ` (${reason})`}`
  yield ''
  for (const [family, { what, count }] of Object.entries(families)) {
    const own = mapRows.filter(({ id }) => id.startsWith(`${family}.`))
    if (own.length > 0) yield `${family} ${what.padEnd(48)}${own.length} of ${count}: ${countOutcomes(own)}`
  }
  const total = Object.values(families).reduce((sum, { count }) => sum + count, 0)
  if (mapRows.length > 0) yield `${mapRows.length} of ${total} sub-features: ${countOutcomes(mapRows)}`
  if (wireRows.length > 0)
    yield `${wireRows.length} of ${requirements.length} requirements: ${countOutcomes(wireRows)}`
}

function countOutcomes(rows: readonly Row[]): string {
  const outcomes: Outcome[] = ['pass', 'differs', 'not applicable', 'skipped', 'fail']
  return outcomes
    .map((outcome) => [outcome, rows.filter((row) => row.outcome === outcome).length] as const)
    .filter(([, count]) => count > 0)
    .map(([outcome, count]) => `${count} ${outcome}`)
    .join(', ')
}
