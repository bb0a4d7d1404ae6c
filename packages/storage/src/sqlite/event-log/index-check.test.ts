import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { DamageError } from '../../event-log/damage.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { openStorage } from '../storage.ts'
import { areIndexesRight, IndexGuard } from './index-check.ts'

const head = {
  id: 'one',
  ordinal: 1,
  head: 20,
  lastInstant: 0,
  isInOrder: true,
  hasFiner: false,
  bytes: 0,
  version: 0,
  generation: 0,
}

async function writeLog(directory: string): Promise<string> {
  await using storage = await openStorage({ directory })
  await storage.conversations.create({ id: 'one' })
  for (let n = 0; n < 20; n++) await storage.log.append('one', [{ kind: 'PauseEvent', source: 'user' }])
  return join(directory, 'log.db')
}

/** Takes an entry out of an index, and leaves its row. */
function damageIndex(path: string, index: string): void {
  using db = new DatabaseSync(path, { defensive: false })
  const row = db.prepare('SELECT * FROM sqlite_schema WHERE name = ?').get(index)
  const other = db.prepare('SELECT * FROM event WHERE row % 268435456 = 7').get()
  db.exec(`PRAGMA writable_schema = ON; CREATE TABLE kept AS SELECT * FROM event WHERE row = ${other?.row};
    DELETE FROM event WHERE row = ${other?.row}; DELETE FROM sqlite_schema WHERE name = '${index}'`)
  db.exec('PRAGMA writable_schema = RESET; INSERT INTO event SELECT * FROM kept; DROP TABLE kept')
  db.exec('PRAGMA writable_schema = ON')
  db.prepare("INSERT INTO sqlite_schema VALUES ('index', ?, 'event', ?, ?)").run(
    index,
    row?.rootpage ?? 0,
    row?.sql ?? '',
  )
  db.exec('PRAGMA writable_schema = RESET')
}

test.each([
  ['event_facet', 'order'],
  ['event_id', 'ids'],
] as const)('an index that is damaged while it is used is noticed: %s', async (index, group) => {
  using directory = temporaryDirectory()
  const path = await writeLog(directory.path)
  const open = () =>
    new Database(path, { readOnly: true, synchronous: 'FULL', cacheBytes: 1_000_000, migrations: [] })
  const db = open()
  const errors: DamageError[] = []
  let checks = 0
  const guard = new IndexGuard({
    db,
    recheckMs: 0,
    checkElsewhere: async (...args) => {
      checks++
      const other = open()
      try {
        return areIndexesRight(other, ...args)
      } finally {
        other.close()
      }
    },
    onDamage: (error) => errors.push(error),
  })
  expect(guard.ensure(group, head)).toBeUndefined()
  expect(checks).toBe(0)
  expect(guard.ensure(group, head)).toBeUndefined()
  await vi.waitFor(() => expect(checks).toBe(1))
  db.close()
  damageIndex(path, index)
  // The use that finds it due is answered by what was known before.
  expect(guard.ensure(group, head)).toBeUndefined()
  await vi.waitFor(() => expect(errors).toHaveLength(1))
  expect(() => guard.ensure(group, head)).toThrow(DamageError)
  expect(errors[0]?.message).toContain('one')
})

test('indexes are right while another connection removes the events that are compared', async () => {
  using directory = temporaryDirectory()
  const path = await writeLog(directory.path)
  const db = new Database(path, {
    readOnly: true,
    synchronous: 'FULL',
    cacheBytes: 1_000_000,
    migrations: [],
  })
  using writer = new DatabaseSync(path)
  let removed = 0
  const get = db.get.bind(db)
  vi.spyOn(db, 'get').mockImplementation((sql, ...values) => {
    const row = get(sql, ...values)
    // As the purge of a removed conversation, some rows at a time.
    writer.exec(`DELETE FROM event WHERE row % 268435456 = ${++removed}`)
    return row as never
  })
  for (const group of ['order', 'ids'] as const) expect(areIndexesRight(db, group, 1, 20)).toBe(true)
  expect(removed).toBeGreaterThan(2)
  db.close()
})
