import { isTest, readSources } from './check-imports.ts'

/** The lines of a source that hold code: neither blank nor a comment alone. */
export function countCodeLines(text: string): number {
  let isInComment = false
  let count = 0
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (isInComment || line.startsWith('/*')) isInComment = !line.includes('*/')
    else if (line !== '' && !line.startsWith('//')) count++
  }
  return count
}

if (import.meta.main) {
  const sources = readSources().filter(({ file }) => /^[^/]+\/src\//.test(file))
  const packages = Map.groupBy(sources, ({ file }) => file.split('/')[0] ?? '')
  const linesOf = (files: typeof sources) =>
    files.reduce((lines, { text }) => lines + countCodeLines(text), 0)
  const rows = [...packages, ['total', sources] as const].map(([name, files]) => {
    const production = files.filter(({ file }) => !isTest(file))
    return `${name.padEnd(16)}${String(linesOf(production)).padStart(8)}${String(linesOf(files) - linesOf(production)).padStart(8)}`
  })
  console.log([`${'package'.padEnd(16)}    code   tests`, ...rows].join('\n'))
}
