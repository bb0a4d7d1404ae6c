import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { CommitQueue } from '../database/commit-queue.ts'
import { Database } from '../database/database.ts'
import { StorageHealth } from '../database/storage-health.ts'
import { ChangeQueue } from './change-queue.ts'

test('a failed change is rolled back, and the others of its transaction are stored and see each other', async () => {
  using directory = temporaryDirectory()
  const db = new Database(join(directory.path, 'test.db'), {
    synchronous: 'FULL',
    cacheBytes: 1_000_000,
    migrations: ['CREATE TABLE entry (name TEXT PRIMARY KEY) STRICT'],
  })
  const changes = new ChangeQueue(
    db,
    new CommitQueue(db, 'ledger', new StorageHealth(dirname(db.path), () => {}).add(db)),
  )
  const names = () => db.all<[string]>('SELECT name FROM entry ORDER BY name').flat()
  const add = (name: string) => {
    db.run('INSERT INTO entry VALUES (?)', name)
    return names()
  }
  const asked = [
    changes.write(() => add('a')),
    changes.write(() => {
      add('b')
      throw new Error('refused')
    }),
    changes.write(() => {
      add('c')
      add('a')
    }),
    changes.write(() => add('d')),
  ]
  expect(names()).toEqual([])
  await expect(asked[1]).rejects.toThrow('refused')
  await expect(asked[2]).rejects.toThrow('UNIQUE')
  expect(await Promise.all([asked[0], asked[3]])).toEqual([['a'], ['a', 'd']])
  expect(names()).toEqual(['a', 'd'])
  db.close()
})

test('after a failure with unknown file content, later changes are refused', async () => {
  using directory = temporaryDirectory()
  const migrations = ['CREATE TABLE entry (name TEXT PRIMARY KEY) STRICT']
  const settings = { synchronous: 'FULL', cacheBytes: 1_000_000, migrations } as const
  const db = new Database(join(directory.path, 'test.db'), settings)
  const changes = new ChangeQueue(
    db,
    new CommitQueue(db, 'ledger', new StorageHealth(dirname(db.path), () => {}).add(db)),
  )
  const write = (name: string) => changes.write(() => db.run('INSERT INTO entry VALUES (?)', name))
  const asked = [
    write('a'),
    changes.write(() => {
      throw Object.assign(new Error('disk I/O error'), { errcode: 1034 })
    }),
  ]
  for (const each of asked) await expect(each).rejects.toMatchObject({ code: 'unavailable' })
  await expect(write('b')).rejects.toMatchObject({ code: 'unavailable' })
  expect(db.all('SELECT name FROM entry')).toEqual([])
  db.close()
})
