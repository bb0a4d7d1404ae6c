import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { validateEvent } from './event.ts'

const folder = process.env.SLIPWAY_DATA
if (folder === undefined)
  console.warn('SKIPPED: recorded logs are not read, because SLIPWAY_DATA names no folder')

test.skipIf(folder === undefined)(
  'each event of a recorded log is valid or has faults that lead to a place',
  () => {
    const names = readdirSync(folder ?? '.').filter((name) => /^(cli|sdk|extensions)-.*\.jsonl$/.test(name))
    expect(names.length).toBeGreaterThan(0)
    for (const name of names) {
      const lines = readFileSync(join(folder ?? '.', name), 'utf8').split('\n')
      for (const value of lines.filter((line) => line !== '').map((line) => JSON.parse(line))) {
        for (const { loc, msg, type } of validateEvent(value)) {
          expect(msg).not.toBe('')
          expect(type).toMatch(/^[a-z_]+$/)
          expect(valueAt(value, loc.slice(0, -1))).toBeTypeOf('object')
        }
      }
    }
  },
)

function valueAt(value: unknown, loc: readonly (string | number)[]): unknown {
  return loc.reduce<unknown>(
    (at, step) => (typeof at === 'object' && at !== null ? Reflect.get(at, step) : undefined),
    value,
  )
}
