import { readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { logMigrations } from '../event-log/schema.ts'
import { Database } from './database.ts'
import { toStorageProblem } from './storage-failure.ts'
import { recoverDatabase, StorageHealth } from './storage-health.ts'

async function readFree(directory: string): Promise<number | undefined> {
  const { metrics } = new StorageHealth(directory, () => {})
  const all = await Promise.all(metrics.map(async (metric) => await metric.get()))
  return all.find(({ name }) => name === 'slipway_storage_free_bytes')?.values[0]?.value
}

test('the metric of free space is that of the disk of the directory, and unknown where there is none', async () => {
  using directory = temporaryDirectory()
  const { blocks, bsize } = statfsSync(directory.path)
  const free = await readFree(directory.path)
  expect(free).toBeGreaterThan(0)
  expect(free).toBeLessThanOrEqual(blocks * bsize)
  expect(await readFree(join(directory.path, 'missing'))).toBeNaN()
})

test.each([
  ['conversation', 'UPDATE conversation SET tags = id', true],
  ['event', 'DELETE FROM event', false],
])('whether damage of the first page of %s refuses all writes', async (table, sql, isAll) => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  const open = () =>
    new Database(path, { synchronous: 'FULL', cacheBytes: 100_000, migrations: logMigrations })
  const before = open()
  const page = before.get<[number]>('SELECT rootpage FROM sqlite_schema WHERE name = ?', table)?.[0] ?? 0
  before.close()
  writeFileSync(path, readFileSync(path).fill(0, (page - 1) * 4096, page * 4096))
  const db = open()
  const health = new StorageHealth(directory.path, () => {})
  const recover = vi.fn(() => recoverDatabase(db))
  const databaseHealth = health.add(db, recover, 'conversation')
  const damaged = { code: 'unavailable', message: expect.stringContaining('it is damaged') }
  try {
    db.transaction(() => db.run(sql))
    expect.unreachable()
  } catch (error) {
    expect(error).toMatchObject(damaged)
    databaseHealth.failed(error)
  }
  if (isAll) {
    expect(await health.check()).toMatchObject(damaged)
    // It stays after attempts to recover.
    await expect.poll(() => recover.mock.calls.length, { timeout: 20_000 }).toBeGreaterThan(2)
    expect(await health.check()).toMatchObject(damaged)
  } else {
    expect(await health.check()).toBeUndefined()
    databaseHealth.failed(toStorageProblem(Object.assign(new Error('not a database'), { errcode: 26 }), path))
    expect(await health.check()).toMatchObject({ message: expect.stringContaining('not a database') })
  }
  await health.close()
  db.close()
})
