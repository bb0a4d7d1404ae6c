import { join } from 'node:path'
import { expect, test } from 'vitest'
import { pageBytes } from '../../event-log/page-bytes.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { openStorage } from '../storage.ts'
import { logMigrations } from './schema.ts'

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const texts = ['plain', '"quoted", and \\ back', 'Grüße, 你好 👋', '\u0000 zero \u2028', '']

test('pages of both directions have the stored bytes of their events, whatever their limit', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id })
  for (let n = 0; n < 20; n++)
    await storage.log.append(id, [
      { kind: 'MessageEvent', source: 'user', members: { text: texts[n % 5], n } },
    ])
  const stored = await storage.log.read(id, 0, 100)
  for (const sort_order of ['TIMESTAMP', 'TIMESTAMP_DESC'] as const) {
    const expected = sort_order === 'TIMESTAMP' ? stored : stored.toReversed()
    for (const limit of [1, 2, 3, 7, 19, 20, 21, 100]) {
      const items = []
      for (let page_id: string | undefined; ; ) {
        const page = await storage.log.search(id, { limit, sort_order, page_id })
        const text = pageBytes(page).bytes.toString()
        const bodies = page.items.map(({ bytes }) => bytes.toString()).join(',')
        expect(text).toBe(`{"items":[${bodies}],"next_page_id":${JSON.stringify(page.next_page_id)}}`)
        items.push(...page.items)
        if (page.next_page_id === null) break
        expect(page.items).toHaveLength(limit)
        page_id = page.next_page_id
      }
      expect(items).toEqual(expected.map(({ position, bytes }) => ({ position, bytes })))
    }
  }
})

test.each([
  [
    'a byte moved to the event before',
    "UPDATE event SET body = CAST(body || x'20' AS BLOB) WHERE row = @row - 1",
    -1,
  ],
  ['another text', "UPDATE event SET body = CAST('{}' AS BLOB) WHERE row = @row", 0],
  ['another id', "UPDATE event SET id = 'x' || id WHERE row = @row", 0],
])('a changed event names its position: %s', async (_, sql, offset) => {
  using directory = temporaryDirectory()
  const storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id })
  for (let n = 0; n < 9; n++)
    await storage.log.append(id, [{ kind: 'MessageEvent', source: 'user', members: { n } }])
  await storage[Symbol.asyncDispose]()
  const path = join(directory.path, 'log.db')
  const db = new Database(path, { synchronous: 'FULL', cacheBytes: 1_000_000, migrations: logMigrations })
  const [row = 0] = db.get<[number]>('SELECT row FROM event ORDER BY row LIMIT 1 OFFSET 4') ?? []
  db.run(sql.replace('@row', String(row)))
  db.close()
  await using damaged = await openStorage({ directory: directory.path })
  for (const sort_order of ['TIMESTAMP', 'TIMESTAMP_DESC'] as const)
    await expect(damaged.log.search(id, { limit: 8, sort_order })).rejects.toThrow(
      `Event ${5 + offset} of conversation ${id} does not match its checksum`,
    )
})
