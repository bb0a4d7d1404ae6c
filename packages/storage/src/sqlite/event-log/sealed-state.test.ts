import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { openStorage } from '../storage.ts'
import { logMigrations } from './schema.ts'

const ids = ['0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e', '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'] as const

test('removing a conversation deletes its sealed state only', async () => {
  using directory = temporaryDirectory()
  const storage = await openStorage({ directory: directory.path })
  for (const id of ids) {
    await storage.conversations.create({ id, sealed: Buffer.from(id) })
    await storage.conversations.saveSnapshot(id, { position: 0, text: id })
  }
  await storage.conversations.remove(ids[0])
  await storage[Symbol.asyncDispose]()
  const path = join(directory.path, 'log.db')
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 1_000_000, migrations: logMigrations })
  expect(db.all('SELECT substr(snapshot, 10) FROM vault')).toEqual([[ids[1]]])
  db.close()
})
