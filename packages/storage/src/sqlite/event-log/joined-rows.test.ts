import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { eventChecksum } from './checksum.ts'
import { readJoinedRows } from './joined-rows.ts'
import { logMigrations } from './schema.ts'

const both = [false, true]
const insertSql =
  'INSERT INTO event (row, conversation, id, instant, facet, body, checksum) VALUES (?, 0, ?, ?, 0, ?, ?)'
const ids = ['plain', 'quote " and \\', 'line\nbreak', 'duplicate\u0000001', 'жå😀', '']
const bodies = [
  '{"n":1}',
  '{"text":"ü😀\\n"}',
  '{}',
  `{"long":"${'x'.repeat(5000)}"}`,
  '{"a":[1,2]}',
  '{"z":null}',
]

function open() {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 1_000_000, migrations: logMigrations })
  for (const [index, body] of bodies.entries()) insert(db, index + 1, { id: ids[index] ?? '', body })
  return {
    db,
    [Symbol.dispose]() {
      db.close()
      directory[Symbol.dispose]()
    },
  }
}

function insert(db: Database, row: number, { id, body }: { id: string; body: string }, hasChecksum = true) {
  const bytes = Buffer.from(body)
  const instant = 1_700_000_000_000_000 + row
  db.run(insertSql, row, id, instant, bytes, hasChecksum ? eventChecksum(row, id, instant, bytes) : null)
}

const read = (db: Database, low: number, high: number, isDescending = false) =>
  readJoinedRows(db, { low, high }, { isDescending, open: '[', close: ']' })

test.each(both)('the bodies of a range, joined and split, descending %s', (isDescending) => {
  using fixture = open()
  const { db } = fixture
  const positions = isDescending ? [6, 5, 4, 3, 2] : [2, 3, 4, 5, 6]
  const expected = positions.map((position) => ({ position, body: bodies[position - 1] }))
  const joined = read(db, 2, 6, isDescending)
  expect(joined?.bytes.toString()).toBe(`[${expected.map(({ body }) => body).join(',')}]`)
  const events = joined?.split().map(({ position, bytes }) => ({ position, body: bytes.toString() }))
  expect(events).toEqual(expected)
})

test('rows that are missing, or not what was written, are not joined', () => {
  using fixture = open()
  const { db } = fixture
  expect(read(db, 1, 6)).toBeDefined()
  for (const high of [0, 7]) expect(read(db, 1, high)).toBeUndefined()
  const changes = [
    'body = CAST(\'{"n":2}\' AS BLOB)',
    "body = CAST('' AS BLOB)",
    "id = 'other'",
    'instant = instant + 1',
    'checksum = checksum + 1',
    'row = 9',
  ]
  for (const change of changes) {
    db.run('BEGIN')
    db.run(`UPDATE event SET ${change} WHERE row = 1`)
    expect(read(db, 1, 6), change).toBeUndefined()
    db.run('ROLLBACK')
  }
})

test('events without a checksum, of earlier versions, are joined', () => {
  using fixture = open()
  const { db } = fixture
  insert(db, 7, { id: 'old', body: '{"old":true}' }, false)
  expect(read(db, 7, 7)?.bytes.toString()).toBe('[{"old":true}]')
})

test('large events are not joined', () => {
  using fixture = open()
  const { db } = fixture
  insert(db, 7, { id: 'large', body: `"${'x'.repeat(17 * 1024 * 1024)}"` })
  expect(read(db, 1, 7)).toBeUndefined()
  expect(read(db, 1, 6)).toBeDefined()
})
