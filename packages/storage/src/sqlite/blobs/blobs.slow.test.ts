import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import type { EventDraft } from '../../event-log/event-log.ts'
import { pageBytes } from '../../event-log/page-bytes.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { finishRestore, mergeIncrement, writeFullBackup, writeIncrement } from '../maintenance/log-backup.ts'
import { repairLog } from '../maintenance/repair-log.ts'
import { verifyLog } from '../maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from '../storage.ts'

const mib = 1024 ** 2

function picture(bytes: number): string {
  return `data:image/png;base64,${randomBytes(bytes).toString('base64')}`
}

function message(text: string, ...image_urls: readonly string[]): EventDraft {
  const content = [
    { type: 'text', text },
    { type: 'image', image_urls },
  ]
  return { kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content } }
}

async function copy(storage: SqliteStorage, from: string, to: string): Promise<void> {
  await storage.conversations.create({ id: to })
  for (const { id, bytes, instant } of await storage.log.read(from, 0, 1_000)) {
    const { kind, source } = JSON.parse(bytes.toString())
    await storage.log.append(to, [{ id, bytes, instant, kind, source }])
  }
}

function readNumbers(path: string) {
  using db = new DatabaseSync(path, { readOnly: true })
  const number = (sql: string) => Object.values(db.prepare(sql).get() ?? {})[0]
  return {
    blobs: number('SELECT count(*) FROM blob'),
    uses: number('SELECT count(*) FROM event_blob'),
    bytes: number('SELECT coalesce(sum(length(bytes)), 0) FROM blob'),
  }
}

test('a picture is stored once, however many events and conversations have it', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  const image = picture(200_000)
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id: 'one' })
  for (let n = 0; n < 4; n++) await storage.log.append('one', [message(`needle ${n}`, image)])
  await storage.log.append('one', [message('two of them', image, picture(20_000), image)])
  for (const fork of ['two', 'three', 'four']) await copy(storage, 'one', fork)
  expect(readNumbers(path)).toEqual({ blobs: 2, uses: 24, bytes: 220_000 })

  const [whole, ...forks] = await Promise.all(
    ['one', 'two', 'three', 'four'].map((id) => storage.log.read(id, 0, 100)),
  )
  for (const fork of forks) expect(fork).toEqual(whole)
  const urls = JSON.parse(whole?.[4]?.bytes.toString() ?? '').llm_message.content[1].image_urls
  expect([urls[0] === image, urls[2] === image, urls.length]).toEqual([true, true, 3])
  const page = await storage.log.search('two', { limit: 100, sort_order: 'TIMESTAMP' })
  expect(JSON.parse(pageBytes(page).bytes.toString()).items).toEqual(
    whole?.map(({ bytes }) => JSON.parse(bytes.toString())),
  )
  expect((await storage.log.get('three', [whole?.[0]?.id ?? '']))[0]).toEqual(whole?.[0])
  await storage.waitUntilIndexed()
  expect(await storage.log.count('four', { body: 'needle' })).toBe(4)
  // An id that is stored already is compared with all bytes.
  const [first] = whole ?? []
  if (first === undefined) throw new Error('there is no event')
  const again = { ...first, kind: 'MessageEvent', source: 'user' }
  expect(await storage.log.append('one', [again])).toEqual([first])
  const other = Buffer.from(first.bytes.toString().replace('needle', 'noodle'))
  await expect(storage.log.append('one', [{ ...again, bytes: other }])).rejects.toMatchObject({
    code: 'conflict',
  })
})

test('the last conversation that has a picture takes it along, and its space', {
  timeout: 120_000,
}, async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id: 'one' })
  const image = picture(8 * mib)
  await storage.log.append('one', [message('large', image)])
  await storage.log.append('one', [message('own', picture(8 * mib))])
  await storage.conversations.create({ id: 'two' })
  await storage.log.append('two', [message('large', image)])
  const waitFor = async (expected: object, below: number) =>
    await vi.waitFor(
      () => {
        expect(readNumbers(path)).toMatchObject(expected)
        expect(statSync(path).size).toBeLessThan(below)
      },
      // The file shrinks while no one reads it.
      { timeout: 60_000, interval: 500 },
    )
  await storage.conversations.remove('one')
  await waitFor({ blobs: 1, uses: 1 }, 12 * mib)
  expect((await storage.log.read('two', 0, 10))[0]?.bytes.includes(image)).toBe(true)
  await storage.conversations.remove('two')
  await waitFor({ blobs: 0, uses: 0 }, mib)
})

test('a damaged picture is noticed, set aside by a repair, and never used again', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  const image = picture(100_000)
  {
    await using storage = await openStorage({ directory: directory.path })
    await storage.conversations.create({ id: 'one' })
    await storage.log.append('one', [message('before'), message('damaged', image), message('behind')])
  }
  {
    using db = new DatabaseSync(path)
    db.exec('UPDATE blob SET bytes = CAST(substr(bytes, 1, 50000) || zeroblob(50000) AS BLOB)')
  }
  {
    await using storage = await openStorage({ directory: directory.path })
    await expect(storage.log.read('one', 0, 10)).rejects.toThrow(/position 2|event 2/i)
    // The same picture is written beside the damaged one.
    await storage.conversations.create({ id: 'two' })
    await storage.log.append('two', [message('whole', image)])
    expect((await storage.log.read('two', 0, 10))[0]?.bytes.includes(image)).toBe(true)
  }
  expect(verifyLog(path).damaged).toEqual([
    { conversation: 'one', position: 2, reason: 'does not match its checksum' },
  ])
  expect(repairLog(path, join(directory.path, 'damaged')).damaged).toHaveLength(1)
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ events: 4, damaged: [], problems: [] })
  expect(readNumbers(path)).toMatchObject({ blobs: 1, uses: 1 })
})

test('increments of a backup have the pictures of their events, and a restore has what the log has', async () => {
  using directory = temporaryDirectory()
  const at = (name: string) => join(directory.path, name)
  const [image, late] = [picture(300_000), picture(200_000)]
  await using storage = await openStorage({ directory: at('data') })
  const source = at('data/log.db')
  const without = { isWithoutSecrets: false }
  for (const id of ['gone', 'kept']) await storage.conversations.create({ id })
  await storage.log.append('gone', [message('first', image, picture(50_000))])
  writeFullBackup({ source, target: at('0'), ...without })
  await storage.log.append('kept', [message('the same', image)])
  writeIncrement({ source, target: at('1'), previous: at('0'), ...without })
  await storage.conversations.remove('gone')
  await storage.log.append('kept', [message('later', late)])
  writeIncrement({ source, target: at('2'), previous: at('1'), ...without })
  await storage.log.append('kept', [message('no picture')])
  writeIncrement({ source, target: at('3'), previous: at('2'), ...without })
  expect(['1', '2', '3'].map((name) => readNumbers(at(name)).bytes)).toEqual([300_000, 200_000, 0])
  for (const step of ['1', '2', '3']) mergeIncrement(at('0'), at(step))
  finishRestore(at('0'))
  expect(verifyLog(at('0'), { isThorough: true })).toMatchObject({ events: 3, damaged: [], problems: [] })
  expect(readNumbers(at('0'))).toEqual({ blobs: 2, uses: 2, bytes: 500_000 })
})
