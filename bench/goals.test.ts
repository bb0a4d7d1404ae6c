import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { formatBaseline, readResults, writeResults } from './baseline.ts'
import { atMost, Floor, findGoalsWithoutFloor, information, withinBudget } from './support/result-table.ts'

/** Lines that make a floor or a row of a number that was not measured. */
function findConstants(source: string): string[] {
  const number = String.raw`-?\d[\d_.e]*`
  const patterns = [
    // A list of samples with a number in it.
    String.raw`Floor\.of\([^[\]]*\[(?:[^\]]*,)?\s*${number}\s*[,\]]`,
    // A pair whose floor is a number.
    String.raw`\bfloor: *${number}`,
    // A row by hand.
    String.raw`\bholds:`,
  ]
  return patterns.flatMap((pattern) => source.match(new RegExp(pattern, 'g')) ?? [])
}

test('no benchmark has a number as a floor', () => {
  for (const file of globSync('bench/benchmarks/*.ts'))
    expect(findConstants(readFileSync(file, 'utf8')), file).toEqual([])
})

test('a number as a floor is found', () => {
  const sources = [
    "atMost('x', 'ms', ms, Floor.of('a second', [1000]), 1)",
    "Floor.of('x', [measured, 10])",
    "atLeast('x', '/s', { floorName: 'x', pairs: [{ ours, floor: 500 }] }, 1)",
    "{ name: 'x', unit: 'ms', ours, goal: 1, holds: true }",
  ]
  expect(sources.map((source) => findConstants(source).length)).toEqual([1, 1, 1, 1])
  expect(findConstants("Floor.of('x', [samples[0]]), Floor.of('y', bare2, 99)")).toEqual([])
})

test('every goal of the stored results has a floor', async () => {
  const results = await readResults(new URL('results/', import.meta.url))
  for (const [name, { rows }] of Object.entries(results))
    expect(findGoalsWithoutFloor(rows), name).toEqual([])
})

test('the results of a benchmark are stored with their calibration, and the table has all of them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-results-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const directory = pathToFileURL(`${folder}/`)
  // Of a run before results had a calibration, and of another program.
  await writeFile(join(folder, 'older.json'), JSON.stringify([information('older', 'ms', 1)]))
  await writeFile(join(folder, 'other.json'), '{}')
  const machine = { work: 'SHA-256', seconds: 0.6, machine: '2 x CPU', node: 'v24' }
  const page = atMost('a page', 'ms', 3, Floor.of('a bare page', [2, 1, 4]), 1.2)
  const part = withinBudget('a part', 'bytes of a bundle', 50, 100)
  await writeResults(directory, 'pages', { calibration: machine, seconds: 12.4, rows: [page] })
  await writeResults(directory, 'size', { calibration: machine, seconds: 1, rows: [part] })
  const results = await readResults(directory)
  expect(Object.keys(results)).toEqual(['pages', 'size'])
  const table = await readFile(join(folder, 'baseline.md'), 'utf8')
  expect(table).toBe(formatBaseline(results))
  expect(table).toContain('2 goals, 1 missed')
  expect(table).toContain('calibration: SHA-256 in 0.60 s (2 x CPU, node v24); 12 s in all')
  expect(table).toContain('| a page | 1.50 | <= 1.2 | MISSED | 3 ms | 2 | a bare page |')
  expect(table).toContain('| a part | 0.50 | <= 1 | holds | 50 bytes of a bundle | 100 | budget |')
})
