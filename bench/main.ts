import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { benchmarks, selectBenchmarks } from './registry.ts'
import { type Outcome, runIsolated } from './run-isolated.ts'
import { type BenchContext, createDirectoryFactory } from './support/fixtures.ts'
import { formatTable, type ResultRow } from './support/result-table.ts'

/**
 * `npm run bench [-- name ...] [--quick] [--profile DIRECTORY]`: measurements, each with a floor of the same
 * run. Each benchmark runs in a process of its own; one that cannot run prints the reason. The table is
 * always printed. Exits with 1 when a benchmark has failed.
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
    `npx node bench/main.ts ${process.argv.slice(2).join(' ')}\n` +
      `${cpus().length} x ${cpus()[0]?.model}, ${Math.round(totalmem() / 1e9)} GB, ${process.platform} ${process.arch}, node ${process.version}\n`,
  )
  const rows: ResultRow[] = []
  const notes: string[] = []
  // After an interruption too, so that no measurement is lost.
  process.once('exit', () => {
    console.log(`\n${formatTable(rows)}${notes.map((note) => `\n${note}`).join('')}`)
  })
  for (const [index, name] of names.entries()) {
    console.log(`${name} (${index + 1} of ${names.length}) ...`)
    const startedAt = performance.now()
    const outcome = await runIsolated(new URL(import.meta.url), [...process.argv.slice(2), '--child', name])
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
    if ('rows' in outcome) {
      console.log(`${name}: ${seconds} s`)
      rows.push(...outcome.rows)
      if (!values.quick) await writeResults(name, outcome.rows)
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
    return reason === undefined ? { rows: (await benchmarks[name]?.run(bench)) ?? [] } : { notRun: reason }
  } catch (error) {
    console.error(error)
    return { failed: error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : String(error) }
  }
}

async function writeResults(name: string, rows: readonly ResultRow[]): Promise<void> {
  const directory = new URL('results/', import.meta.url)
  await mkdir(directory, { recursive: true })
  await writeFile(new URL(`${name}.json`, directory), `${JSON.stringify(rows, null, 2)}\n`)
}
