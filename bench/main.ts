import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { append } from './benchmarks/append.ts'
import { crowd } from './benchmarks/crowd.ts'
import { depth } from './benchmarks/depth.ts'
import { fanOut } from './benchmarks/fan-out.ts'
import { firstToken } from './benchmarks/first-token.ts'
import { pages } from './benchmarks/pages.ts'
import { sandboxes } from './benchmarks/sandboxes.ts'
import { start } from './benchmarks/start.ts'
import { steps } from './benchmarks/steps.ts'
import { type BenchContext, createDirectoryFactory } from './support/fixtures.ts'
import { formatTable, type ResultRow } from './support/result-table.ts'

/** `npm run bench [-- name ...] [--quick] [--profile DIRECTORY]`: measurements, each beside a floor of the same run. */
const benchmarks: Readonly<Record<string, (bench: BenchContext) => Promise<ResultRow[]>>> = {
  pages,
  depth,
  append,
  'fan-out': fanOut,
  start,
  sandboxes,
  steps,
  crowd,
  'first-token': firstToken,
}

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, profile: { type: 'string' } },
  allowPositionals: true,
})
const names = positionals.length > 0 ? positionals : Object.keys(benchmarks)
const unknown = names.filter((name) => !Object.hasOwn(benchmarks, name))
if (unknown.length > 0)
  throw new Error(`no such benchmark: ${unknown}; there are ${Object.keys(benchmarks).join(', ')}`)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

console.log(
  `node bench/main.ts ${process.argv.slice(2).join(' ')}\n` +
    `${cpus().length} x ${cpus()[0]?.model}, ${Math.round(totalmem() / 1e9)} GB, ${process.platform} ${process.arch}, node ${process.version}\n`,
)
const bench: BenchContext = {
  isQuick: values.quick,
  profileDirectory: values.profile,
  directory: createDirectoryFactory(),
}
const rows: ResultRow[] = []
for (const name of names) {
  const startedAt = performance.now()
  const measured = (await benchmarks[name]?.(bench)) ?? []
  console.log(`${name}: ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
  rows.push(...measured)
  if (!bench.isQuick) await writeResults(name, measured)
}
console.log(`\n${formatTable(rows)}`)

async function writeResults(name: string, rows: readonly ResultRow[]): Promise<void> {
  const directory = new URL('results/', import.meta.url)
  await mkdir(directory, { recursive: true })
  await writeFile(new URL(`${name}.json`, directory), `${JSON.stringify(rows, null, 2)}\n`)
}
