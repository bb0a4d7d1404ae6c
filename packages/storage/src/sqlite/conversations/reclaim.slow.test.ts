import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { logMigrations } from '../event-log/schema.ts'
import { compactDatabase } from '../maintenance/compact.ts'
import { verifyLog } from '../maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from '../storage.ts'

const kept = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const removed = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const mib = 1024 ** 2

/** 128 KiB, in words. */
function randomText(): string {
  return randomBytes(65_536).toString('hex').replaceAll(/.{64}/g, '$& ')
}

/** Appends 8 MiB to each of two conversations, by turns. */
async function fill(storage: SqliteStorage): Promise<void> {
  for (const id of [kept, removed]) await storage.conversations.create({ id })
  for (let n = 0; n < 64; n++)
    for (const id of [kept, removed])
      await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user', text: randomText() }])
}

test('a deleted conversation gives its space back while the server runs', { timeout: 120_000 }, async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  {
    await using storage = await openStorage({ directory: directory.path })
    await fill(storage)
    expect(await storage.conversations.remove(removed)).toBe(true)
    await vi.waitFor(() => expect(statSync(path).size).toBeLessThan(12 * mib), {
      timeout: 60_000,
      interval: 50,
    })
    expect(await storage.log.read(kept, 0, 100)).toHaveLength(64)
  }
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ events: 64, damaged: [], problems: [] })
})

test('the text index gives the space of a deleted conversation back, and finds the others', {
  timeout: 240_000,
}, async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'index.db')
  await using storage = await openStorage({ directory: directory.path })
  for (const id of [kept, removed]) {
    await storage.conversations.create({ id })
    for (let n = 0; n < 32; n++) {
      const text = `${id} ${n} ${randomBytes(32_768).toString('base64')}`
      const message = { role: 'user', content: [{ type: 'text', text }] }
      await storage.log.append(id, [{ kind: 'MessageEvent', source: 'user', llm_message: message }])
    }
  }
  await storage.waitUntilIndexed()
  const search = () => storage.log.count(kept, { body: `${kept} 3` })
  const found = await search()
  const inspect = () => {
    const db = new Database(path, {
      readOnly: true,
      synchronous: 'FULL',
      cacheBytes: 1_000_000,
      migrations: [],
    })
    const messages = db.get<[number]>('SELECT count(*) FROM message')?.[0]
    const [pages, free] = [Number(db.pragma('page_count')), Number(db.pragma('freelist_count'))]
    db.close()
    return { messages, pages, free }
  }
  const { pages } = inspect()
  await storage.conversations.remove(removed)
  await vi.waitFor(() => expect(inspect()).toMatchObject({ messages: 32, free: 0 }), {
    timeout: 120_000,
    interval: 100,
  })
  const results = await storage.compact({ signal: AbortSignal.timeout(60_000), maxMs: 30_000 })
  expect(results.map(({ name, free_bytes }) => ({ name, free_bytes }))).toEqual([
    { name: 'log.db', free_bytes: 0 },
    { name: 'index.db', free_bytes: 0 },
  ])
  expect(inspect().pages).toBeLessThan(pages * 0.75)
  expect(await search()).toBe(found)
})

test('compact converts a file of an earlier version', { timeout: 120_000 }, async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  new Database(path, { synchronous: 'FULL', cacheBytes: 1_000_000, migrations: logMigrations }).close()
  {
    await using storage = await openStorage({ directory: directory.path })
    await fill(storage)
    await storage.conversations.remove(removed)
    await vi.waitFor(
      () => {
        const db = new Database(path, {
          readOnly: true,
          synchronous: 'FULL',
          cacheBytes: 1_000_000,
          migrations: [],
        })
        const [left] = db.get<[number]>('SELECT count(*) FROM leftover') ?? []
        db.close()
        expect(left).toBe(0)
      },
      { timeout: 60_000, interval: 50 },
    )
  }
  expect(statSync(path).size).toBeGreaterThan(16 * mib)
  const { before, after } = compactDatabase(path)
  expect([before > 16 * mib, after < 12 * mib]).toEqual([true, true])
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ events: 64, damaged: [], problems: [] })
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.remove(kept)
  await vi.waitFor(() => expect(statSync(path).size).toBeLessThan(4 * mib), { timeout: 60_000, interval: 50 })
})
