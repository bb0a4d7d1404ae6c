import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { finerOrder } from '../testing/finer-lines.ts'
import { positions } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { bashMigrations, openBashEvents } from './bash-events/bash-events.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'
import { controlPlaneMigrations } from './control-plane/schema.ts'
import { logMigrations } from './event-log/schema.ts'
import { verifyLog } from './maintenance/verify-log.ts'
import { openStorage } from './storage.ts'

/**
 * Databases that earlier versions wrote, by `scripts/write-data-fixture.ts` with the sources of each version.
 */
const folder = join(import.meta.dirname, 'testing/versions')
const fixtures = readdirSync(folder).map((file) => {
  const [, name = '', version = ''] = /^(\w+)-v(\d+)(?:-[\d-]+)?\.db\.gz$/.exec(file) ?? []
  return { file, name, version: Number(version) }
})
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const importedId = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

function unpack({ file, name }: { readonly file: string; readonly name: string }, directory: string): string {
  mkdirSync(directory, { recursive: true })
  const path = join(directory, `${name}.db`)
  writeFileSync(path, gunzipSync(readFileSync(join(folder, file))))
  return path
}

function readRows(path: string, sql: string): unknown {
  using db = new DatabaseSync(path, { readOnly: true })
  return db.prepare(sql).all()
}

test.each(fixtures.filter(({ name }) => name === 'log'))(
  '$file is migrated after a copy, with every byte of its events',
  async ({ version, ...fixture }) => {
    using directory = temporaryDirectory()
    const path = unpack(fixture, directory.path)
    const events = 'SELECT row, id, instant, body FROM event ORDER BY row'
    const before = readRows(path, events)
    {
      await using storage = await openStorage({ directory: directory.path })
      const [record, imported] = await storage.conversations.get([id, importedId])
      expect(record).toMatchObject({ title: 'Σ', tags: { team: 'blue' }, status: 'paused', head: 50 })
      expect(imported).toMatchObject({ title: 'imported', head: 60 })
      const lines = await storage.log.read(importedId, 0, 100)
      expect(lines.map(({ bytes }) => JSON.parse(bytes.toString()).id)).toEqual(
        Array.from({ length: 60 }, (_, n) => `i${n}`),
      )
      await storage.waitUntilIndexed()
      expect(await storage.log.count(id, { body: 'text 39 OF' })).toBe(1)
      // Earlier versions had files.
      const document = version < 11 ? undefined : '{"one":1}'
      expect((await storage.documents.get('', 'one.json'))?.toString()).toBe(document)
      await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
    }
    expect(readRows(path, `${events} LIMIT 110`)).not.toEqual([])
    expect(
      readRows(
        path,
        `SELECT row, id, instant, body FROM event WHERE row % 268435456 <= CASE conversation WHEN 1 THEN 50 ELSE 60 END ORDER BY row`,
      ),
    ).toEqual(before)
    expect(verifyLog(path, { isThorough: true })).toMatchObject({ damaged: [], problems: [], events: 111 })
    const copy = `${path}.v${version}.bak`
    expect(existsSync(copy)).toBe(version < logMigrations.length)
    if (!existsSync(copy)) return
    expect(statSync(copy).mode & 0o077).toBe(0)
    expect(readRows(copy, 'PRAGMA user_version')).toEqual([{ user_version: version }])
    expect(readRows(copy, events)).toEqual(before)
  },
)

test('events that an earlier version sorted by microseconds are sorted to the last digit', async () => {
  using directory = temporaryDirectory()
  const path = unpack({ file: 'finer-v9.db.gz', name: 'log' }, directory.path)
  const events = 'SELECT row, id, body FROM event ORDER BY row'
  const before = readRows(path, events)
  for (const _ of ['migrated', 'opened again']) {
    await using storage = await openStorage({ directory: directory.path })
    const order = { limit: 10, sort_order: 'TIMESTAMP' } as const
    for (const query of [order, { ...order, body: 'LINE' }, { ...order, kind: 'MessageEvent' }])
      expect(positions((await storage.log.search(id, query)).items)).toEqual(finerOrder)
    expect(
      await storage.log.count(id, { timestamp__lt: { instant: 1_772_359_200_000_000, finer: '9' } }),
    ).toBe(4)
    const [record, plain] = await storage.conversations.get([id, importedId])
    expect([record?.head, plain?.head]).toEqual([finerOrder.length, 1])
    // A page id of that version, of the event at position 2.
    const { items } = await storage.log.search(id, { ...order, page_id: 'p2_AAAAAjL-P_wwY-WjW9pk' })
    expect(positions(items)).toEqual(finerOrder.slice(2))
  }
  expect(readRows(path, events)).toEqual(before)
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ damaged: [], problems: [] })
  expect(readRows(path, 'SELECT id, has_finer FROM conversation')).toEqual([
    { id, has_finer: 1 },
    { id: importedId, has_finer: 0 },
  ])
})

test.each(fixtures.filter(({ name }) => name === 'control'))(
  '$file is migrated after a copy, with its rows',
  async ({ version, ...fixture }) => {
    using directory = temporaryDirectory()
    const path = unpack(fixture, directory.path)
    await (await openControlPlaneStore({ directory: directory.path }))[Symbol.asyncDispose]()
    expect(readRows(path, 'SELECT id, name FROM user')).toEqual([{ id: 'u1', name: 'Ada' }])
    expect(readRows(path, 'PRAGMA user_version')).toEqual([{ user_version: controlPlaneMigrations.length }])
    expect(existsSync(`${path}.v${version}.bak`)).toBe(version < controlPlaneMigrations.length)
  },
)

test.each(fixtures.filter(({ name }) => name === 'bash'))(
  '$file is migrated after a copy, with its bytes',
  ({ version, ...fixture }) => {
    using directory = temporaryDirectory()
    const path = unpack(fixture, directory.path)
    {
      using events = openBashEvents(path)
      expect([...events.read({})].map(({ id, body }) => `${id} ${body}`)).toEqual([
        'c {"n":0} ',
        'o {"n":1} ',
      ])
    }
    expect(readRows(path, 'PRAGMA user_version')).toEqual([{ user_version: bashMigrations.length }])
    expect(existsSync(`${path}.v${version}.bak`)).toBe(version < bashMigrations.length)
  },
)

test.each(fixtures.filter(({ name, version }) => version === 1 && name !== 'bash'))(
  '$file is refused with a changed schema, and not migrated',
  async ({ name, ...fixture }) => {
    using directory = temporaryDirectory()
    const path = unpack({ name, ...fixture }, directory.path)
    {
      using db = new DatabaseSync(path)
      db.exec(name === 'log' ? 'DROP INDEX event_message' : 'DROP INDEX sandbox_pool')
    }
    const open = name === 'log' ? openStorage : openControlPlaneStore
    await expect(open({ directory: directory.path })).rejects.toThrow(/is damaged: its index \w+ is missing/)
    expect(readRows(path, 'PRAGMA user_version')).toEqual([{ user_version: 1 }])
    expect(readdirSync(directory.path).filter((file) => file.includes('.bak'))).toEqual([])
  },
)

test('without room for the copy nothing is migrated', async () => {
  using directory = temporaryDirectory()
  const [oldest] = fixtures.filter(({ name }) => name === 'log').toSorted((a, b) => a.version - b.version)
  if (oldest === undefined) throw new Error('there is no fixture')
  const path = unpack(oldest, directory.path)
  // A folder stands in the way of the copy.
  mkdirSync(`${path}.v${oldest.version}.bak.draft`)
  await expect(openStorage({ directory: directory.path })).rejects.toThrow(
    /has to be migrated, but the copy .*\.bak cannot be made/,
  )
  expect(readRows(path, 'PRAGMA user_version')).toEqual([{ user_version: oldest.version }])
})

test('a newer version is refused with both versions and the next step', async () => {
  using directory = temporaryDirectory()
  const [fixture] = fixtures.filter(({ name }) => name === 'log')
  if (fixture === undefined) throw new Error('there is no fixture')
  const path = unpack(fixture, directory.path)
  {
    using db = new DatabaseSync(path)
    db.exec('PRAGMA user_version = 999')
  }
  const before = readFileSync(path)
  await expect(openStorage({ directory: directory.path })).rejects.toThrow(
    /written by a newer version \(its schema is 999, this version knows \d+\)\. Start that version, or restore a backup/,
  )
  expect(readRows(path, 'PRAGMA user_version')).toEqual([{ user_version: 999 }])
  expect(before.length).toBe(statSync(path).size)
})
