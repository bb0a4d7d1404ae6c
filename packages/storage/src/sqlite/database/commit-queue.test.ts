import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { storageUnavailableProblem } from '@slipway/protocol'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { EventRows } from '../event-log/event-rows.ts'
import { KindSourceIndex } from '../event-log/kind-source-index.ts'
import { LogHeads } from '../event-log/log-heads.ts'
import { logMigrations } from '../event-log/schema.ts'
import { CommitQueue } from './commit-queue.ts'
import { Database } from './database.ts'
import { toStorageProblem } from './storage-failure.ts'
import { recoverDatabase, StorageHealth } from './storage-health.ts'
import { SyncPace } from './wal/sync-pace.ts'
import { WalFile } from './wal/wal-file.ts'

const waiting = { timeout: 60_000, interval: 20 }

test('changes of one turn share a transaction, and each resolves after it', async () => {
  using store = openDatabase()
  const seen: boolean[] = []
  const writes = [1, 2, 3].map((n) =>
    store.writer.write(() => ({
      apply: () => store.db.run('INSERT INTO facet VALUES (?, ?, ?)', n, 'k', String(n)),
      done: () => {
        seen.push(store.other.get<[number]>('SELECT count(*) FROM facet')?.[0] === 3)
        return n
      },
    })),
  )
  expect(store.db.get('SELECT count(*) FROM facet')).toEqual([0])
  expect(await Promise.all(writes)).toEqual([1, 2, 3])
  expect(seen).toEqual([true, true, true])
})

test('a plan that throws rejects alone', async () => {
  using store = openDatabase()
  const refused = store.writer.write(() => {
    throw new Error('refused')
  })
  const stored = store.append('a')
  await expect(refused).rejects.toThrow('refused')
  expect(await stored).toBe(1)
})

test('a change that fails after the commit rejects alone, and is stored', async () => {
  using store = openDatabase()
  const insert = (n: number) => () => store.db.run('INSERT INTO facet VALUES (?, ?, ?)', n, 'k', String(n))
  const failed = store.writer.write(() => ({
    apply: insert(1),
    done: () => {
      throw storageUnavailableProblem('The file cannot be read')
    },
  }))
  const stored = store.writer.write(() => ({ apply: insert(2), done: () => 'answer' }))
  await expect(failed).rejects.toMatchObject({ code: 'unavailable' })
  expect(await stored).toBe('answer')
  expect(store.db.get('SELECT count(*) FROM facet')).toEqual([2])
})

test('a group is rejected also when what memory needs again cannot be read, which is read later', async () => {
  using store = openDatabase()
  await store.append('a')
  const lost = store.writer.write(() => ({
    apply: () => {
      store.kindSources.getNumber('lost', 'user')
      store.db.close()
    },
  }))
  await expect(lost).rejects.toMatchObject({ code: 'unavailable' })
  expect(() => store.kindSources.matching('lost', undefined)).toThrow('it is closed')
  store.db.reopen()
  expect(store.kindSources.matching('lost', undefined)).toEqual([])
  expect(store.kindSources.matching('a', undefined)).toHaveLength(1)
})

test('a full disk rejects the whole group, which is rolled back, and later writes that fit succeed', async () => {
  using store = openDatabase()
  await store.append('a')
  const pages = Number(store.db.pragma('page_count'))
  store.db.pragma(`max_page_count = ${pages + 2}`)
  const group = [store.append('b'), store.append('c', 100_000), store.append('d')]
  const outcomes = await Promise.allSettled(group)
  for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: 'storage_full' } })
  expect(store.db.all('SELECT id FROM event ORDER BY row')).toEqual([['a']])
  expect(store.heads.get('x').head).toBe(1)
  store.db.pragma('max_page_count = 100000')
  expect(await store.append('e')).toBe(2)
  expect(store.db.all('SELECT kind FROM facet ORDER BY kind')).toEqual([['a'], ['e']])
})

test('after an I/O error writes are refused until the file takes them again', async () => {
  using store = openDatabase()
  await store.append('a')
  store.fail('begin')
  const group = [store.append('b'), store.append('c')]
  for (const write of group)
    await expect(write).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: expect.any(Number) })
  await expect(store.append('d')).rejects.toMatchObject({ code: 'unavailable' })
  expect(await store.health.check()).toMatchObject({ code: 'unavailable' })
  store.fail('end')
  await expect.poll(() => store.append('e').catch(() => 0), waiting).toBe(2)
  expect(store.db.all('SELECT id FROM event ORDER BY row')).toEqual([['a'], ['e']])
  expect(await store.health.check()).toBeUndefined()
})

test('a lock of another process delays writes and reads continue', async () => {
  using store = openDatabase()
  await store.append('a')
  using foreign = new DatabaseSync(store.db.path)
  foreign.exec('BEGIN IMMEDIATE')
  const write = store.append('b')
  let turns = 0
  while (turns < 20) {
    await nextTurn()
    turns += 1
    expect(store.heads.get('x').head).toBe(1)
  }
  foreign.exec('ROLLBACK')
  expect(await write).toBe(2)
})

test('a lock that is held for long refuses writes, and they continue after it', async () => {
  using store = openDatabase()
  using foreign = new DatabaseSync(store.db.path)
  foreign.exec('BEGIN IMMEDIATE')
  await expect(store.append('a')).rejects.toMatchObject({ code: 'unavailable' })
  expect(await store.health.check()).toMatchObject({ message: expect.stringContaining('lock') })
  foreign.exec('ROLLBACK')
  await expect.poll(() => store.health.check(), waiting).toBeUndefined()
  expect(await store.append('b')).toBe(1)
}, 60_000)

test('a head that is evicted during a transaction keeps its extent', async () => {
  using store = openDatabase(1)
  const group = [store.append('a'), store.append('b', 1, 'y'), store.append('c'), store.append('d', 1, 'y')]
  expect(await Promise.all(group)).toEqual([1, 1, 2, 2])
  expect(store.db.all('SELECT head FROM conversation')).toEqual([[2], [2]])
})

test('beside a change of a damaged page a refused one is planned once, and others keep their order', async () => {
  using store = openDatabase()
  const damage = toStorageProblem(Object.assign(new Error('malformed'), { errcode: 11 }), store.db.path)
  const plan = vi.fn(() => {
    throw new Error('refused')
  })
  const refused = store.writer.write(plan)
  const damaged = store.writer.write(() => ({
    apply: () => {
      throw damage
    },
  }))
  const stored = ['a', 'b', 'c'].map((id) => store.append(id))
  using foreign = new DatabaseSync(store.db.path)
  // Another process takes the lock between the group and its changes one by one.
  store.device.afterTransaction = () => {
    store.device.afterTransaction = () => {}
    foreign.exec('BEGIN IMMEDIATE')
    setTimeout(() => foreign.exec('ROLLBACK'), 100)
  }
  await expect(refused).rejects.toThrow('refused')
  await expect(damaged).rejects.toBe(damage)
  expect(await Promise.all(stored)).toEqual([1, 2, 3])
  expect(plan).toHaveBeenCalledOnce()
})

test('close writes the queue and refuses later writes', async () => {
  using store = openDatabase()
  const queued = store.append('a')
  const closed = store.writer.close()
  await expect(store.append('b')).rejects.toMatchObject({ code: 'unavailable' })
  expect(await queued).toBe(1)
  await closed
})

/** A log with the conversations `x` and `y`; `append` resolves with the position. */
test('a wanted checkpoint gives the space of the write-ahead log back beside a group', async () => {
  using store = openDatabase()
  const wal = `${store.db.path}-wal`
  await store.append('a', 1_000_000)
  expect(statSync(wal).size).toBeGreaterThan(800_000)
  expect(await Promise.all([store.append('b'), store.writer.checkpoint()])).toEqual([2, undefined])
  expect(statSync(wal).size).toBeLessThan(100_000)
  expect(await store.append('c')).toBe(3)
})

test('the file shrinks after a reader that held the wanted checkpoint up, without another write', async () => {
  using store = openDatabase()
  store.db.run('CREATE TABLE grown (bytes BLOB)')
  store.db.run('INSERT INTO grown VALUES (zeroblob(4000000))')
  await store.writer.checkpoint()
  const { size } = statSync(store.db.path)
  using reader = new DatabaseSync(store.db.path, { readOnly: true })
  reader.exec('BEGIN; SELECT count(*) FROM grown')
  await store.writer.write(() => ({
    apply: () => {
      store.db.run('DELETE FROM grown')
      store.db.reclaim(10_000)
    },
  }))
  await store.writer.checkpoint()
  expect(statSync(store.db.path).size).toBe(size)
  reader.exec('COMMIT')
  await vi.waitFor(() => expect(statSync(store.db.path).size).toBeLessThan(size - 3_500_000), waiting)
})

test.runIf(existsSync('/proc/self/io'))(
  'a checkpoint on a fast disk leaves the pages in memory',
  async () => {
    using store = openDatabase()
    using _ = vi.spyOn(SyncPace.prototype, 'isFast', 'get').mockReturnValue(true)
    using checkpoint = vi.spyOn(store.db, 'checkpointInThread')
    let rows = 10_000
    const insert = () => {
      for (let n = 0; n < 500; n++) {
        rows++
        store.db.run('INSERT INTO facet VALUES (?, ?, ?)', rows, 'k', `${rows}`.padEnd(1_000, 'x'))
      }
    }
    const insertUntilCheckpoint = async () => {
      const before = checkpoint.mock.calls.length
      for (let n = 0; n < 40 && checkpoint.mock.calls.length === before; n++)
        await store.writer.write(() => ({ apply: insert }))
      expect(checkpoint.mock.calls.length).toBe(before + 1)
      await store.db.settled()
      return statSync(`${store.db.path}-wal`).size
    }
    const size = await insertUntilCheckpoint()
    await store.append('next')
    const before = readBytes()
    expect(store.db.get("SELECT count(*) FROM facet NOT INDEXED WHERE source LIKE '%y'")).toEqual([0])
    expect(readBytes() - before).toBeLessThan(100_000)
    // The write-ahead log begins again.
    expect(await insertUntilCheckpoint()).toBeLessThan(1.5 * size)
  },
)

/** That this process has read by system calls so far. */
function readBytes(): number {
  return Number(/^rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])
}

test('a checkpoint that is wanted during another one, or at the end, is waited for no longer than that', async () => {
  using store = openDatabase()
  const first = store.writer.checkpoint()
  while (!store.db.isWorking) await nextTurn()
  await Promise.all([first, store.writer.checkpoint()])
  const last = store.writer.checkpoint()
  await store.writer.close()
  await last
})

test('where the thread of checkpoints does not start, the event loop makes them', async () => {
  using store = openDatabase()
  const { size } = statSync(store.db.path)
  await store.append('a', 1_000_000)
  using thread = vi.spyOn(store.db, 'checkpointInThread')
  thread.mockRejectedValueOnce(new Error('ERR_WORKER_INIT_FAILED'))
  await store.writer.checkpoint()
  expect(store.logged).toEqual(['a checkpoint runs in the event loop: its thread failed'])
  expect(statSync(store.db.path).size).toBeGreaterThan(size + 700_000)
  expect(await store.append('b')).toBe(2)
})

test('a recovery opens the file again when no sync is under way, also after it has tried the disk', async () => {
  using store = openDatabase()
  await store.append('a')
  const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  using _ = vi.spyOn(SyncPace.prototype, 'isFast', 'get').mockReturnValue(false)
  using sync = vi.spyOn(WalFile.prototype, 'sync')
  sync.mockImplementationOnce(() => {
    begun.resolve()
    return end.promise
  })
  const steps: string[] = []
  let written: Promise<unknown> | undefined
  using repair = vi.spyOn(store.db, 'repair')
  repair.mockImplementationOnce(() => {
    written = store.append('b').then(() => steps.push('written'))
    throw storageUnavailableProblem('the disk reports errors')
  })
  const recovered = recoverDatabase(store.db, () => {
    steps.push('opened')
    store.db.reopen()
  })
  await begun.promise
  // Longer than it takes to try the disk.
  for (let n = 0; n < 3; n++) await store.health.check()
  expect(steps).toEqual([])
  end.resolve()
  await Promise.all([recovered, written])
  expect(steps.toSorted()).toEqual(['opened', 'written'])
  expect(await store.append('c')).toBe(3)
})

function openDatabase(maxHeads = 10) {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'log.db')
  const options = {
    synchronous: 'FULL',
    cacheBytes: 32_000_000,
    isReclaimable: true,
    migrations: logMigrations,
  } as const
  const db = new Database(path, options)
  const other = new Database(path, { ...options, readOnly: true })
  const kindSources = new KindSourceIndex(db)
  const heads = new LogHeads(db, () => 5, { maxHeads })
  const events = new EventRows(db, kindSources, () => 5)
  let isFailing = false
  const throwIoError = () => {
    if (isFailing) throw toStorageProblem(Object.assign(new Error('disk I/O error'), { errcode: 1034 }), path)
  }
  const logged: string[] = []
  const health = new StorageHealth(directory.path, (_, text) => void logged.push(text))
  const databaseHealth = health.add(db, async () => {
    throwIoError()
    await recoverDatabase(db)
  })
  const device = { beforeCommit: throwIoError, afterTransaction: () => {} }
  const writer = new CommitQueue(db, 'log', databaseHealth, [heads, kindSources, device])
  const fail = (when: 'begin' | 'end') => {
    isFailing = when === 'begin'
  }
  for (const id of ['x', 'y']) {
    const columns = 'id, tags, status, created_at, updated_at, is_visible'
    db.run(`INSERT INTO conversation (${columns}) VALUES (?, '{}', 'idle', 1, 1, 1)`, id)
  }
  const append = (id: string, sizeBytes = 1, conversation = 'x') =>
    writer.write(() => {
      const head = heads.get(conversation)
      const bytes = Buffer.alloc(sizeBytes, 'x')
      const { newEvents, extent } = events.planAppend(head.ordinal, head, [
        { id, bytes, kind: id, source: 'user', instant: 5 },
      ])
      return {
        apply: () => {
          events.insert(head.ordinal, newEvents)
          heads.update(head, extent)
        },
        done: () => extent.head,
      }
    })
  const close = () => {
    void health.close()
    other.close()
    db.close()
    directory[Symbol.dispose]()
  }
  const store = { db, other, heads, kindSources, device, writer, append, health, logged, fail }
  return { ...store, [Symbol.dispose]: close }
}
