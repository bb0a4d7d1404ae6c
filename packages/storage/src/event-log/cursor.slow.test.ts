import { parseCursor } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openStorage, type SqliteStorage } from '../sqlite/storage.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { checkCursor, cursorAt, encodeCursor } from './cursor.ts'

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'

async function check(storage: SqliteStorage, text: string) {
  const [record] = await storage.conversations.get([id])
  const cursor = parseCursor(text)
  if (record === undefined || cursor === undefined) throw new Error('not there')
  return await checkCursor(storage.log, record, cursor)
}

test('a cursor is valid in every log that begins with the same events, and in no other', async () => {
  const size = fc.integer({ min: 0, max: 12 })
  await fc.assert(
    fc.asyncProperty(size, size, size, async (common, ours, theirs) => {
      using oursDirectory = temporaryDirectory()
      using theirsDirectory = temporaryDirectory()
      await using one = await openStorage({ directory: oursDirectory.path })
      await using other = await openStorage({ directory: theirsDirectory.path })
      const append = async (storage: SqliteStorage, count: number) => {
        for (let n = 0; n < count; n++) await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
      }
      for (const storage of [one, other]) await storage.conversations.create({ id })
      await append(one, common)
      const same = await one.log.read(id, 0, common)
      const received = same.map(({ bytes, id, instant }) => ({
        bytes,
        id,
        instant,
        kind: 'PauseEvent',
        source: 'user',
      }))
      if (common > 0) await other.log.append(id, received)
      await append(one, ours)
      await append(other, theirs)
      for (const event of await one.log.read(id, 0, 100)) {
        const cursor = encodeCursor(event)
        expect(await cursorAt(one.log, id, event.position)).toBe(cursor)
        expect(await check(one, cursor)).toBeUndefined()
        const resync = await check(other, cursor)
        const expected = { after: 0, head: common + theirs, cursor }
        if (event.position <= common) expect(resync).toBeUndefined()
        else expect(resync).toMatchObject(expected)
        // A bare position names no history.
        expect(await check(other, String(event.position))).toBeUndefined()
      }
    }),
    { numRuns: 15 },
  )
})

test.each(['0', '7', '41.9f3c01ab', '999999999999999.00000000'])('%s is a cursor', (text) => {
  expect(parseCursor(text)).toMatchObject({ position: Number(text.split('.')[0]) })
})

test.each(['', '-1', '+1', '1.5', '1.9F3C01AB', '1.9f3c01abc', 'x', '1 ', '9999999999999999'])(
  '%j is no cursor',
  (text) => {
    expect(parseCursor(text)).toBeUndefined()
  },
)
