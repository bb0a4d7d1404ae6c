import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { conversation } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openLog } from './open-log.ts'
import { openStorage } from './storage.ts'

/** A log whose index of ids has no readable page. */
async function openDamaged() {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  {
    await using storage = await openStorage({ directory: directory.path })
    await storage.conversations.create({ id: conversation })
    await storage.log.append(conversation, [{ kind: 'PauseEvent', source: 'user' }])
  }
  using db = new DatabaseSync(path)
  const row = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'event_id'").get()
  const end = Number(row?.rootpage) * 4096
  writeFileSync(path, readFileSync(path).fill(0, end - 4096, end))
  const logged: string[] = []
  return {
    path,
    logged,
    open: (maxRebuiltBytes?: number) =>
      openLog(path, (_, message) => void logged.push(message), maxRebuiltBytes).close(),
    aside: join(directory.path, 'damaged'),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
}

const failed = 'damaged indexes of log.db cannot be made again'

test('attempts to make indexes again that fail leave one copy of the log', async () => {
  using damaged = await openDamaged()
  {
    const { exec } = DatabaseSync.prototype
    using _spy = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (
      this: DatabaseSync,
      sql,
    ) {
      if (sql.includes('writable_schema')) throw new Error('disk I/O error')
      exec.call(this, sql)
    })
    for (let n = 0; n < 3; n++) damaged.open()
    expect(damaged.logged.filter((message) => message === failed)).toHaveLength(3)
    expect(readdirSync(damaged.aside)).toEqual(['log.db-before'])
  }
  damaged.open()
  expect(damaged.logged.at(-1)).toMatch(/were made again/)
  expect(readdirSync(damaged.aside)).toEqual([expect.stringMatching(/^log\.db-\d+$/)])
})

test('indexes of a large log are left to the command for it', async () => {
  using damaged = await openDamaged()
  damaged.open(100)
  expect(damaged.logged[0]).toBe(failed)
  expect(existsSync(damaged.aside)).toBe(false)
})
