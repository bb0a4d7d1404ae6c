import { expect, test, vi } from 'vitest'
import { conversation, importEvents, readAll, receivedEvent } from '../testing/fixtures.ts'
import { openPostgresStorage } from './storage.ts'
import { loseNextCommit } from './testing/lose-next-commit.ts'
import { createTestSchema, describePostgres, runSql } from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const unavailable = { code: 'unavailable' }
const patience = { timeout: 20_000 }

describePostgres('an import or a removal whose start was reported as failed', () => {
  test('leaves no rows while the storage is open', async () => {
    await using schema = await createTestSchema()
    await using storage = await openPostgresStorage({ url: schema.url })
    const count = async () => {
      const sql = `SELECT (SELECT count(*) FROM leftover) + (SELECT count(*) FROM conversation WHERE NOT is_visible)
        + (SELECT count(*) FROM event) AS n`
      return Number((await runSql(sql, schema.url))[0]?.n)
    }
    {
      using _ = loseNextCommit()
      await expect(storage.startImport(conversation)).rejects.toMatchObject(unavailable)
    }
    await expect.poll(count, patience).toBe(0)
    const events = [receivedEvent('a', 1)]
    await expect
      .poll(
        () =>
          importEvents(storage, events).then(
            () => 1,
            () => 0,
          ),
        patience,
      )
      .toBe(1)
    {
      using _ = loseNextCommit()
      await expect(storage.conversations.remove(conversation)).rejects.toMatchObject(unavailable)
    }
    await expect.poll(count, patience).toBe(0)
    await importEvents(storage, events)
    expect(await readAll(storage)).toHaveLength(1)
  })
})
