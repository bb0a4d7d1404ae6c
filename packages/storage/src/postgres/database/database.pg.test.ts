import { expect, test } from 'vitest'
import { createTestSchema, describePostgres } from '../testing/test-database.ts'
import { PostgresDatabase } from './database.ts'

describePostgres('transactions', () => {
  test('one whose server stands still ends, and what it holds is free for others', async () => {
    await using schema = await createTestSchema()
    await using own = open(schema.url, 200)
    await using other = open(schema.url)
    await other.db.query('CREATE TABLE held (id integer); INSERT INTO held VALUES (1)')
    const isHeld = Promise.withResolvers<void>()
    const continues = Promise.withResolvers<void>()
    const still = own.db.transaction('SELECT 1', async (session) => {
      await session.run('UPDATE held SET id = 2')
      isHeld.resolve()
      await continues.promise
    })
    await isHeld.promise
    await other.db.query('UPDATE held SET id = 3')
    continues.resolve()
    await expect(still).rejects.toMatchObject({ code: 'unavailable' })
    expect(await other.db.query('SELECT id FROM held')).toEqual([[3]])
  })
})

function open(url: string, idleMs?: number): AsyncDisposable & { readonly db: PostgresDatabase } {
  const db = new PostgresDatabase(url, () => {}, idleMs === undefined ? {} : { idleMs })
  return { db, [Symbol.asyncDispose]: () => db.close() }
}
