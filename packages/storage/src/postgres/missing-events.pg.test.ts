import { expect, test, vi } from 'vitest'
import { conversation, otherConversation } from '../testing/fixtures.ts'
import { PostgresDatabase } from './database/database.ts'
import { openPostgresStorage } from './storage.ts'
import { createTestSchema, describePostgres, runSql } from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const count = 30
const instant = (position: number) => 1_700_000_000_000_000 + position * 1_000

describePostgres('rows that are missing in PostgreSQL', () => {
  test.each([
    ['in the middle', 15],
    ['at the beginning', 1],
    ['at the end', count],
  ])(
    'an event that is missing %s is named by every read of its place, and nothing else',
    async (_, position) => {
      await using schema = await createTestSchema()
      const logged: string[] = []
      const log = (level: string, message: string) => void (level === 'error' && logged.push(message))
      let now = 0
      const open = () => openPostgresStorage({ url: schema.url, log, now: () => instant(++now) })
      {
        await using storage = await open()
        for (const id of [conversation, otherConversation]) {
          await storage.conversations.create({ id })
          for (let n = 0; n < count; n++)
            await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
        }
      }
      const ofConversation = `conversation = (SELECT ordinal FROM conversation WHERE id = '${conversation}')`
      await runSql(`DELETE FROM event WHERE position = ${position} AND ${ofConversation}`, schema.url)
      await using storage = await open()
      const damaged = { code: 'unavailable', conversation, position }
      const { log: events } = storage
      const page = async (query: object, id = conversation) => {
        const options = { limit: 10, sort_order: 'TIMESTAMP' as const, ...query }
        const positions: number[] = []
        for (let page_id: string | undefined; ; ) {
          const { items, next_page_id } = await events.search(id, { ...options, page_id })
          positions.push(...items.map((event) => event.position))
          if (next_page_id === null) return positions
          page_id = next_page_id
        }
      }
      await expect(events.read(conversation, 0, 100)).rejects.toMatchObject(damaged)
      await expect(page({})).rejects.toMatchObject(damaged)
      await expect(page({ sort_order: 'TIMESTAMP_DESC' })).rejects.toMatchObject(damaged)
      await expect(page({ limit: 100 })).rejects.toMatchObject(damaged)
      const all = { timestamp__gte: 0 }
      if (position === 15) await expect(events.count(conversation, all)).rejects.toMatchObject(damaged)
      if (position === count) await expect(events.count(conversation, {})).rejects.toMatchObject(damaged)
      const tail = Array.fromAsync(events.tail(conversation, 0, AbortSignal.timeout(5_000)))
      await expect(tail).rejects.toMatchObject(damaged)
      expect(logged).toEqual(['an event is damaged'])
      expect(await page({}, otherConversation)).toHaveLength(count)
      expect(await page({ sort_order: 'TIMESTAMP_DESC', limit: 30 }, otherConversation)).toHaveLength(count)
      expect(await events.count(otherConversation, all)).toBe(count)
      // What is not in the range.
      if (position === 1) expect(await events.read(conversation, 1, 100)).toHaveLength(count - 1)
    },
  )

  test('a tail of a conversation that is removed before its read ends', async () => {
    await using schema = await createTestSchema()
    await using storage = await openPostgresStorage({ url: schema.url })
    await storage.conversations.create({ id: conversation })
    await storage.log.append(conversation, [{ kind: 'PauseEvent', source: 'user' }])
    const { query } = PostgresDatabase.prototype
    let isRemoved = false
    const spy = vi.spyOn(PostgresDatabase.prototype, 'query').mockImplementation(async function (
      this: PostgresDatabase,
      sql,
      values,
    ) {
      if (sql.includes('preceding') && !isRemoved) {
        isRemoved = true
        await storage.conversations.remove(conversation)
        return []
      }
      return await query.call(this, sql, values)
    } as typeof query)
    const tail = Array.fromAsync(storage.log.tail(conversation, 0, AbortSignal.timeout(60_000)))
    expect(await tail.finally(() => spy.mockRestore())).toEqual([])
    expect(isRemoved).toBe(true)
  })
})
