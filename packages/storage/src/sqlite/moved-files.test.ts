import { cpSync, mkdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openBashEvents } from './bash-events/bash-events.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'
import { Database } from './database/database.ts'
import { StorageHealth } from './database/storage-health.ts'
import { logMigrations } from './event-log/schema.ts'
import { openStorage, type SqliteStorage } from './storage.ts'
import { failWal } from './testing/fail-wal.ts'

/**
 * Files that are removed or replaced while they are open: nothing is acknowledged that the next start has
 * not.
 */

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const draft = { kind: 'PauseEvent', source: 'user' }
const refused = { code: 'unavailable', message: expect.stringMatching(/was removed or replaced/) }
const waiting = { timeout: 20_000, interval: 20 }
const files = ['log.db', 'log.db-wal', 'log.db-shm']

async function openWithEvents(directory: string, count = 3): Promise<SqliteStorage> {
  const storage = await openStorage({ directory })
  await storage.conversations.create({ id })
  for (let n = 0; n < count; n++) await storage.log.append(id, [draft])
  return storage
}

function bashEvent(n: number) {
  const command = { commandId: '1', conversationId: null, isLast: false, body: Buffer.from('{}') }
  return { ...command, instant: n, id: `${n}`, order: n }
}

function move(names: readonly string[], from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const name of names) renameSync(join(from, name), join(to, name))
}

test('without its files a log refuses writes, is not ready, and is read, until they are back', async () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const away = join(directory.path, 'away')
  {
    await using storage = await openWithEvents(data)
    move(files, data, away)
    expect(await storage.health.check()).toMatchObject(refused)
    await expect(storage.log.append(id, [draft])).rejects.toMatchObject(refused)
    expect(await storage.log.read(id, 0, 10)).toHaveLength(3)
    move(files, away, data)
    await expect.poll(() => storage.log.append(id, [draft]).catch(() => []), waiting).toHaveLength(1)
    expect(await storage.health.check()).toBeUndefined()
  }
  await using storage = await openStorage({ directory: data })
  expect(await storage.log.read(id, 0, 10)).toHaveLength(4)
})

test('the first append after the removal is refused, whatever is removed, and the next start says so', async () => {
  for (const names of [files, ['log.db']]) {
    using directory = temporaryDirectory()
    const data = join(directory.path, 'data')
    {
      await using storage = await openWithEvents(data)
      for (const name of names) rmSync(join(data, name))
      await expect(storage.log.append(id, [draft])).rejects.toMatchObject(refused)
    }
    await expect(openStorage({ directory: data })).rejects.toThrow(/log\.db is (missing|empty)/)
  }
})

test('a removed directory refuses writes', async () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  await using storage = await openWithEvents(data)
  rmSync(data, { recursive: true })
  await expect(storage.log.append(id, [draft])).rejects.toMatchObject(refused)
  await expect(storage.conversations.create({ id: 'other' })).rejects.toMatchObject(refused)
})

test.each(['log.db-wal', 'log.db-shm'])(
  'without its %s a log takes up writes again, and lacks none',
  async (name) => {
    using directory = temporaryDirectory()
    const data = directory.path
    {
      await using storage = await openWithEvents(data)
      rmSync(join(data, name))
      await expect(storage.log.append(id, [draft])).rejects.toMatchObject(refused)
      await expect.poll(() => storage.log.append(id, [draft]).catch(() => []), waiting).toHaveLength(1)
    }
    await using storage = await openStorage({ directory: data })
    const { length } = await storage.log.read(id, 0, 10)
    // The refused event may be there.
    expect(length).toBeGreaterThanOrEqual(4)
  },
)

test('an older log in the place of the open one is never taken for it', async () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const copy = join(directory.path, 'copy')
  await (await openWithEvents(data, 1))[Symbol.asyncDispose]()
  cpSync(data, copy, { recursive: true })
  await using storage = await openStorage({ directory: data })
  await storage.log.append(id, [draft])
  rmSync(join(data, 'log.db'))
  cpSync(join(copy, 'log.db'), join(data, 'log.db'))
  const problem = () => storage.health.check().then((problem) => problem?.message)
  await expect.poll(problem, waiting).toMatch(/older than what was acknowledged/)
  const codes: unknown[] = []
  const attempt = () =>
    storage.log.append(id, [draft]).then(
      () => 'stored',
      ({ code }) => code,
    )
  // Several attempts to recover are made meanwhile.
  await expect.poll(async () => codes.push(await attempt()), { ...waiting, interval: 50 }).toBe(30)
  expect(new Set(codes)).toEqual(new Set(['unavailable']))
})

test('the write-ahead log of another server at the path is never written', () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const away = join(directory.path, 'away')
  const path = join(data, 'log.db')
  const wal = `${path}-wal`
  const openData = () => {
    mkdirSync(data)
    return new Database(path, { synchronous: 'FULL', cacheBytes: 100_000, migrations: logMigrations })
  }
  const old = openData()
  renameSync(data, away)
  const other = openData()
  utimesSync(wal, 1, 1)
  expect(() => old.repair()).toThrow(/was removed or replaced/)
  old.close()
  expect(() => old.repair()).toThrow(/it is closed/)
  expect(statSync(wal).size).toBeGreaterThan(0)
  expect(statSync(wal).mtimeMs).toBe(1000)
  other.close()
})

test('the control plane and the commands follow the same rule', async () => {
  using directory = temporaryDirectory()
  const { path } = directory
  await using store = await openControlPlaneStore({ directory: path })
  const health = new StorageHealth(path, () => {})
  using commands = openBashEvents(join(path, 'bash.db'), health)
  const add = (n: number) => commands.add([bashEvent(n)])
  await store.documents.update('', 'a', () => Buffer.from('a'))
  add(1)
  for (const name of ['control.db', 'bash.db']) rmSync(join(path, name))
  await expect(store.documents.update('', 'a', () => Buffer.from('b'))).rejects.toMatchObject(refused)
  expect(() => add(2)).toThrow(/bash\.db was removed or replaced/)
  expect(await health.check()).toMatchObject(refused)
  await health.close()
})

test.each(['an empty', 'another'])(
  '%s file in the place of control.db is never taken for it',
  async (kind) => {
    using directory = temporaryDirectory()
    const { path } = directory
    const health = new StorageHealth(path, () => {})
    await using store = await openControlPlaneStore({ directory: path, health })
    const other = join(path, 'other')
    if (kind === 'an empty') writeFileSync(other, '')
    else {
      using db = new DatabaseSync(other)
      db.exec('CREATE TABLE note (text TEXT)')
    }
    renameSync(other, join(path, 'control.db'))
    const update = () => store.documents.update('', 'a', () => Buffer.from('a'))
    await expect(update()).rejects.toMatchObject(refused)
    const problem = () => health.check().then((problem) => problem?.message)
    await expect.poll(problem, waiting).toMatch(/no such table/)
    // Several attempts to recover are made meanwhile.
    for (let n = 0; n < 10; n++) {
      await pause(50)
      await expect(update()).rejects.toMatchObject({ code: 'unavailable' })
      expect(await health.check()).toMatchObject({ code: 'unavailable' })
    }
  },
)

test('in an exchanged directory the commands of another server are left alone', async () => {
  using directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const away = join(directory.path, 'away')
  const open = async () => {
    const storage = await openStorage({ directory: data })
    return { storage, commands: openBashEvents(join(data, 'bash.db'), storage.health) }
  }
  const close = async ({ storage, commands }: Awaited<ReturnType<typeof open>>) => {
    commands[Symbol.dispose]()
    await storage[Symbol.asyncDispose]()
  }
  await close(await open())
  const old = await open()
  cpSync(data, join(directory.path, 'copy'), { recursive: true })
  renameSync(data, away)
  renameSync(join(directory.path, 'copy'), data)
  const other = await open()
  expect(() => old.commands.add([bashEvent(1)])).toThrow(/was removed or replaced/)
  for (let n = 0; n < 10; n++) {
    await pause(50)
    expect(() => old.commands.add([bashEvent(1)])).toThrow(/cannot be|removed or replaced|in use|closed/)
  }
  other.commands.add([bashEvent(2)])
  expect([...other.commands.read({})].map(({ id }) => id)).toEqual(['2'])
  await close(other)
  await close(old)
})

test('while the write-ahead log fails, what is stored is read, and later it is written again', async () => {
  using directory = temporaryDirectory()
  {
    await using storage = await openWithEvents(directory.path)
    {
      using wal = failWal()
      await expect(storage.log.append(id, [draft])).rejects.toMatchObject({ code: 'unavailable' })
      // Several attempts to recover fail.
      for (const attempts of [4, 8, 12]) {
        await expect.poll(() => wal.failures, waiting).toBeGreaterThan(attempts)
        expect(await storage.log.read(id, 0, 10)).toHaveLength(3)
        expect(await storage.conversations.count()).toBe(1)
      }
      expect(await storage.health.check()).toMatchObject({ code: 'unavailable' })
    }
    await expect.poll(() => storage.log.append(id, [draft]).catch(() => []), waiting).toHaveLength(1)
  }
  await using storage = await openStorage({ directory: directory.path })
  expect(await storage.log.read(id, 0, 10)).toHaveLength(4)
})
