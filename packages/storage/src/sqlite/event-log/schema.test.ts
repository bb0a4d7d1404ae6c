import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { openStorage } from '../storage.ts'
import { logMigrations } from './schema.ts'

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

/** A log with only the first migrations. */
function writeOld(directory: string, steps: number): void {
  const migrations = logMigrations.slice(0, steps)
  const db = new Database(join(directory, 'log.db'), {
    synchronous: 'FULL',
    cacheBytes: 1_000_000,
    migrations,
  })
  db.run(
    `INSERT INTO conversation (id, title, tags, status, request, created_at, updated_at, head, last_instant, is_visible)
     VALUES (?, 'T', '{"a":"b"}', 'paused', '{}', 1000, 2000, 0, NULL, 1)`,
    id,
  )
  db.close()
}

test.each(logMigrations.map((_, i) => i + 1))(
  'a log of schema version %i opens with its content, and accepts new values',
  async (steps) => {
    using directory = temporaryDirectory()
    writeOld(directory.path, steps)
    await using storage = await openStorage({ directory: directory.path })
    const { conversations, log } = storage
    const old = { id, title: 'T', tags: { a: 'b' }, status: 'paused', request: '{}', stats: null }
    expect(await conversations.get([id])).toMatchObject([old])
    expect(await conversations.getSealedState(id)).toEqual({ sealed: null, snapshot: null })
    const none = { conversation: id, position: 0, updated_at: null, isRemoved: false }
    expect(await storage.deliveries.listPending('r', 2)).toEqual([none])
    await log.append(id, [{ kind: 'PauseEvent', source: 'user' }], {
      record: { stats: '{}', sealed: Buffer.from('s') },
    })
    await conversations.saveSnapshot(id, { position: 1, text: 't' })
    expect(await conversations.get([id])).toMatchObject([{ ...old, stats: '{}', head: 1 }])
    const sealedState = { sealed: Buffer.from('s'), snapshot: { position: 1, text: 't' } }
    expect(await conversations.getSealedState(id)).toEqual(sealedState)
  },
)

test('the length of the events of an earlier version is counted, without those above the head', async () => {
  using directory = temporaryDirectory()
  const migrations = logMigrations.slice(0, 5)
  const path = join(directory.path, 'log.db')
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 1_000_000, migrations })
  for (const [ordinal, head] of [
    [1, 2],
    [2, 0],
  ] as const) {
    db.run(
      `INSERT INTO conversation (ordinal, id, tags, status, created_at, updated_at, head, is_visible)
       VALUES (?, ?, '{}', 'idle', 1, 1, ?, 1)`,
      ordinal,
      `${id.slice(0, -1)}${ordinal}`,
      head,
    )
    for (const position of [1, 2, 3])
      db.run(
        `INSERT INTO event (row, conversation, id, instant, facet, body) VALUES (?, ?, ?, 1, 0, ?)`,
        ordinal * 2 ** 28 + position,
        ordinal,
        `e${position}`,
        Buffer.alloc(10 ** position),
      )
  }
  db.close()
  const migrated = new Database(path, {
    synchronous: 'FULL',
    cacheBytes: 1_000_000,
    migrations: logMigrations,
  })
  expect(migrated.all('SELECT bytes FROM conversation ORDER BY ordinal')).toEqual([[110], [0]])
  migrated.close()
})

test('a log of a newer version is refused', async () => {
  using directory = temporaryDirectory()
  const db = new Database(join(directory.path, 'log.db'), {
    synchronous: 'FULL',
    cacheBytes: 1_000_000,
    migrations: [...logMigrations, 'CREATE TABLE later (x INTEGER) STRICT'],
  })
  db.close()
  await expect(openStorage({ directory: directory.path })).rejects.toThrow('newer version')
})
