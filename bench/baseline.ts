import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { isRecord, parseJson } from '@slipway/shared/json'
import { type Calibration, formatCalibration } from '../scripts/calibration.ts'
import { formatFigure, formatGoal, formatVerdict, type ResultRow } from './support/result-table.ts'

/** A file of `bench/results/`: the rows of one benchmark, and how fast the machine was before it. */
export interface BenchmarkResult {
  readonly calibration: Calibration
  /** Of the whole benchmark. */
  readonly seconds: number
  readonly rows: readonly ResultRow[]
}

/** Writes the results of a benchmark, and the table of all of them, `baseline.md`. */
export async function writeResults(directory: URL, name: string, result: BenchmarkResult): Promise<void> {
  await mkdir(directory, { recursive: true })
  await writeFile(new URL(`${name}.json`, directory), `${JSON.stringify(result, null, 2)}\n`)
  await writeFile(new URL('baseline.md', directory), formatBaseline(await readResults(directory)))
}

/** The results of all benchmarks by name; files of another form have none. */
export async function readResults(directory: URL): Promise<Readonly<Record<string, BenchmarkResult>>> {
  const results: Record<string, BenchmarkResult> = {}
  for (const file of (await readdir(directory)).sort()) {
    if (!file.endsWith('.json')) continue
    const value = parseJson(await readFile(new URL(file, directory), 'utf8'))
    if (isRecord(value) && isRecord(value.calibration) && Array.isArray(value.rows))
      results[file.slice(0, -'.json'.length)] = value as unknown as BenchmarkResult // written above
  }
  return results
}

/** Ratio and goal of each row; the absolute figures stand beside them, for this machine alone. */
export function formatBaseline(results: Readonly<Record<string, BenchmarkResult>>): string {
  const parts = Object.entries(results).map(([name, { calibration, seconds, rows }]) => {
    const lines = rows.map((row) => {
      const cells = [
        ...[row.name, row.ratio?.toFixed(2) ?? '', formatGoal(row), formatVerdict(row)],
        ...[`${formatFigure(row.ours)} ${row.unit.replace(/, at most$/, '')}`],
        ...[formatFigure(row.floor ?? row.budget), row.floorName ?? (row.budget === null ? '' : 'budget')],
      ]
      return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
    })
    return [
      `## ${name}\n\n${formatCalibration(calibration)}; ${Math.round(seconds)} s in all\n`,
      '| row | ratio | goal | | figure | floor | the floor |\n|---|---|---|---|---|---|---|',
      ...lines,
    ].join('\n')
  })
  const all = Object.values(results).flatMap(({ rows }) => rows)
  const goals = all.filter(({ goal }) => goal !== null)
  const missed = goals.filter(({ holds }) => holds !== true)
  return `# Benchmarks

Written by \`npm run bench\`. A goal is a ratio to a floor of the same run, so it asks the same of every machine; figures are those
of the machine in the line of the calibration. ${goals.length} goals, ${missed.length} missed.

${parts.join('\n\n')}
`
}
