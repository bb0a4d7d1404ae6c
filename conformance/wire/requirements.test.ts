import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { requirements } from './requirements.ts'

const wireCases = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.test.ts') && name !== 'requirements.test.ts')
  .flatMap((name) => {
    const text = readFileSync(join(import.meta.dirname, name), 'utf8')
    return [...text.matchAll(/\bwireCase(?:WithKey)?\(\s*'([^']+)'/g)].map((found) => ({
      section: name.replace('.test.ts', ''),
      id: found[1],
    }))
  })

test('every row is in the list once', () => {
  expect(requirements.length).toBeGreaterThan(130)
  expect(new Set(requirements.map(({ id }) => id)).size).toBe(requirements.length)
})

test('every row has a case in the file of its section, and every case a row', () => {
  const missing = requirements.filter(
    (row) => !wireCases.some(({ section, id }) => section === row.section && id === row.id),
  )
  expect(missing.map(({ section, id }) => `${section}: ${id}`)).toEqual([])
  const unknown = wireCases.filter(
    ({ section, id }) => !requirements.some((row) => row.section === section && row.id === id),
  )
  expect(unknown).toEqual([])
})
