import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Requirement, requirements } from './requirements.ts'

/**
 * `npx node conformance/wire/print.ts [--json]`: runs the wire suite and prints the result of each row. With
 * `SLIPWAY_URL` (and `SLIPWAY_SESSION_API_KEY`) against that server, otherwise against the working tree.
 * Exits with 1 when a row does not pass.
 */
type Outcome = 'pass' | 'fail' | 'skip' | 'none'

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly title: string; readonly status: string }[]
  }[]
}

const isJson = process.argv.includes('--json')
const root = resolve(import.meta.dirname, '../..')
const directory = await mkdtemp(join(tmpdir(), 'slipway-wire-report-'))
try {
  const file = join(directory, 'report.json')
  await runSuite(file)
  const found = rateRequirements(JSON.parse(await readFile(file, 'utf8')))
  if (isJson) console.log(JSON.stringify(found, null, 2))
  else for (const line of formatTable(found)) console.log(line)
  process.exitCode = found.every(({ outcome }) => outcome === 'pass') ? 0 : 1
} finally {
  await rm(directory, { recursive: true, force: true })
}

async function runSuite(file: string): Promise<void> {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const args = ['run', 'conformance/wire', '--no-file-parallelism', '--reporter=json', `--outputFile=${file}`]
  const child = spawn(process.execPath, [vitest, ...args], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await new Promise((done) => child.on('close', done))
}

function rateRequirements({ testResults }: Report): (Requirement & { cases: number; outcome: Outcome })[] {
  const cases = testResults.flatMap(({ assertionResults }) => assertionResults)
  return requirements.map((row) => {
    const own = cases.filter(({ title }) => title.startsWith(`[${row.id}] `)).map(({ status }) => status)
    const outcome = own.includes('failed')
      ? 'fail'
      : own.includes('passed')
        ? 'pass'
        : own.length > 0
          ? 'skip'
          : 'none'
    return { ...row, cases: own.length, outcome }
  })
}

function* formatTable(found: ReturnType<typeof rateRequirements>): Generator<string> {
  for (const { outcome, priority, section, id, cases, what } of found)
    yield `${outcome.padEnd(5)}${priority} ${section.padEnd(17)}${id.padEnd(68)}${String(cases).padStart(2)}  ${what}`
  const passed = found.filter(({ outcome }) => outcome === 'pass').length
  yield `${passed} of ${found.length} rows pass`
}
