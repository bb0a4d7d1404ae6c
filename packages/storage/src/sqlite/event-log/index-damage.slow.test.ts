import { randomInt } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openStorage, type SqliteStorage } from '../storage.ts'
import { fileIdentity } from '../testing/file-identity.ts'

/** What happens to the files of the text index while no server runs, and what searches answer then. */

const ids = ['one', 'two']
const flips = Number(process.env.SLIPWAY_DAMAGE_ROUNDS ?? 8)
const words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon']
const needles = [...words, 'alpha beta', 'number 7', 'lph']

let base: string
/** Of a server that was stopped, and of one that was killed. */
let stopped: string
let killed: string
let expected: unknown
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'slipway-index-'))
  stopped = join(base, 'stopped')
  killed = join(base, 'killed')
  await using storage = await openStorage({ directory: stopped })
  for (const id of ids) {
    await storage.conversations.create({ id })
    const drafts = Array.from({ length: 500 }, (_, n) => {
      const text = `${words[n % 5]} ${words[(n * 3) % 4]} number ${n}`
      return {
        kind: 'MessageEvent',
        source: n % 2 === 0 ? 'user' : 'agent',
        llm_message: { role: 'user', content: [{ type: 'text', text }] },
      }
    })
    await storage.log.append(id, drafts)
  }
  await storage.waitUntilIndexed()
  expected = await answers(storage)
  cpSync(stopped, killed, { recursive: true })
}, 120_000)
afterAll(() => rmSync(base, { recursive: true }))

function copyOf(directory: string): string {
  const copy = join(base, `copy-${Math.random().toString(36).slice(2)}`)
  cpSync(directory, copy, { recursive: true })
  return copy
}

/** Of every needle: the positions of pages, filtered ones and counts. */
async function answers(storage: SqliteStorage): Promise<unknown> {
  const found: unknown[] = []
  for (const id of ids) {
    for (const body of needles) {
      const page = async (more: object) =>
        (await storage.log.search(id, { limit: 100, sort_order: 'TIMESTAMP', body, ...more })).items.map(
          ({ position }) => position,
        )
      found.push([
        await page({}),
        await page({ sort_order: 'TIMESTAMP_DESC' }),
        await page({ source: 'agent' }),
        await storage.log.count(id, { body }),
        await storage.log.count(id, { body, source: 'user' }),
      ])
    }
  }
  return found
}

function changeOneBit(path: string): void {
  const bytes = readFileSync(path)
  const at = randomInt(bytes.length)
  bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(8))
  writeFileSync(path, bytes)
}

test('no changed bit in the index adds or hides an event', { timeout: 300_000 }, async () => {
  const files = ['index.db', 'index.db-wal', 'index.sum']
  for (let round = 0; round < flips; round++) {
    const directory = copyOf(round % 2 === 0 ? stopped : killed)
    const present = files.map((name) => join(directory, name)).filter(existsSync)
    const path =
      present.filter((path) => statSync(path).size > 0)[round % 3 === 0 ? 0 : randomInt(2)] ?? present[0]
    changeOneBit(String(path))
    {
      await using storage = await openStorage({ directory })
      expect(await answers(storage), String(path)).toEqual(expected)
      await storage.waitUntilIndexed()
      expect(await answers(storage), String(path)).toEqual(expected)
    }
    rmSync(directory, { recursive: true })
  }
})

test('an index of a stopped or a killed server is used again, where it ended', {
  timeout: 180_000,
}, async () => {
  for (const directory of [stopped, killed].map(copyOf)) {
    const path = join(directory, 'index.db')
    const before = fileIdentity(path)
    const open = () => openStorage({ directory })
    {
      await using storage = await open()
      await storage.waitUntilIndexed()
      expect(await answers(storage)).toEqual(expected)
      const message = { role: 'user', content: [{ type: 'text', text: 'zeta' }] }
      await storage.log.append('one', [{ kind: 'MessageEvent', source: 'user', llm_message: message }])
      await storage.waitUntilIndexed()
      expect(await storage.log.count('one', { body: 'zeta' })).toBe(1)
    }
    await using storage = await open()
    expect(await storage.log.count('one', { body: 'zeta' })).toBe(1)
    expect(fileIdentity(path)).toBe(before)
  }
})

test('an index whose sums or pages are those of another time is built again', {
  timeout: 180_000,
}, async () => {
  const older = copyOf(stopped)
  {
    await using storage = await openStorage({ directory: older })
    const message = { role: 'user', content: [{ type: 'text', text: 'zeta' }] }
    await storage.log.append('one', [{ kind: 'MessageEvent', source: 'user', llm_message: message }])
    await storage.waitUntilIndexed()
  }
  for (const name of ['index.db', 'index.sum']) {
    const directory = copyOf(older)
    cpSync(join(stopped, name), join(directory, name))
    const before = fileIdentity(join(directory, 'index.db'))
    await using storage = await openStorage({ directory })
    expect(await storage.log.count('one', { body: 'zeta' })).toBe(1)
    expect(fileIdentity(join(directory, 'index.db'))).not.toBe(before)
  }
})
