import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import type { ImportSession } from '../../conversations/import-session.ts'
import {
  conversation,
  importEvents,
  otherConversation,
  readAll,
  receivedEvent,
} from '../../testing/fixtures.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'
import { loseNextCommit } from '../testing/lose-next-commit.ts'

const unavailable = { code: 'unavailable' }

test('an import or a removal whose start was reported as failed leaves no rows while the storage is open', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const count = () => {
    using db = new DatabaseSync(join(directory.path, 'log.db'), { readOnly: true })
    const sql = `SELECT (SELECT count(*) FROM leftover) + (SELECT count(*) FROM conversation WHERE is_visible = 0)
      + (SELECT count(*) FROM event) AS n`
    return db.prepare(sql).get()?.n
  }
  {
    using _ = loseNextCommit()
    await expect(storage.startImport(conversation)).rejects.toMatchObject(unavailable)
  }
  await expect.poll(count, { timeout: 20_000 }).toBe(0)
  await expect
    .poll(() =>
      importEvents(storage, [receivedEvent('a', 1)]).then(
        () => 1,
        () => 0,
      ),
    )
    .toBe(1)
  {
    using _ = loseNextCommit()
    await expect(storage.conversations.remove(conversation)).rejects.toMatchObject(unavailable)
  }
  await expect.poll(count, { timeout: 20_000 }).toBe(0)
  await importEvents(storage, [receivedEvent('b', 1)])
  expect(await readAll(storage)).toHaveLength(1)
})

test('the clean-up of a start that was not stored leaves the conversation that got its number', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  {
    using _ = failCommits()
    await expect(storage.startImport(conversation)).rejects.toMatchObject(unavailable)
  }
  const next: { session?: ImportSession | undefined } = {}
  await expect
    .poll(
      async () => {
        next.session ??= await storage.startImport(otherConversation).catch(() => undefined)
        return next.session !== undefined
      },
      { timeout: 20_000 },
    )
    .toBe(true)
  await next.session?.add([receivedEvent('a', 1)])
  // It waits behind the clean-up.
  await expect
    .poll(
      () =>
        importEvents(storage, [receivedEvent('b', 1)]).then(
          () => 'done',
          () => 'waits',
        ),
      { timeout: 20_000 },
    )
    .toBe('done')
  await next.session?.publish({})
  expect(
    [await readAll(storage), await readAll(storage, otherConversation)].map(({ length }) => length),
  ).toEqual([1, 1])
})

/** From now on commits fail, and nothing of them is stored. */
function failCommits(): Disposable {
  const { exec } = DatabaseSync.prototype
  DatabaseSync.prototype.exec = function (sql) {
    if (sql === 'COMMIT')
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 778 })
    exec.call(this, sql)
  }
  return {
    [Symbol.dispose]() {
      DatabaseSync.prototype.exec = exec
    },
  }
}
