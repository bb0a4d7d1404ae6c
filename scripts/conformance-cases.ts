import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { capabilityOf, countCases, describeCounts } from './conformance/count-cases.ts'
import { type ConformanceCase, findCases, missingCases } from './conformance/find-cases.ts'

/**
 * `node scripts/conformance-cases.ts [--base REVISION] [--at REVISION] [--capabilities] [--json] [FOLDER
 * ...]`: prints the requirement ids of the conformance suites with the files whose cases carry them, and the
 * number of cases by folder. With a base it compares the working tree, or `--at`, with it: exits with 1 when
 * a requirement id, or the title of a case without one, was there and is missing. `--capabilities` prints the
 * number of cases by capability alone, of all tests unless folders are named.
 */
const root = resolve(import.meta.dirname, '..')
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    base: { type: 'string' },
    at: { type: 'string' },
    capabilities: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})
const everything = ['packages', 'conformance', 'examples', 'fuzz', 'bench', 'scripts']
const folders = positionals.length > 0 ? positionals : values.capabilities ? everything : ['conformance']

const before = values.base === undefined ? undefined : readRevision(values.base)
const after = values.at === undefined ? readWorkingTree() : readRevision(values.at)
if (values.capabilities) printCounts(capabilityOf)
else if (before === undefined) printIds(after)
else compare(before, after)

function printIds(all: readonly ConformanceCase[]): void {
  for (const [id, own] of Map.groupBy(all, (each) => each.id ?? '')) {
    if (id === '') continue
    const files = new Set(own.map(({ file }) => file))
    console.log(`${id.padEnd(68)}${String(own.length).padStart(3)}  ${[...files].join(' ')}`)
  }
  printCounts(folderOf)
}

function compare(earlier: readonly ConformanceCase[], later: readonly ConformanceCase[]): void {
  printCounts(folderOf)
  const missing = missingCases(earlier, later)
  for (const { id, title, file } of missing) console.log(`missing: ${id ?? title} (${file})`)
  console.log(`${missing.length} of ${earlier.length} cases are missing`)
  if (missing.length > 0) process.exitCode = 1
}

/** Of the base and of what is compared with it, or of the latter alone. */
function printCounts(groupOf: (each: ConformanceCase) => string): void {
  const counts = countCases(before === undefined ? [after] : [before, after], groupOf)
  const lines = values.json
    ? [JSON.stringify(Object.fromEntries(counts), undefined, 1)]
    : describeCounts(counts)
  console.log(lines.join('\n'))
}

function folderOf({ file }: ConformanceCase): string {
  return dirname(file)
}

function readWorkingTree(): ConformanceCase[] {
  const files = globSync(folders.map(toPattern), { cwd: root, exclude: ['**/node_modules/**'] })
  return findCases(files.filter(hasCases).toSorted(), (file) => readFileSync(resolve(root, file), 'utf8'))
}

function readRevision(revision: string): ConformanceCase[] {
  const git = (...args: readonly string[]) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 100_000_000 })
  const files = git('ls-tree', '-r', '--name-only', revision, '--', ...folders)
    .trimEnd()
    .split('\n')
  return findCases(files.filter(hasCases), (file) => git('show', `${revision}:${file}`))
}

/** In the conformance suites frames and tables beside the tests name cases too. */
function hasCases(file: string): boolean {
  return file.startsWith('conformance/') ? file.endsWith('.ts') : /\.(?:test|contract)\.tsx?$/.test(file)
}

function toPattern(folder: string): string {
  return /\.tsx?$/.test(folder) ? folder : `${folder}/**/*.{ts,tsx}`
}
