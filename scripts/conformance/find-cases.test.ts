import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { families } from '../../conformance/map/families.ts'
import { requirements } from '../../conformance/wire/requirements.ts'
import { findCases, missingCases } from './find-cases.ts'

const root = resolve(import.meta.dirname, '../..')
const cases = findCases(globSync('conformance/**/*.ts', { cwd: root }), (file) =>
  readFileSync(join(root, file), 'utf8'),
)

test('finds every case of the map once, and every requirement of the wire', () => {
  const ids = cases.flatMap(({ id }) => (id === undefined ? [] : [id]))
  const mapIds = ids.filter((id) => /^F\d\d\./.test(id))
  expect(new Set(mapIds).size).toBe(mapIds.length)
  for (const [family, { count }] of Object.entries(families))
    expect([family, mapIds.filter((id) => id.startsWith(`${family}.`)).length]).toEqual([family, count])
  expect(requirements.filter(({ id }) => !ids.includes(id))).toEqual([])
})

test('finds titles in tables and after conditions', () => {
  const text = `
    test('plain', run)
    test.skipIf(isAway(')'))("skipped", run)
    test.each([['(', 1], [\`)\`, 2]])('%s of a table', run)
    expect(pattern.test('no case')).toBe(true)
    wireCase(
      'GET /alive',
      'lives',
      run,
    )
    for (const [id, promise] of [['F01.alive', 'lives']] as const) mapCase(id, promise, run)`
  const found = findCases(['a.test.ts'], () => text)
  expect(found.map(({ id, title }) => [id, title])).toEqual([
    ['F01.alive', 'lives'],
    ['GET /alive', 'lives'],
    [undefined, 'plain'],
    [undefined, 'skipped'],
    [undefined, '%s of a table'],
  ])
})

test('a case that moves is not missing, one that goes is, by id or by title', () => {
  const before = [
    { id: 'F01.alive', title: 'lives', file: 'a.ts' },
    { id: 'GET /alive', title: 'lives', file: 'a.ts' },
    { id: undefined, title: 'same title', file: 'a.ts' },
    { id: undefined, title: 'same title', file: 'b.ts' },
  ]
  const moved = before.map((each) => ({ ...each, file: 'c.ts' }))
  expect(
    missingCases(before, [{ ...moved[0], title: 'is alive' } as (typeof moved)[0], ...moved.slice(1)]),
  ).toEqual([])
  expect(missingCases(before, moved.slice(1))).toEqual(before.slice(0, 1))
  expect(missingCases(before, moved.slice(0, 3))).toEqual(before.slice(3))
})
