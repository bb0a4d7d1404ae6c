import { parseArgs } from 'node:util'
import { calibrate, formatCalibration } from '../scripts/calibration.ts'
import { writeResults } from './baseline.ts'
import { benchmarks, selectBenchmarks } from './registry.ts'
import { type Outcome, runIsolated } from './run-isolated.ts'
import { type BenchContext, createDirectoryFactory } from './support/fixtures.ts'
import { findGoalsWithoutFloor, formatTable, type ResultRow } from './support/result-table.ts'

/**
 * `npm run bench [-- name ...] [--quick] [--profile DIRECTORY]`: measurements, each with a floor of the same
 * run. Each benchmark runs in its own process, after a calibration; one that cannot run prints the
 * reason. The table is always printed. Exits with 1 when a benchmark has failed, a missed goal is no failure.
 */
const usage = `npm run bench [-- name ...] [--quick] [--profile DIRECTORY]
Without a name: all. Names: ${Object.keys(benchmarks).join(', ')}.
--quick: small sizes, to see whether they work; --profile: CPU profiles of the measured servers.`
const { values, positionals } = readArguments()
if (values.help) {
  console.log(usage)
  process.exit()
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
// The parent may be killed: then no process waits for the outcome.
process.once('disconnect', () => process.exit(1))
if (values.child === undefined) await runAll()
else {
  const outcome = await runOne(values.child)
  process.send?.(outcome, undefined, {}, () => process.exit())
}

function readArguments() {
  try {
    return parseArgs({
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        quick: { type: 'boolean', default: false },
        profile: { type: 'string' },
        /** In the child: the benchmark whose outcome it sends to the parent. */
        child: { type: 'string' },
      },
      allowPositionals: true,
    })
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`)
    process.exit(2)
  }
}

async function runAll(): Promise<void> {
  const unnamed = Object.keys(benchmarks).filter((name) => benchmarks[name]?.isOnlyByName !== true)
  const all = positionals.length > 0 ? positionals.flatMap(selectBenchmarks) : unnamed
  const unknown = positionals.filter((name) => selectBenchmarks(name).length === 0)
  if (unknown.length > 0) {
    console.error(
      `No such benchmark: ${unknown.join(', ')}. There are ${Object.keys(benchmarks).join(', ')}.`,
    )
    process.exit(2)
  }
  const names = [...new Set(all)]
  console.log(
    `npx node bench/main.ts ${process.argv.slice(2).join(' ')}\n${formatCalibration(calibrate())}\n`,
  )
  const rows: ResultRow[] = []
  const notes: string[] = []
  // After an interruption too, so that no measurement is lost.
  process.once('exit', () => {
    const goals = rows.filter(({ goal }) => goal !== null)
    const missed = goals.filter(({ holds }) => holds !== true)
    const sum = `${goals.length} goals, ${missed.length} missed`
    console.log(`\n${formatTable(rows)}${notes.map((note) => `\n${note}`).join('')}\n${sum}`)
  })
  for (const [index, name] of names.entries()) {
    console.log(`${name} (${index + 1} of ${names.length}) ...`)
    // Before each: what else a machine does changes within an hour.
    const calibration = calibrate()
    const startedAt = performance.now()
    const outcome = await runIsolated(new URL(import.meta.url), [...process.argv.slice(2), '--child', name])
    const seconds = (performance.now() - startedAt) / 1000
    if ('rows' in outcome) {
      console.log(`${name}: ${seconds.toFixed(0)} s, calibration ${calibration.seconds.toFixed(2)} s`)
      rows.push(...outcome.rows)
      const results = new URL('results/', import.meta.url)
      if (!values.quick) await writeResults(results, name, { calibration, seconds, rows: outcome.rows })
    } else {
      const note = 'notRun' in outcome ? `not run: ${outcome.notRun}` : `FAILED: ${outcome.failed}`
      console.log(`${name}: ${note}`)
      notes.push(`${name}: ${note}`)
      if ('failed' in outcome) process.exitCode = 1
    }
  }
}

async function runOne(name: string): Promise<Outcome> {
  const bench: BenchContext = {
    isQuick: values.quick,
    profileDirectory: values.profile,
    directory: createDirectoryFactory(),
  }
  try {
    const reason = await benchmarks[name]?.whyUnavailable?.()
    if (reason !== undefined) return { notRun: reason }
    const rows = (await benchmarks[name]?.run(bench)) ?? []
    const unfounded = findGoalsWithoutFloor(rows)
    return unfounded.length === 0 ? { rows } : { failed: `goals without a floor: ${unfounded.join(', ')}` }
  } catch (error) {
    console.error(error)
    return { failed: error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : String(error) }
  }
}
