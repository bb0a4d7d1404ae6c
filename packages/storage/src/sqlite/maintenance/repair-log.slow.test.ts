import { randomBytes, randomInt } from 'node:crypto'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'
import { repairLog } from './repair-log.ts'
import { verifyLog } from './verify-log.ts'

const rounds = Number(process.env.SLIPWAY_DAMAGE_ROUNDS ?? 40)
const ids = ['one', 'two', 'three']
const eventsEach = 40

async function writeLog(base: string) {
  const pristine = join(base, 'pristine')
  const written = new Map<string, readonly Buffer[]>()
  await using storage = await openStorage({ directory: pristine })
  const picture = randomBytes(20_000).toString('base64')
  for (const id of ids) {
    await storage.conversations.create({ id })
    const drafts = Array.from({ length: eventsEach }, (_, n) => ({
      kind: n % 2 === 0 ? 'MessageEvent' : 'ActionEvent',
      source: 'user',
      members: { text: `Text ${n} of ${id}. `.repeat(10), data: n % 20 === 0 ? picture : undefined },
    }))
    written.set(
      id,
      (await storage.log.append(id, drafts)).map(({ bytes }) => bytes),
    )
  }
  return { pristine, written }
}

test.each([
  ['are lost', 'DELETE FROM event WHERE row IN'],
  ['have instants out of range', 'UPDATE event SET instant = 9e18 WHERE row IN'],
])('a log whose first events %s keeps its end and its order of time', async (_, damage) => {
  using base = temporaryDirectory()
  const { pristine } = await writeLog(base.path)
  const path = join(pristine, 'log.db')
  {
    using db = new DatabaseSync(path)
    db.exec(`${damage} (SELECT row FROM event ORDER BY row LIMIT 3)`)
  }
  expect(repairLog(path, join(base.path, 'damaged')).damaged).toHaveLength(3)
  for (const name of ['index.db', 'log.mark']) rmSync(join(pristine, name), { force: true })
  await using storage = await openStorage({ directory: pristine })
  for (const id of ids) expect(await storage.log.read(id, 0, 1_000)).toHaveLength(eventsEach)
})

test('after a repair of random damage every event is the original or an event about the damage', {
  timeout: 300_000,
}, async () => {
  using base = temporaryDirectory()
  const { pristine, written } = await writeLog(base.path)
  const outcomes = { repaired: 0, replaced: 0, refused: 0 }
  for (let round = 0; round < rounds; round++) {
    const directory = join(base.path, `round-${round}`)
    cpSync(pristine, directory, { recursive: true })
    const path = join(directory, 'log.db')
    const bytes = readFileSync(path)
    const at = randomInt(bytes.length)
    const length = randomInt(10) === 0 ? 4096 : 1
    const end = Math.min(at + length, bytes.length)
    bytes.fill((bytes[at] ?? 0) ^ (1 << randomInt(8)), at, end)
    writeFileSync(path, bytes)
    try {
      let problems: readonly string[]
      try {
        problems = repairLog(path, join(directory, 'damaged')).problems
      } catch {
        problems = ['it cannot be opened']
      }
      if (problems.length > 0) {
        outcomes.refused++
        continue
      }
      expect(verifyLog(path, { isThorough: true })).toMatchObject({ damaged: [], problems: [] })
      for (const name of ['index.db', 'log.mark']) rmSync(join(directory, name), { force: true })
      // A changed name in the schema shows only in use: the start is refused then.
      const opened = await openStorage({ directory }).catch(() => undefined)
      if (opened === undefined) {
        outcomes.refused++
        continue
      }
      await using storage = opened
      for (const id of ids) {
        const record = (await storage.conversations.get([id]))[0]
        if (record === undefined) continue
        const events = await storage.log.read(id, 0, 1_000)
        expect(events).toHaveLength(record.head)
        for (const { position, bytes } of events) {
          if (written.get(id)?.[position - 1]?.equals(bytes)) continue
          outcomes.replaced++
          expect(JSON.parse(bytes.toString())).toMatchObject({ code: 'DamagedEvent' })
        }
      }
      outcomes.repaired++
    } catch (error) {
      throw new Error(`${length} bytes at ${at} of ${bytes.length}`, { cause: error })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }
  expect(outcomes.repaired).toBeGreaterThan(0)
})
