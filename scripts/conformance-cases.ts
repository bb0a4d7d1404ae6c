import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type ConformanceCase, findCases, missingCases } from './conformance/find-cases.ts'

/**
 * `node scripts/conformance-cases.ts [--base REVISION] [FOLDER ...]`: prints the requirement ids of the
 * conformance suites with the files whose cases carry them, and the number of cases by folder. With a base it
 * compares: exits with 1 when a requirement id, or the title of a case without one, was there and is missing.
 */
const root = resolve(import.meta.dirname, '..')
const words = process.argv.slice(2)
const at = words.indexOf('--base')
const base = at === -1 ? undefined : words.splice(at, 2)[1]
const folders = words.length > 0 ? words : ['conformance']

const cases = findCases(globSync(folders.map(toPattern), { cwd: root }).toSorted(), (file) =>
  readFileSync(resolve(root, file), 'utf8'),
)
if (base === undefined) printIds(cases)
else compare(readRevision(base), cases)

function printIds(all: readonly ConformanceCase[]): void {
  for (const [id, own] of Map.groupBy(all, (each) => each.id ?? '')) {
    if (id === '') continue
    const files = new Set(own.map(({ file }) => file))
    console.log(`${id.padEnd(68)}${String(own.length).padStart(3)}  ${[...files].join(' ')}`)
  }
  printCounts(countByFolder(all))
}

function compare(before: readonly ConformanceCase[], after: readonly ConformanceCase[]): void {
  const counts = countByFolder(before)
  for (const [folder, count] of countByFolder(after))
    counts.set(folder, [...(counts.get(folder) ?? [0]), ...count])
  printCounts(counts)
  const missing = missingCases(before, after)
  for (const { id, title, file } of missing) console.log(`missing: ${id ?? title} (${file})`)
  console.log(`${missing.length} of ${before.length} cases are missing`)
  if (missing.length > 0) process.exitCode = 1
}

/** Cases by folder: before and after, or one number. */
function printCounts(counts: ReadonlyMap<string, readonly number[]>): void {
  for (const [folder, count] of [...counts].toSorted())
    console.log(`${folder.padEnd(44)}${count.map((each) => String(each).padStart(6)).join('')}`)
}

function countByFolder(all: readonly ConformanceCase[]): Map<string, number[]> {
  const groups = Map.groupBy(all, ({ file }) => dirname(file))
  return new Map([...groups].map(([folder, own]) => [folder, [own.length]]))
}

function readRevision(revision: string): ConformanceCase[] {
  const git = (...args: readonly string[]) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 100_000_000 })
  const files = git('ls-tree', '-r', '--name-only', revision, '--', ...folders)
    .trimEnd()
    .split('\n')
  return findCases(
    files.filter((file) => file.endsWith('.ts')),
    (file) => git('show', `${revision}:${file}`),
  )
}

function toPattern(folder: string): string {
  return folder.endsWith('.ts') ? folder : `${folder}/**/*.ts`
}
