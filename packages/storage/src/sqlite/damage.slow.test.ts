import { randomBytes, randomInt } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StoredEvent } from '../event-log/event-log.ts'
import { acceptLog } from './accept-log.ts'
import { readBody } from './blobs/blobs.ts'
import { logMigrations } from './event-log/schema.ts'
import { inspectDatabase } from './maintenance/inspect.ts'
import { blobRows, rowsOf } from './maintenance/open-file.ts'
import { repairLog } from './maintenance/repair-log.ts'
import { verifyLog } from './maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from './storage.ts'

/** What happens to the files of a log while no server runs, and what the next server says. */

const ids = ['one', 'two', 'three']
const eventsEach = 60
/** How many single bits are changed. */
const flips = Number(process.env.SLIPWAY_DAMAGE_ROUNDS ?? 120)

let base: string
let pristine: string
/** A copy of a directory whose server was killed: its newest events are in the write-ahead log alone. */
let killed: string
const written = new Map<string, readonly StoredEvent[]>()
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'slipway-damage-'))
  pristine = join(base, 'pristine')
  killed = join(base, 'killed')
  await using storage = await openStorage({ directory: pristine })
  const picture = randomBytes(30_000).toString('base64')
  for (const id of ids) {
    await storage.conversations.create({ id, title: null, tags: {}, status: 'idle' })
    const drafts = Array.from({ length: eventsEach }, (_, n) => ({
      kind: n % 3 === 0 ? 'MessageEvent' : 'ActionEvent',
      source: n % 2 === 0 ? 'user' : 'agent',
      members: { text: `Text ${n} of ${id}. `.repeat(20), data: n % 20 === 0 ? picture : undefined },
    }))
    for (const draft of drafts) await storage.log.append(id, [draft])
    written.set(id, await storage.log.read(id, 0, 1_000))
  }
  cpSync(pristine, killed, { recursive: true })
})
afterAll(() => rmSync(base, { recursive: true }))

function copyOf(directory: string): string {
  const copy = join(base, `copy-${Math.random().toString(36).slice(2)}`)
  cpSync(directory, copy, { recursive: true })
  return copy
}

/**
 * Reads all there is by every way; throws when anything is not what was written. Errors of the storage are
 * fine.
 */
async function readEverything(storage: SqliteStorage): Promise<{ served: number; refused: number }> {
  const counts = { served: 0, refused: 0 }
  const attempt = async (work: () => Promise<readonly { position: number; bytes: Buffer }[]>, id: string) => {
    let events: readonly { position: number; bytes: Buffer }[]
    try {
      events = await work()
    } catch {
      counts.refused++
      return undefined
    }
    for (const { position, bytes } of events) {
      const original = written.get(id)?.[position - 1]?.bytes
      if (original?.equals(bytes) !== true) throw new Error(`event ${position} of ${id} is wrong`)
    }
    counts.served += events.length
    return events.length
  }
  for (const id of ids) {
    const expectAll = (count: number | undefined) => expect(count ?? eventsEach).toBe(eventsEach)
    expectAll(await attempt(() => storage.log.read(id, 0, 1_000), id))
    for (const sort_order of ['TIMESTAMP', 'TIMESTAMP_DESC'] as const) {
      const page = async (more: object = {}) =>
        (await storage.log.search(id, { limit: 100, sort_order, ...more })).items
      expectAll(await attempt(page, id))
      for (const filter of [{ kind: 'MessageEvent' }, { kind: 'ActionEvent', source: 'agent' }])
        expect((await attempt(() => page(filter), id)) ?? eventsEach / 3).toBe(eventsEach / 3)
    }
    const found = async () =>
      (await storage.log.get(id, written.get(id)?.map((event) => event.id) ?? [])).flatMap(
        (event) => event ?? [],
      )
    expectAll(await attempt(found, id))
    await attempt(async () => {
      for await (const batch of storage.log.tail(id, 0, AbortSignal.timeout(300))) return batch
      return []
    }, id)
  }
  return counts
}

test('an undamaged log is read as it was written, also after a kill', async () => {
  for (const directory of [copyOf(pristine), copyOf(killed)]) {
    await using storage = await openStorage({ directory })
    expect(await readEverything(storage)).toEqual({
      served: ids.length * (eventsEach * 5 + (eventsEach / 3) * 4),
      refused: 0,
    })
  }
})

/** The bytes of the indexes of events, each of which is one page. */
function pagesOfIndexes(path: string): { readonly start: number; readonly length: number } {
  using db = new DatabaseSync(path)
  const pages = db
    .prepare(
      "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'event' ORDER BY rootpage",
    )
    .all()
    .map(({ rootpage }) => Number(rootpage))
  expect(pages).toEqual(pages.map((_, n) => (pages[0] ?? 0) + n))
  const { page_size } = db.prepare('PRAGMA page_size').get() ?? {}
  return { start: ((pages[0] ?? 0) - 1) * Number(page_size), length: pages.length * Number(page_size) }
}

test('no changed bit in the log is served as if it were right', { timeout: 300_000 }, async () => {
  const outcomes = { refusedStart: 0, refused: 0, harmless: 0 }
  const indexes = pagesOfIndexes(join(pristine, 'log.db'))
  for (let round = 0; round < flips; round++) {
    const directory = copyOf(pristine)
    const path = join(directory, 'log.db')
    const bytes = readFileSync(path)
    // Half of them in the indexes of events, where a wrong entry only misleads the search for others.
    const at = round % 2 === 0 ? randomInt(bytes.length) : indexes.start + randomInt(indexes.length)
    bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(8))
    writeFileSync(path, bytes)
    try {
      const storage = await openStorage({ directory }).catch(() => undefined)
      if (storage === undefined) outcomes.refusedStart++
      else {
        const { refused } = await readEverything(storage).finally(() => storage[Symbol.asyncDispose]())
        outcomes[refused > 0 ? 'refused' : 'harmless']++
      }
    } catch (error) {
      throw new Error(`bit at ${at} of ${bytes.length}`, { cause: error })
    } finally {
      rmSync(directory, { recursive: true })
    }
  }
  expect(outcomes.refused).toBeGreaterThan(0)
})

test.each([
  ['in the middle', 'row % 268435456 = 30', 30],
  ['at the end', 'row % 268435456 > 50', eventsEach],
])(
  'missing rows %s are an error that names the position, and no reader waits or spins',
  async (_, where, position) => {
    const directory = copyOf(pristine)
    const db = new DatabaseSync(join(directory, 'log.db'))
    db.exec(
      `DELETE FROM event WHERE ${where} AND conversation = (SELECT ordinal FROM conversation WHERE id = 'two')`,
    )
    db.close()
    await using storage = await openStorage({ directory })
    const damaged = { name: 'DamageError', conversation: 'two', position }
    await expect(storage.log.read('two', 0, 1_000)).rejects.toMatchObject(damaged)
    await expect(storage.log.search('two', { limit: 100, sort_order: 'TIMESTAMP' })).rejects.toMatchObject(
      damaged,
    )
    await expect(
      Array.fromAsync(storage.log.tail('two', 0, AbortSignal.timeout(5_000))),
    ).rejects.toMatchObject(damaged)
    expect(await storage.log.read('one', 0, 1_000)).toHaveLength(eventsEach)
  },
)

/** Changes the rows of a table while an index of it stays as it is. */
function changeBehindIndex(directory: string, index: string, sql: string): void {
  const path = join(directory, 'log.db')
  const open = () => {
    const db = new DatabaseSync(path, { defensive: false })
    db.exec('PRAGMA writable_schema = ON')
    return db
  }
  let db = open()
  const row = db
    .prepare('SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = ?')
    .get(index)
  const version = Number(db.prepare('PRAGMA schema_version').get()?.schema_version)
  db.exec(`DELETE FROM sqlite_schema WHERE name = '${index}'; PRAGMA schema_version = ${version + 1}`)
  db.close()
  db = open()
  db.exec(sql)
  db.prepare('INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)').run(...Object.values(row ?? {}))
  db.exec(`PRAGMA schema_version = ${version + 2}`)
  db.close()
}

const ofTwo = "conversation = (SELECT ordinal FROM conversation WHERE id = 'two')"
const wrongIndex = { name: 'DamageError', conversation: 'two', position: undefined }

test.each<[string, string, string, (storage: SqliteStorage) => Promise<unknown>]>([
  [
    'kinds hides an event from a page',
    'event_facet',
    'facet = 4',
    (storage) => storage.log.search('two', { limit: 10, sort_order: 'TIMESTAMP', kind: 'MessageEvent' }),
  ],
  [
    'kinds counts wrongly',
    'event_facet',
    'facet = 4',
    (storage) => storage.log.count('two', { source: 'user' }),
  ],
  [
    'times hides an event from a page',
    'event_instant',
    'instant = instant + 1',
    (storage) => storage.log.search('two', { limit: 10, sort_order: 'TIMESTAMP', timestamp__gte: 5 }),
  ],
  [
    'messages hides an event from a text search',
    'event_message',
    'facet = 4',
    (storage) => storage.log.search('two', { limit: 10, sort_order: 'TIMESTAMP', body: 'Text' }),
  ],
  ['ids hides an event', 'event_id', "id = 'lost'", (storage) => storage.log.get('two', ['lost'])],
  [
    'ids lets an event be stored twice',
    'event_id',
    "id = 'lost'",
    (storage) => storage.log.append('two', [{ id: 'lost', kind: 'PauseEvent', source: 'user' }]),
  ],
])('an index of %s: the answer is an error with the cause', async (_, index, change, attempt) => {
  const directory = copyOf(pristine)
  changeBehindIndex(directory, index, `UPDATE event SET ${change} WHERE row % 268435456 = 31 AND ${ofTwo}`)
  const logged: string[] = []
  await using storage = await openStorage({ directory, log: (_level, message) => logged.push(message) })
  for (let n = 0; n < 2; n++) {
    await expect(attempt(storage)).rejects.toMatchObject(wrongIndex)
    await expect(attempt(storage)).rejects.toThrow(
      /index of conversation two does not match its events.*slipway doctor --repair/,
    )
  }
  expect(logged).toContain('an index is damaged')
  expect(await storage.log.count('one', { kind: 'MessageEvent' })).toBe(eventsEach / 3)
})

test('the indexes of a long log are compared by a thread, and only once', { timeout: 120_000 }, async () => {
  const directory = join(base, 'long')
  const count = 5_000
  {
    await using storage = await openStorage({ directory })
    await storage.conversations.create({ id: 'two' })
    for (let n = 0; n < count; n += 1_000)
      await storage.log.append(
        'two',
        Array.from({ length: 1_000 }, () => ({ kind: 'PauseEvent', source: 'user' })),
      )
  }
  const wrong = copyOf(directory)
  changeBehindIndex(wrong, 'event_facet', `UPDATE event SET facet = 8 WHERE row % 268435456 = 4000`)
  {
    await using storage = await openStorage({ directory })
    const counts = [1, 2].map(() => storage.log.count('two', { kind: 'PauseEvent' }))
    expect(await Promise.all(counts)).toEqual([count, count])
  }
  await using storage = await openStorage({ directory: wrong })
  for (let n = 0; n < 2; n++)
    await expect(storage.log.count('two', { kind: 'PauseEvent' })).rejects.toMatchObject(wrongIndex)
})

test.each([
  ['conversation_updated', "UPDATE conversation SET updated_at = updated_at + 1 WHERE id = 'two'"],
  ['conversation_status', "UPDATE conversation SET status = 'running' WHERE id = 'two'"],
  ['conversation_id', "UPDATE conversation SET id = 'lost' WHERE id = 'two'"],
])('an index of conversations that hides one (%s) refuses the start', async (index, sql) => {
  const directory = copyOf(pristine)
  changeBehindIndex(directory, index, sql)
  await expect(openStorage({ directory })).rejects.toThrow(
    new RegExp(
      `log\\.db is damaged: table conversation, .*${index}.*slipway doctor --repair --data ${directory}`,
    ),
  )
  expect(repairLog(join(directory, 'log.db'), join(directory, 'damaged')).problems).toEqual([])
  await (await openStorage({ directory }))[Symbol.asyncDispose]()
})

test.each([
  [
    'an index',
    "UPDATE sqlite_schema SET sql = replace(sql, 'is_visible = 1', 'is_visible = 3') WHERE name = 'conversation_updated'",
    /index conversation_updated is not the one/,
  ],
  [
    'a missing index',
    "DELETE FROM sqlite_schema WHERE name = 'event_message'",
    /index event_message is missing/,
  ],
])('a changed schema, %s, refuses the start', async (_, sql, message) => {
  const directory = copyOf(pristine)
  const path = join(directory, 'log.db')
  const db = new DatabaseSync(path, { defensive: false })
  db.exec(`PRAGMA writable_schema = ON; ${sql}`)
  db.close()
  await expect(openStorage({ directory })).rejects.toThrow(message)
  await expect(openStorage({ directory })).rejects.toThrow(/log\.db is damaged: .* Restore it from a backup/)
  expect(inspectDatabase(path, 'log.db', false).schemaProblem).toMatch(message)
})

test('a record that would remove acknowledged events as those of an import is not followed', async () => {
  const directory = copyOf(pristine)
  const db = new DatabaseSync(join(directory, 'log.db'))
  db.exec(`INSERT INTO leftover SELECT ordinal, head - 32 FROM conversation WHERE id = 'two'`)
  db.close()
  const logged: string[] = []
  {
    await using storage = await openStorage({ directory, log: (_level, message) => logged.push(message) })
    expect(await storage.log.read('two', 0, 100)).toHaveLength(eventsEach)
  }
  await using storage = await openStorage({ directory })
  expect(await storage.log.read('two', 0, 100)).toHaveLength(eventsEach)
  expect(logged).toContain('what an import left behind is not removed: its record is damaged')
})

test.each([
  ['title', "title = 'Titled wrongly'"],
  ['tags', 'tags = \'{"team":"red"}\''],
  ['request', 'request = \'{"confirmation_policy":{"kind":"NeverConfirm"}}\''],
  ['statistics', "stats = '{}'"],
])('a changed %s of a conversation is an error, until a repair takes it', async (_, change) => {
  const directory = copyOf(pristine)
  {
    await using storage = await openStorage({ directory })
    await storage.conversations.patch('two', {
      title: 'Two',
      tags: { team: 'blue' },
      request: '{"confirmation_policy":{"kind":"AlwaysConfirm"}}',
    })
    const record = { stats: '{"cost":1}' }
    await storage.log.append('two', [{ kind: 'PauseEvent', source: 'user' }], { record })
    expect((await storage.conversations.get(['two']))[0]).toMatchObject({ title: 'Two' })
  }
  const path = join(directory, 'log.db')
  using db = new DatabaseSync(path)
  db.exec(`UPDATE conversation SET ${change} WHERE id = 'two'`)
  db.close()
  expect(verifyLog(path)).toMatchObject({ damaged: [], records: ['two'] })
  {
    const logged: string[] = []
    await using storage = await openStorage({ directory, log: (_level, message) => logged.push(message) })
    const message = /record of conversation two does not match its checksum.*slipway doctor --repair/
    await expect(storage.conversations.get(['two'])).rejects.toThrow(message)
    const list = await storage.conversations.search({ limit: 10, sort_order: 'CREATED_AT' })
    expect(list.items.map(({ id }) => id)).toEqual(['one', 'three'])
    expect(logged).toEqual(['a record is damaged'])
    expect((await storage.conversations.get(['one']))[0]).toMatchObject({ id: 'one' })
  }
  expect(repairLog(path, join(directory, 'damaged'))).toMatchObject({ damaged: [], records: ['two'] })
  expect(verifyLog(path)).toMatchObject({ damaged: [], records: [] })
  await using storage = await openStorage({ directory })
  expect((await storage.conversations.get(['two']))[0]).toMatchObject({ id: 'two' })
})

test('a record of an earlier version is read unchanged, and has a checksum from its next change on', async () => {
  const directory = copyOf(pristine)
  const path = join(directory, 'log.db')
  const change = (sql: string) => {
    using db = new DatabaseSync(path)
    db.exec(sql)
  }
  change("UPDATE conversation SET checksum = NULL, title = 'Old' WHERE id = 'two'")
  {
    await using storage = await openStorage({ directory })
    expect((await storage.conversations.get(['two']))[0]).toMatchObject({ title: 'Old' })
    await storage.conversations.patch('two', { tags: { team: 'blue' } })
  }
  change("UPDATE conversation SET title = 'Other' WHERE id = 'two'")
  expect(verifyLog(path)).toMatchObject({ records: ['two'] })
})

test('a damaged snapshot of a state is not used, one of an earlier version is', async () => {
  const directory = copyOf(pristine)
  const snapshot = { position: 3, text: '{"a":1}' }
  const change = (sql: string) => {
    const db = new DatabaseSync(join(directory, 'log.db'))
    db.exec(`UPDATE vault SET ${sql}`)
    db.close()
  }
  const read = async () => {
    await using storage = await openStorage({ directory })
    return (await storage.conversations.getSealedState('two'))?.snapshot
  }
  {
    await using storage = await openStorage({ directory })
    await storage.conversations.saveSnapshot('two', snapshot)
  }
  expect(await read()).toEqual(snapshot)
  change("snapshot = replace(snapshot, '1}', '3}')")
  expect(await read()).toBeNull()
  change('snapshot = \'{"a":1}\'')
  expect(await read()).toEqual(snapshot)
})

test('a damaged message is not passed over by a text search', async () => {
  const directory = copyOf(pristine)
  {
    await using storage = await openStorage({ directory })
    const text = (n: number) => ({ role: 'user', content: [{ type: 'text', text: `needle ${n}` }] })
    for (let n = 0; n < 5; n++)
      await storage.log.append('two', [{ kind: 'MessageEvent', source: 'user', llm_message: text(n) }])
  }
  for (const name of ['index.db', 'index.sum']) rmSync(join(directory, name), { force: true })
  const db = new DatabaseSync(join(directory, 'log.db'))
  db.exec(`UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'needle 3', 'noodle 3') AS BLOB)`)
  db.close()
  await using storage = await openStorage({ directory })
  await storage.waitUntilIndexed()
  for (const search of [
    () => storage.log.count('two', { body: 'needle' }),
    () => storage.log.search('two', { limit: 10, sort_order: 'TIMESTAMP', body: 'needle' }),
  ])
    await expect(search()).rejects.toThrow(
      `Event ${eventsEach + 4} of conversation two does not match its checksum`,
    )
})

test('rows behind the end of a log are an error', async () => {
  const directory = copyOf(pristine)
  const db = new DatabaseSync(join(directory, 'log.db'))
  db.exec("UPDATE conversation SET head = 40 WHERE id = 'one'")
  db.close()
  await using storage = await openStorage({ directory })
  await expect(storage.log.read('one', 0, 1)).rejects.toMatchObject({ conversation: 'one', position: 41 })
})

test.each<[string, (path: string) => void]>([
  ['deleted', (path) => rmSync(path)],
  ['halved', (path) => truncateSync(path, Math.floor(statSync(path).size / 2))],
  [
    'changed by one bit',
    (path) => {
      const bytes = readFileSync(path)
      bytes[bytes.length - 5_000] = (bytes[bytes.length - 5_000] ?? 0) ^ 4
      writeFileSync(path, bytes)
    },
  ],
])('the write-ahead log of a killed server that was %s refuses the start', async (_, damage) => {
  const directory = copyOf(killed)
  damage(join(directory, 'log.db-wal'))
  await expect(openStorage({ directory })).rejects.toThrow(
    /log\.db is (?:older than what was acknowledged|another log).*slipway accept-log --data /,
  )
  // What the message advises.
  await acceptLog(directory, false)
  await using storage = await openStorage({ directory })
  expect((await storage.log.read('one', 0, 1_000).catch(() => [])).length).toBeLessThanOrEqual(eventsEach)
})

test.each<[string, (path: string) => void, RegExp]>([
  ['missing', (path) => rmSync(path), /log\.db is missing, but .*log\.mark is there/],
  ['empty', (path) => truncateSync(path, 0), /log\.db is empty, but .*log\.mark is there/],
])('a log that is %s beside the other files refuses the start', async (_, damage, message) => {
  const directory = copyOf(pristine)
  for (const suffix of ['-wal', '-shm']) rmSync(join(directory, `log.db${suffix}`), { force: true })
  damage(join(directory, 'log.db'))
  await expect(openStorage({ directory })).rejects.toThrow(message)
  // The lock file alone is enough to know.
  for (const name of ['log.mark', 'index.db']) rmSync(join(directory, name), { force: true })
  await expect(openStorage({ directory })).rejects.toThrow(/log\.db is .*lock\.db is there.*--empty/)
  await expect(acceptLog(directory, false)).rejects.toThrow('There is no log')
  expect(await acceptLog(directory, true)).toMatchObject({ conversations: 0, events: 0 })
  await using storage = await openStorage({ directory })
  expect(await storage.conversations.count()).toBe(0)
})

test('a log of another directory refuses the start', async () => {
  const directory = copyOf(pristine)
  const other = join(base, 'other')
  await (await openStorage({ directory: other }))[Symbol.asyncDispose]()
  for (const suffix of ['-wal', '-shm']) rmSync(join(directory, `log.db${suffix}`), { force: true })
  cpSync(join(other, 'log.db'), join(directory, 'log.db'))
  await expect(openStorage({ directory })).rejects.toThrow(
    /another log than the one that .*log\.mark belongs to/,
  )
})

/** A directory whose log was replaced by the one that it had before the last ten events. */
async function withOlderLog(remove: readonly string[]): Promise<string> {
  const directory = copyOf(pristine)
  const older = copyOf(pristine)
  {
    await using storage = await openStorage({ directory })
    for (let n = 0; n < 10; n++)
      await storage.log.append('one', [
        { kind: 'MessageEvent', source: 'user', llm_message: { content: [] } },
      ])
    await storage.waitUntilIndexed()
  }
  for (const name of ['log.db-wal', 'log.db-shm', ...remove]) rmSync(join(directory, name), { force: true })
  cpSync(join(older, 'log.db'), join(directory, 'log.db'))
  return directory
}

test.each([
  ['the mark', [], /older than what was acknowledged.*event at position 70/],
  ['the index', ['log.mark'], /older than .*index\.db, which has seen position 70 .* ends at position 60/],
])('a log that is older than %s is refused', async (_, remove, message) => {
  const directory = await withOlderLog(remove)
  await expect(openStorage({ directory })).rejects.toThrow(message)
  await expect(openStorage({ directory })).rejects.toThrow(`slipway accept-log --data ${directory}`)
})

test('an accepted log is a new generation: searches are right, and the log before it is refused', async () => {
  const directory = await withOlderLog([])
  const before = copyOf(directory)
  const accepted = await acceptLog(directory, false)
  expect(accepted).toMatchObject({ generation: 2, conversations: 3, events: eventsEach * 3 })
  {
    await using storage = await openStorage({ directory })
    const text = (n: number) => ({ role: 'user', content: [{ type: 'text', text: `needle ${n}` }] })
    for (let n = 0; n < 20; n++)
      await storage.log.append('one', [{ kind: 'MessageEvent', source: 'user', llm_message: text(n) }])
    await storage.waitUntilIndexed()
    expect(await storage.log.count('one', { body: 'needle' })).toBe(20)
  }
  for (const suffix of ['-wal', '-shm']) rmSync(join(directory, `log.db${suffix}`), { force: true })
  cpSync(join(before, 'log.db'), join(directory, 'log.db'))
  for (const remove of [[], ['log.mark'], ['index.db']]) {
    for (const name of remove) rmSync(join(directory, name), { force: true })
    await expect(openStorage({ directory })).rejects.toThrow('it has generation 1, not 2')
  }
  expect(await acceptLog(directory, false)).toMatchObject({ generation: 3 })
  await (await openStorage({ directory }))[Symbol.asyncDispose]()
})

test('a log of another directory is refused by the lock file alone', async () => {
  const directory = copyOf(pristine)
  const other = join(base, 'another')
  await (await openStorage({ directory: other }))[Symbol.asyncDispose]()
  for (const name of ['log.db-wal', 'log.db-shm', 'log.mark', 'index.db'])
    rmSync(join(directory, name), { force: true })
  cpSync(join(other, 'log.db'), join(directory, 'log.db'))
  await expect(openStorage({ directory })).rejects.toThrow(
    /another log than the one that .*lock\.db belongs to/,
  )
})

test('receivers are told where an accepted log ends, and nothing is accepted while a server runs', async () => {
  const directory = copyOf(pristine)
  {
    await using storage = await openStorage({ directory })
    await storage.deliveries.listPending('receiver', 10)
    const [record] = await storage.conversations.get(['one'])
    await storage.deliveries.advance('receiver', 'one', {
      position: eventsEach,
      updated_at: record?.updated_at ?? 0,
    })
    await expect(acceptLog(directory, false)).rejects.toThrow('in use by another process')
    expect((await storage.deliveries.listPending('receiver', 10)).map((one) => one.conversation)).toEqual([
      'two',
      'three',
    ])
  }
  await acceptLog(directory, false)
  await using storage = await openStorage({ directory })
  const pending = await storage.deliveries.listPending('receiver', 10)
  expect(pending).toContainEqual({
    conversation: 'one',
    position: eventsEach,
    updated_at: null,
    isRemoved: false,
  })
})

test('a directory of the version before opens, and its files know its log from then on', async () => {
  const directory = copyOf(pristine)
  const { id } = new DatabaseSync(join(directory, 'log.db')).prepare('SELECT id FROM store').get() as {
    id: string
  }
  for (const name of ['log.db', 'index.db']) {
    const db = new DatabaseSync(join(directory, name))
    if (db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'store'").get() !== undefined)
      db.exec('ALTER TABLE store DROP COLUMN generation; PRAGMA user_version = 1')
    if (name === 'log.db') {
      for (const [row, body] of rowsOf<[number, Uint8Array]>(db, 'SELECT row, body FROM event'))
        db.prepare('UPDATE event SET body = ? WHERE row = ?').run(readBody(blobRows(db), body), row)
      db.exec(
        `DROP TABLE document; DROP TRIGGER event_removed; DROP TABLE event_blob; DROP TABLE blob;
         ALTER TABLE event DROP COLUMN finer; ALTER TABLE conversation DROP COLUMN has_finer;
         ALTER TABLE conversation DROP COLUMN checksum; PRAGMA user_version = ${logMigrations.length - 5}`,
      )
    }
    db.close()
  }
  const lock = new DatabaseSync(join(directory, 'lock.db'))
  lock.exec('DROP TABLE log')
  lock.close()
  const mark = readFileSync(join(directory, 'log.mark'), 'utf8')
  const text = mark.slice(0, -10).replace(/\.\d+/, '')
  writeFileSync(join(directory, 'log.mark'), `${text} ${crc32(text).toString(16).padStart(8, '0')}\n`)
  {
    await using storage = await openStorage({ directory })
    expect(await readEverything(storage)).toMatchObject({ refused: 0 })
    await storage.log.append('one', [{ kind: 'PauseEvent', source: 'user' }])
  }
  expect(readFileSync(join(directory, 'log.mark'), 'utf8')).toContain(`${id}.0001 `)
  const known = new DatabaseSync(join(directory, 'lock.db'))
  expect(known.prepare('SELECT * FROM log').all()).toEqual([{ store: id, generation: 1 }])
  known.close()
})
