import { closeSync, openSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { receivedEvent } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'
import { WalFile } from './database/wal/wal-file.ts'
import { verifyLog } from './maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from './storage.ts'

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const other = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const waiting = { timeout: 20_000, interval: 20 }
const refused = { code: 'unavailable', retryAfterSeconds: expect.any(Number) }
const query = { sort_order: 'TIMESTAMP', limit: 100 } as const
const message = (name: string, text = `text of ${name}`) =>
  receivedEvent(name, 1_000, { kind: 'MessageEvent', text })

/** What each way to read the log sees. */
async function observe({ log, conversations, deliveries }: SqliteStorage) {
  const [record, made] = await conversations.get([id, other])
  const ids = async (page: ReturnType<typeof log.search>) => (await page).items.length
  return {
    head: record?.head,
    title: record?.title,
    isMade: made !== undefined,
    conversations: await conversations.count(),
    read: (await log.read(id, 0, 100)).length,
    page: await ids(log.search(id, query)),
    filtered: await ids(log.search(id, { ...query, kind: 'MessageEvent' })),
    searched: await ids(log.search(id, { ...query, body: 'text of' })),
    count: await log.count(id, {}),
    got: (await log.get(id, ['a', 'b'])).map((event) => event?.position),
    bytes: await conversations.sumBytes(),
    pending: (await deliveries.listPending('r', 10)).map(({ position }) => position),
  }
}

async function openWithOne(directory: string): Promise<SqliteStorage> {
  const storage = await openStorage({ directory })
  await storage.conversations.create({ id })
  await storage.log.append(id, [message('a')])
  await storage.deliveries.listPending('r', 10)
  return storage
}

/** The next sync of a write-ahead log resolves, or fails, when the test says so. */
function holdNextSync() {
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const spy = vi.spyOn(WalFile.prototype, 'sync').mockImplementationOnce(() => {
    begun.resolve()
    return end.promise
  })
  return { begun: begun.promise, end, [Symbol.dispose]: () => spy.mockRestore() }
}

const ioError = () => Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' })

test('what is not synced yet is neither acknowledged nor seen, and later changes wait for it', async () => {
  using directory = temporaryDirectory()
  await using storage = await openWithOne(directory.path)
  const before = await observe(storage)
  const tail = storage.log.tail(id, 1, AbortSignal.timeout(30_000))
  const following = tail.next()
  using sync = holdNextSync()
  const settled: string[] = []
  const note = (name: string) => () => void settled.push(name)
  const changes = [
    storage.log.append(id, [message('b')]).then(note('append')),
    storage.conversations.patch(id, { title: 'new' }).then(note('patch')),
    storage.conversations.create({ id: other }).then(note('create')),
  ]
  await sync.begun
  changes.push(storage.log.append(id, [message('c')]).then(note('later')))
  for (let round = 0; round < 3; round++) expect(await observe(storage)).toEqual(before)
  expect(settled).toEqual([])
  sync.end.resolve()
  await Promise.all(changes)
  expect(settled.at(-1)).toBe('later')
  expect((await following).value?.[0]?.position).toBe(2)
  await tail.return(undefined)
  expect(await observe(storage)).toMatchObject({
    head: 3,
    title: 'new',
    isMade: true,
    conversations: 2,
    read: 3,
    page: 3,
    filtered: 3,
    searched: 3,
    count: 3,
    got: [1, 2],
  })
})

test.each([
  ['is on the disk all the same', false],
  ['is lost', true],
])(
  'a commit whose sync fails is refused and not seen, and what follows is right where it %s',
  async (_, isLost) => {
    using directory = temporaryDirectory()
    const wal = join(directory.path, 'log.db-wal')
    {
      await using storage = await openWithOne(directory.path)
      await storage.waitUntilIndexed()
      const before = await observe(storage)
      storage.releaseMemory()
      const { size } = statSync(wal)
      using sync = holdNextSync()
      const failed = storage.log.append(id, [message('b', 'text of the refused one')])
      await sync.begun
      // A thread that begins now has indexed what is committed.
      await storage.waitUntilIndexed()
      if (isLost) {
        const fd = openSync(wal, 'r+')
        writeSync(fd, Buffer.alloc(statSync(wal).size - size), 0, null, size)
        closeSync(fd)
      }
      sync.end.reject(ioError())
      await expect(failed).rejects.toMatchObject(refused)
      expect(await observe(storage)).toEqual(before)
      await expect(storage.log.append(id, [message('c')])).rejects.toMatchObject(refused)
      expect(await storage.health.check()).toMatchObject({ code: 'unavailable' })
      await expect.poll(() => storage.health.check(), waiting).toBeUndefined()
      expect((await storage.log.read(id, 0, 10)).length).toBe(isLost ? 1 : 2)
      const [again] = await storage.log.append(id, [
        message('b', isLost ? 'text of it' : 'text of the refused one'),
      ])
      expect(again?.position).toBe(2)
      await storage.log.append(id, [message('c')])
      expect(await observe(storage)).toMatchObject({ read: 3, filtered: 3, searched: 3, count: 3 })
    }
    expect(verifyLog(join(directory.path, 'log.db'), { isThorough: true })).toMatchObject({
      events: 3,
      damaged: [],
      records: [],
      problems: [],
    })
  },
)

test('closed after a failed sync, the next start takes what has the right checksums', async () => {
  using directory = temporaryDirectory()
  {
    await using storage = await openWithOne(directory.path)
    using sync = holdNextSync()
    const failed = storage.log.append(id, [message('b')])
    await sync.begun
    sync.end.reject(ioError())
    await expect(failed).rejects.toMatchObject(refused)
  }
  await using storage = await openStorage({ directory: directory.path })
  expect([1, 2]).toContain((await storage.log.read(id, 0, 10)).length)
  await storage.log.append(id, [message('c')])
})

test('the control plane follows the same rule', async () => {
  using directory = temporaryDirectory()
  await using store = await openControlPlaneStore({ directory: directory.path })
  const { documents } = store
  const write = (text: string) => documents.update('u', 'd', () => Buffer.from(text))
  const read = async () => (await documents.get('u', 'd'))?.toString()
  await write('first')
  using sync = holdNextSync()
  const second = write('second')
  await sync.begun
  expect(await read()).toBe('first')
  sync.end.reject(ioError())
  await expect(second).rejects.toMatchObject(refused)
  expect(await read()).toBe('first')
  await expect.poll(() => write('third').then(read, () => undefined), waiting).toBe('third')
})

test('the write-ahead log is moved into the database by a thread, and begins again', async () => {
  using directory = temporaryDirectory()
  await using storage = await openWithOne(directory.path)
  const text = 'a long text '.repeat(90_000)
  for (let n = 0; n < 30; n++) await storage.log.append(id, [message(`long ${n}`, text)])
  expect(statSync(join(directory.path, 'log.db-wal')).size).toBeLessThan(20_000_000)
  expect(statSync(join(directory.path, 'log.db')).size).toBeGreaterThan(16_000_000)
  expect(await storage.log.count(id, {})).toBe(31)
})
