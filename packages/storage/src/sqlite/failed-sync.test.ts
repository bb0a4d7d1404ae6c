import { closeSync, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { receivedEvent } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'
import { Database } from './database/database.ts'
import { StorageHealth } from './database/storage-health.ts'
import { SyncPace } from './database/wal/sync-pace.ts'
import { WalFile } from './database/wal/wal-file.ts'
import { verifyLog } from './maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from './storage.ts'
import { loseNextCommit } from './testing/lose-next-commit.ts'

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const other = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const waiting = { timeout: 20_000, interval: 20 }
const lostMessage = expect.stringContaining('lost what was acknowledged')
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

/** The next sync of a write-ahead log, on a slow disk, resolves, or fails, when the test says so. */
function holdNextSync() {
  const pace = vi.spyOn(SyncPace.prototype, 'isFast', 'get').mockReturnValue(false)
  const begun = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const spy = vi.spyOn(WalFile.prototype, 'sync').mockImplementationOnce(() => {
    begun.resolve()
    return end.promise
  })
  return {
    begun: begun.promise,
    end,
    [Symbol.dispose]() {
      end.resolve()
      spy.mockRestore()
      pace.mockRestore()
    },
  }
}

/** What follows a failure waits until the test says so. */
function holdRecovery() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { settled } = Database.prototype
  const spy = vi.spyOn(Database.prototype, 'settled').mockImplementation(async function (this: Database) {
    await promise
    await settled.call(this)
  })
  return {
    end: resolve,
    [Symbol.dispose]() {
      resolve()
      spy.mockRestore()
    },
  }
}

/** The sync of a change fails. @param meanwhile runs between its commit and its sync. */
async function failSync(
  write: () => Promise<unknown>,
  meanwhile: () => Promise<void> | void = () => {},
): Promise<void> {
  using sync = holdNextSync()
  const failed = write()
  await sync.begun
  await meanwhile()
  sync.end.reject(ioError())
  await expect(failed).rejects.toMatchObject(refused)
}

const pageBytes = 4_096
/** Of the header of a frame; readers do not look at it. */
const checksumBytes = 8

/** What was written after that size is lost. */
function loseAfter(wal: string, size: number): void {
  const fd = openSync(wal, 'r+')
  writeSync(fd, Buffer.alloc(statSync(wal).size - size), 0, null, size)
  closeSync(fd)
}

/** The frame that ends at that size has a checksum that is wrong. */
function damageFrame(wal: string, end: number): void {
  const fd = openSync(wal, 'r+')
  writeSync(fd, Buffer.alloc(checksumBytes, 0xa5), 0, null, end - pageBytes - checksumBytes)
  closeSync(fd)
}

function readIndexedPosition(directory: string): unknown {
  using index = new DatabaseSync(join(directory, 'index.db'), { readOnly: true })
  return index.prepare('SELECT upto FROM indexed').get()?.upto
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
      using recovery = holdRecovery()
      const failed = storage.log.append(id, [message('b', 'text of the refused one')])
      await sync.begun
      if (isLost) loseAfter(wal, size)
      sync.end.reject(ioError())
      await expect(failed).rejects.toMatchObject(refused)
      expect(await observe(storage)).toEqual(before)
      await expect(storage.log.append(id, [message('c')])).rejects.toMatchObject(refused)
      expect(await storage.health.check()).toMatchObject({ code: 'unavailable' })
      recovery.end()
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

test('a log that lacks what was acknowledged stays as it is after a failed sync, and is only read', async () => {
  using directory = temporaryDirectory()
  const wal = join(directory.path, 'log.db-wal')
  const storage = await openWithOne(directory.path)
  const { size } = statSync(wal)
  await failSync(
    () => storage.log.append(id, [message('b')]),
    () => damageFrame(wal, size),
  )
  const bytes = readFileSync(wal)
  await expect.poll(() => storage.health.check(), waiting).toMatchObject({ message: lostMessage })
  await expect(storage.log.append(id, [message('c')])).rejects.toMatchObject({ message: lostMessage })
  expect((await storage.log.read(id, 0, 10)).length).toBe(1)
  await storage[Symbol.asyncDispose]()
  expect(readFileSync(wal).equals(bytes)).toBe(true)
})

test('so does the control plane', async () => {
  using directory = temporaryDirectory()
  const wal = join(directory.path, 'control.db-wal')
  const health = new StorageHealth(directory.path, () => {})
  const { documents, ...store } = await openControlPlaneStore({ directory: directory.path, health })
  const write = (text: string) => documents.update('u', 'd', () => Buffer.from(text))
  await write('first')
  const { size } = statSync(wal)
  await failSync(
    () => write('second'),
    () => damageFrame(wal, size),
  )
  const bytes = readFileSync(wal)
  await expect.poll(() => health.check(), waiting).toMatchObject({ message: lostMessage })
  expect((await documents.get('u', 'd'))?.toString()).toBe('first')
  await store[Symbol.asyncDispose]()
  expect(readFileSync(wal).equals(bytes)).toBe(true)
})

test('the index of the write-ahead log that another process keeps is not taken', async () => {
  using directory = temporaryDirectory()
  const [path, wal] = [join(directory.path, 'log.db'), join(directory.path, 'log.db-wal')]
  {
    await using storage = await openWithOne(directory.path)
    const other = new DatabaseSync(path, { readOnly: true })
    other.prepare('SELECT count(*) FROM event').get()
    const { size } = statSync(wal)
    await failSync(
      () => storage.log.append(id, [message('b')]),
      () => loseAfter(wal, size),
    )
    const locked = { message: expect.stringContaining('another process holds a lock') }
    await expect.poll(() => storage.health.check(), waiting).toMatchObject(locked)
    await expect(storage.log.append(id, [message('b')])).rejects.toMatchObject(refused)
    other.close()
    await expect.poll(() => storage.health.check(), waiting).toBeUndefined()
    expect((await storage.log.read(id, 0, 10)).length).toBe(1)
    const [again] = await storage.log.append(id, [message('b', 'another text')])
    expect(again?.position).toBe(2)
  }
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ events: 2, damaged: [], problems: [] })
})

test('a kind whose first event was refused and is stored is known after the recovery', async () => {
  using directory = temporaryDirectory()
  await using storage = await openWithOne(directory.path)
  const event = (name: string) => receivedEvent(name, 1_000, { kind: 'NewEvent' })
  const count = async () => (await storage.log.search(id, { ...query, kind: 'NewEvent' })).items.length
  using recovery = holdRecovery()
  await failSync(() => storage.log.append(id, [event('b')]))
  expect(await count()).toBe(0)
  recovery.end()
  await expect.poll(() => storage.health.check(), waiting).toBeUndefined()
  await Promise.all([
    storage.log.append(id, [event('c')]),
    storage.conversations.patch(id, { title: 'of the same group' }),
  ])
  expect(await count()).toBe(2)
})

test('indexes are compared with their events also while a sync has failed', async () => {
  using directory = temporaryDirectory()
  await (await openWithOne(directory.path))[Symbol.asyncDispose]()
  await using storage = await openStorage({ directory: directory.path })
  using recovery = holdRecovery()
  await failSync(() => storage.conversations.patch(id, { title: 'refused' }))
  expect((await storage.log.search(id, { ...query, kind: 'MessageEvent' })).items).toHaveLength(1)
  expect(await storage.health.check()).toMatchObject(refused)
  recovery.end()
})

test('a search that has no answer yet when the recovery begins gets one after it', async () => {
  using directory = temporaryDirectory()
  await using storage = await openWithOne(directory.path)
  using recovery = holdRecovery()
  await failSync(() => storage.log.append(id, [message('b')]))
  const searches = Array.from({ length: 20 }, () => storage.log.search(id, { ...query, body: 'text of' }))
  recovery.end()
  for (const page of await Promise.all(searches)) expect(page.items.length).toBeGreaterThan(0)
  await expect.poll(() => storage.health.check(), waiting).toBeUndefined()
})

test('a text is indexed when its event is durable', async () => {
  using directory = temporaryDirectory()
  await using storage = await openWithOne(directory.path)
  await storage.waitUntilIndexed()
  const search = () => storage.log.search(id, { ...query, body: 'text of' })
  await search()
  storage.releaseMemory()
  using sync = holdNextSync()
  const appended = storage.log.append(id, [message('b')])
  await sync.begun
  // A thread that begins now reads what is committed.
  const indexing = storage.waitUntilIndexed()
  for (let turn = 0; turn < 10; turn++) expect((await search()).items).toHaveLength(1)
  expect(readIndexedPosition(directory.path)).toBe(1)
  sync.end.resolve()
  await appended
  await indexing
  await storage.waitUntilIndexed()
  expect(readIndexedPosition(directory.path)).toBe(2)
})

test('a text whose event is lost is not found after the next start', async () => {
  using directory = temporaryDirectory()
  const wal = join(directory.path, 'log.db-wal')
  {
    await using storage = await openWithOne(directory.path)
    await storage.waitUntilIndexed()
    const { size } = statSync(wal)
    await failSync(
      () => storage.log.append(id, [message('b', 'the lost one')]),
      async () => {
        await storage.log.search(id, { ...query, body: 'text of' })
        loseAfter(wal, size)
      },
    )
  }
  await using storage = await openStorage({ directory: directory.path })
  await storage.log.append(id, [message('b', 'the stored one')])
  const find = async (body: string) => (await storage.log.search(id, { ...query, body })).items.length
  expect([await find('stored'), await find('lost')]).toEqual([1, 0])
})

test('the control plane follows the same rule', async () => {
  using directory = temporaryDirectory()
  await using store = await openControlPlaneStore({ directory: directory.path })
  const { documents } = store
  const write = (text: string) => documents.update('u', 'd', () => Buffer.from(text))
  const read = async () => (await documents.get('u', 'd'))?.toString()
  await write('first')
  using sync = holdNextSync()
  using recovery = holdRecovery()
  const second = write('second')
  await sync.begun
  expect(await read()).toBe('first')
  sync.end.reject(ioError())
  await expect(second).rejects.toMatchObject(refused)
  expect(await read()).toBe('first')
  recovery.end()
  await expect.poll(() => write('third').then(read, () => undefined), waiting).toBe('third')
})

test('commits are synced at once while syncs are fast, and by another thread after one that failed', async () => {
  using directory = temporaryDirectory()
  using syncs = vi.spyOn(WalFile.prototype, 'sync')
  // Each sync takes no time.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  await using storage = await openWithOne(directory.path)
  const append = async (name: string) => (await storage.log.append(id, [message(name)]))[0]?.position
  for (let n = 0; n < 40; n++) await append(`n${n}`)
  {
    using _ = loseNextCommit()
    await expect(append('refused')).rejects.toMatchObject(refused)
  }
  clock.mockRestore()
  expect(syncs).not.toHaveBeenCalled()
  await expect.poll(() => storage.health.check(), waiting).toBeUndefined()
  expect(await append('refused')).toBe(42)
  expect(await append('last')).toBe(43)
  expect(syncs).toHaveBeenCalledTimes(2)
})

test('a disk that is slow when the log is opened is not on the event loop', async () => {
  using directory = temporaryDirectory()
  let nowMs = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1_000))
  await using storage = await openStorage({ directory: directory.path })
  clock.mockRestore()
  using syncs = vi.spyOn(WalFile.prototype, 'sync')
  await storage.conversations.create({ id })
  expect(syncs).toHaveBeenCalledTimes(1)
})

test('frames that were synced at once count as acknowledged when a later sync fails', async () => {
  using directory = temporaryDirectory()
  const wal = join(directory.path, 'log.db-wal')
  const storage = await openWithOne(directory.path)
  const syncing = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  for (let n = 0; n < 40; n++) await storage.log.append(id, [message(`n${n}`)])
  const { size } = statSync(wal)
  let nowMs = performance.now()
  // The next sync is slow: the one after it is not on the event loop.
  syncing.mockImplementation(() => (nowMs += 1_000))
  await storage.conversations.patch(id, { title: 'slow' })
  syncing.mockRestore()
  await failSync(
    () => storage.log.append(id, [message('b')]),
    () => damageFrame(wal, size),
  )
  await expect.poll(() => storage.health.check(), waiting).toMatchObject({ message: lostMessage })
  expect((await storage.log.read(id, 0, 100)).length).toBe(41)
  await storage[Symbol.asyncDispose]()
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
