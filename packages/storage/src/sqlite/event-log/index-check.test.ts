import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { DamageError } from '../../event-log/damage.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { openStorage } from '../storage.ts'
import { areIndexesRight, compareIndexes, IndexGuard } from './index-check.ts'

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

test('an append of an event with an id needs the index of ids, one without does not', async () => {
  using directory = temporaryDirectory()
  damageIndex(await writeLog(directory.path), 'event_id')
  await using storage = await openStorage({ directory: directory.path })
  const pause = { kind: 'PauseEvent', source: 'user' }
  expect(await storage.log.append('one', [pause])).toMatchObject([{ position: 21 }])
  const named = storage.log.append('one', [pause, { ...pause, id: 'named' }])
  await expect(named).rejects.toThrow(DamageError)
  expect(await storage.log.read('one', 21, 10)).toEqual([])
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
  for (const group of ['order', 'ids'] as const)
    expect(areIndexesRight(db, group, { ordinal: 1, head: 20 })).toBe(true)
  expect(removed).toBeGreaterThan(2)
  db.close()
})

/** Whether the indexes of 12 events are right by any length of steps. */
function areInSteps(db: Database, group: 'order' | 'ids', ordinal: number): boolean {
  return [1, 2, 3, 5, 12, 100].some((stepRows) => {
    const steps = compareIndexes(db, group, { ordinal, head: 12 }, stepRows)
    for (let count = 0; ; count++) {
      const { done, value } = steps.next()
      if (done) return value
      expect(count).toBeLessThan(200)
    }
  })
}

test('the same is found step by step', async () => {
  using directory = temporaryDirectory()
  const path = await writeLog(directory.path)
  const options = { readOnly: true, synchronous: 'FULL', cacheBytes: 1_000_000, migrations: [] } as const
  const compare = (db: Database, group: 'order' | 'ids', stepRows: number) => {
    const steps = compareIndexes(db, group, { ordinal: 1, head: 20 }, stepRows)
    for (let count = 0; ; count++) {
      const { done, value } = steps.next()
      if (done) return { isRight: value, count }
    }
  }
  const db = new Database(path, options)
  expect(compare(db, 'ids', 100)).toEqual({ isRight: true, count: 2 })
  expect(compare(db, 'ids', 7)).toEqual({ isRight: true, count: 6 })
  expect(compare(db, 'ids', 1)).toEqual({ isRight: true, count: 41 })
  for (const stepRows of [1, 3, 10, 20]) expect(compare(db, 'order', stepRows).isRight).toBe(true)
  db.close()
  damageIndex(path, 'event_id')
  const damaged = new Database(path, options)
  for (const stepRows of [1, 3, 10, 20]) expect(compare(damaged, 'ids', stepRows).isRight).toBe(false)
  damaged.close()
})

/** Where the entries of an index begin that is one page. */
function cellsOf(page: Buffer): number[] {
  return Array.from({ length: page.readUInt16BE(3) }, (_, n) => page.readUInt16BE(8 + 2 * n))
}

test('an entry out of order is noticed by each conversation whose searches it misleads', async () => {
  using directory = temporaryDirectory()
  {
    await using storage = await openStorage({ directory: directory.path })
    for (const id of ['one', 'two', 'three', 'four']) {
      await storage.conversations.create({ id })
      for (let n = 0; n < 12; n++)
        await storage.log.append(id, [{ kind: n % 2 === 0 ? 'PauseEvent' : 'MessageEvent', source: 'user' }])
    }
  }
  const path = join(directory.path, 'log.db')
  const original = readFileSync(path)
  const changed = join(directory.path, 'changed.db')
  const columns = { event_facet: 'facet, instant, row', event_instant: 'instant, row', event_id: 'id, row' }
  using pristine = new DatabaseSync(path)
  const wrong: string[] = []
  let misled = 0
  for (const [index, key] of Object.entries(columns)) {
    const { rootpage } =
      pristine.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(index) ?? {}
    const start = (Number(rootpage) - 1) * 4096
    const keys = pristine
      .prepare(`SELECT conversation, ${key} FROM event ORDER BY conversation, ${key}`)
      .all()
    for (const cell of cellsOf(original.subarray(start, start + 4096))) {
      // The type of the conversation: 8 is the value 0, 9 the value 1, and 1 a byte behind the header.
      const typeAt = start + cell + 2
      const valueAt = start + cell + 1 + (original[start + cell + 1] ?? 0)
      for (const value of [0, 1, 2, 3, 4, 5, 200]) {
        const bytes = Buffer.from(original)
        if (bytes[typeAt] === 1) bytes[valueAt] = value
        else if (value < 2) bytes[typeAt] = 8 + value
        else continue
        if (bytes.equals(original)) continue
        writeFileSync(changed, bytes)
        const db = new Database(changed, {
          readOnly: true,
          synchronous: 'FULL',
          cacheBytes: 1_000_000,
          migrations: [],
        })
        const group = index === 'event_id' ? 'ids' : 'order'
        for (const ordinal of [1, 2, 3, 4]) {
          const found = `SELECT row FROM event INDEXED BY ${index} WHERE conversation = ? AND `
          const isMisled = keys.some((values) => {
            if (values.conversation !== ordinal) return false
            const parts = key.split(', ').map((column) => values[column] as number | string)
            const condition = key
              .split(', ')
              .map((column) => `${column} = ?`)
              .join(' AND ')
            return db.get<[number]>(found + condition, ordinal, ...parts)?.[0] !== values.row
          })
          misled += Number(isMisled)
          if (isMisled && areInSteps(db, group, ordinal))
            wrong.push(`${index} at ${cell}: ${value}, ${ordinal}`)
        }
        db.close()
      }
    }
  }
  expect(wrong).toEqual([])
  expect(misled).toBeGreaterThan(100)
})
