import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { repairLog } from './maintenance/repair-log.ts'
import { verifyLog } from './maintenance/verify-log.ts'
import { openStorage, type SqliteStorage } from './storage.ts'

/**
 * Every page of a small log is zeroed, one at a time: the conversations on it are refused by their names, and
 * all others are listed, read, searched and appended to.
 */

const count = 12
const ids = Array.from({ length: count }, (_, n) => `0f9a2f6e-5d0c-4c1b-9a57-0000000000${10 + n}`)
/** What says on which pages a conversation is. */
const markerOf = (id: string) => `<${id.slice(-2)}>`
const eventsEach = 8
const picture = 'data-of-a-picture'

let base: string
let pristine: string
let pageSize: number
let pages: ReadonlyMap<number, { readonly name: string; readonly type: string; readonly isRoot: boolean }>
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'slipway-pages-'))
  pristine = join(base, 'pristine')
  {
    await using storage = await openStorage({ directory: pristine })
    for (const id of ids) {
      const text = markerOf(id)
      const request = JSON.stringify({ text: text.repeat(300) })
      await storage.conversations.create({
        id,
        request,
        tags: { team: 'blue' },
        sealed: Buffer.from(text.repeat(200)),
      })
      for (let n = 0; n < eventsEach; n++) {
        const data =
          id === ids[3] && n === 2 ? Buffer.from(picture.repeat(1_000)).toString('base64') : undefined
        const kind = n % 2 === 0 ? 'MessageEvent' : 'ActionEvent'
        await storage.log.append(id, [{ kind, source: 'user', text: text.repeat(150), data }])
      }
      await storage.deliveries.listPending('receiver', count)
    }
    await storage.waitUntilIndexed()
  }
  using db = new DatabaseSync(join(pristine, 'log.db'))
  pageSize = Number(db.prepare('PRAGMA page_size').get()?.page_size)
  pages = new Map(
    db
      .prepare('SELECT pageno, name, pagetype, path FROM dbstat')
      .all()
      .map(({ pageno, name, pagetype, path }) => [
        Number(pageno),
        { name: String(name), type: String(pagetype), isRoot: path === '/' },
      ]),
  )
})
afterAll(() => rmSync(base, { recursive: true }))

/**
 * A copy whose page is zeroed, and the conversations that had something on it. `before` is the one whose log
 * ends before the page, which its next event would be on: it can be read alone.
 */
function damage(page: number): { directory: string; onPage: readonly string[]; before: string | undefined } {
  const directory = join(base, `page-${page}`)
  cpSync(pristine, directory, { recursive: true })
  const bytes = readFileSync(join(directory, 'log.db'))
  const old = Buffer.from(bytes.subarray((page - 1) * pageSize, page * pageSize))
  bytes.fill(0, (page - 1) * pageSize, page * pageSize)
  writeFileSync(join(directory, 'log.db'), bytes)
  const onPage = ids.filter((id) => old.includes(markerOf(id)))
  return { directory, onPage, before: ids[ids.indexOf(onPage[0] ?? '') - 1] }
}

/** The conversations that cannot be read, searched or appended to; each error has to name its own. */
async function findLost(storage: SqliteStorage): Promise<string[]> {
  const lost = new Set<string>()
  for (const id of ids) {
    const attempts = [
      () => storage.conversations.get([id]),
      () => storage.log.read(id, 0, 100),
      () => storage.log.search(id, { limit: 100, sort_order: 'TIMESTAMP' }),
      () => storage.log.search(id, { limit: 100, sort_order: 'TIMESTAMP_DESC', kind: 'MessageEvent' }),
      () => storage.log.count(id, { kind: 'ActionEvent' }),
      () => storage.conversations.getSealedState(id),
      () => storage.log.append(id, [{ id: `new-${id}`, kind: 'PauseEvent', source: 'user' }]),
    ]
    for (const attempt of attempts)
      await attempt().catch((error: unknown) => {
        expect(error).toMatchObject({
          code: 'unavailable',
          conversation: id,
          message: expect.stringContaining(id),
        })
        lost.add(id)
      })
  }
  return [...lost]
}

async function listAll(storage: SqliteStorage, query: object): Promise<string[]> {
  const listed: string[] = []
  let page_id: string | undefined
  do {
    const page = await storage.conversations.search({ limit: 5, sort_order: 'CREATED_AT', page_id, ...query })
    listed.push(...page.items.map(({ id }) => id))
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return listed
}

/** Without their first page these tables are gone: nothing may be stored as if they were empty. */
const needed = new Set([
  'conversation',
  'facet',
  'sqlite_autoindex_facet_1',
  'leftover',
  'store',
  'delivery',
  'document',
  'sqlite_autoindex_document_1',
]).union(new Set(['event_blob', 'sqlite_sequence', 'sqlite_schema']))

test('a damaged page costs the conversations on it', { timeout: 300_000 }, async () => {
  const total = readFileSync(join(pristine, 'log.db')).length / pageSize
  const outcomes = { refused: 0, rebuilt: 0, named: 0, all: 0, harmless: 0 }
  for (let page = 1; page <= total; page++) {
    const { name = 'no table', type = '', isRoot = false } = pages.get(page) ?? {}
    const { directory, onPage, before } = damage(page)
    const logged: string[] = []
    const log = (_: string, message: string) => void logged.push(message)
    const what = `page ${page}, ${type} of ${name}`
    if (isRoot && needed.has(name)) {
      await expect(openStorage({ directory, log }), what).rejects.toThrow(/damaged.*slipway doctor/s)
      outcomes.refused++
      continue
    }
    await using storage = await openStorage({ directory, log })
    const lost = await findLost(storage)
    const unlisted = ids.filter((id) => name === 'conversation' && onPage.includes(id))
    const listed = ids.filter((id) => !unlisted.includes(id))
    expect(await listAll(storage, {}), what).toEqual(listed)
    expect((await listAll(storage, { sort_order: 'UPDATED_AT_DESC' })).sort(), what).toEqual(listed)
    const byTag = { tags: [{ name: 'team', value: 'blue' }], status: 'idle' }
    expect(await listAll(storage, byTag), what).toEqual(listed)
    expect(await storage.conversations.count({ tags: byTag.tags }), what).toBe(listed.length)
    await storage.deliveries.listPending('receiver', count)
    const create = () => storage.conversations.create({ id: 'another' })
    // New records go where the newest one is.
    if (unlisted.includes(ids.at(-1) ?? '')) await expect(create(), what).rejects.toThrow('log.db')
    else await create()
    expect(await storage.health.check(), what).toBeUndefined()
    if ((name === 'event' || name === 'vault') && isRoot) {
      // The one page that leads to all events, or to all secrets and snapshots.
      expect(lost, what).toEqual(ids)
      outcomes.all++
    } else if (lost.length > 0) {
      const all = name === 'event' && before !== undefined ? [before, ...onPage] : onPage
      expect(all, what).toEqual(expect.arrayContaining(name === 'blob' ? [] : lost))
      if (before !== undefined && name === 'event')
        expect((await storage.log.read(before, 0, eventsEach)).length, what).toBe(eventsEach)
      expect(lost.length, what).toBeLessThanOrEqual(6)
      // The last page of a long value says nothing of itself.
      if (type !== 'overflow')
        expect(logged, what).toContainEqual(expect.stringMatching(/^pages of log.db are damaged/))
      outcomes.named++
    } else {
      const isIndex = logged.some((message) => message.startsWith('indexes of log.db were damaged'))
      outcomes[isIndex ? 'rebuilt' : 'harmless']++
      if (isIndex)
        expect(verifyLog(join(directory, 'log.db'), { isThorough: true }).problems, what).toEqual([])
    }
    rmSync(directory, { recursive: true })
  }
  expect(outcomes).toMatchObject({ all: 2 })
  expect(outcomes.rebuilt).toBeGreaterThanOrEqual(10)
  expect(outcomes.named).toBeGreaterThanOrEqual(20)
})

test('doctor --repair makes a damaged index again where the start has not', async () => {
  const page = [...pages].find(([, { name, type }]) => name === 'event_id' && type === 'leaf')?.[0] ?? 0
  const { directory } = damage(page)
  const path = join(directory, 'log.db')
  expect(repairLog(path, join(directory, 'damaged'))).toMatchObject({ problems: [], damaged: [] })
  expect(verifyLog(path, { isThorough: true })).toMatchObject({ problems: [], damaged: [] })
})

test('changes of one group are stored apart from one that needs a damaged page', async () => {
  const page = [...pages].find(([, { name, type }]) => name === 'event' && type === 'leaf')?.[0] ?? 0
  const { directory, onPage, before = '' } = damage(page)
  await using storage = await openStorage({ directory })
  const outcomes = await Promise.allSettled(
    ids.map((id) => storage.log.append(id, [{ id: `new-${id}`, kind: 'PauseEvent', source: 'user' }])),
  )
  const refused = ids.filter((_, index) => outcomes[index]?.status === 'rejected')
  expect([before, ...onPage]).toEqual(expect.arrayContaining(refused))
})

test('a damaged page of documents costs those on it, and a repair keeps the others', async () => {
  const directory = join(base, 'documents')
  const names = Array.from({ length: 12 }, (_, n) => `profiles/${n + 10}.json`)
  const bytes = Buffer.alloc(1_500, 'x')
  {
    await using storage = await openStorage({ directory })
    for (const name of names) await storage.documents.update('', name, () => bytes)
  }
  const path = join(directory, 'log.db')
  const file = readFileSync(path)
  let page = 0
  {
    using db = new DatabaseSync(path)
    const sql =
      "SELECT pageno FROM dbstat WHERE name = 'document' AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET 2"
    page = Number(db.prepare(sql).get()?.pageno)
  }
  const old = Buffer.from(file.subarray((page - 1) * pageSize, page * pageSize))
  writeFileSync(path, file.fill(0, (page - 1) * pageSize, page * pageSize))
  const lost = names.filter((name) => old.includes(name))
  expect(lost.length).toBeGreaterThan(0)
  {
    await using storage = await openStorage({ directory })
    const { documents } = storage
    expect((await documents.list('')).toSorted()).toEqual(names)
    for (const name of names)
      if (lost.includes(name)) {
        await expect(documents.get('', name)).rejects.toMatchObject({ code: 'unavailable' })
        await expect(documents.update('', name, () => bytes)).rejects.toMatchObject({ code: 'unavailable' })
      } else {
        expect(await documents.get('', name)).toEqual(bytes)
        await documents.update('', name, () => Buffer.from(name))
      }
    await storage.conversations.create({ id: String(ids[0]) })
  }
  expect(repairLog(path, join(directory, 'aside'))).toMatchObject({
    problems: [],
    rebuilt: expect.arrayContaining(
      lost.map((name) => `the document ${name} cannot be read and was removed`),
    ),
  })
  expect(verifyLog(path).problems).toEqual([])
  await using storage = await openStorage({ directory })
  const kept = names.filter((name) => !lost.includes(name))
  expect((await storage.documents.list('')).toSorted()).toEqual(kept)
  for (const name of kept) expect(String(await storage.documents.get('', name))).toBe(name)
})
