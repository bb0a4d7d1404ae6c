import { setTimeout as pause } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { checkOutput, newOutput, runAndKill } from '../testing/crash-rounds.ts'
import { conversation, readAll } from '../testing/fixtures.ts'
import { openPostgresStorage } from './storage.ts'
import { startOwnPostgres } from './testing/own-postgres.ts'
import { createTestSchema, describePostgres } from './testing/test-database.ts'

const rounds = Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 3)
const kills = Math.ceil(rounds / 2)
const databaseCrashes = Math.ceil(rounds / 4)
/** A schema is replaced after this many kills, because reading it takes longer with each. */
const roundsOfSchema = 20
vi.setConfig({ testTimeout: 120_000 + rounds * 15_000 })

describePostgres('storage on PostgreSQL, crashes', () => {
  test(`acknowledged writes survive a kill of the process, ${kills} times`, async () => {
    for (let left = kills; left > 0; left -= roundsOfSchema) {
      await using schema = await createTestSchema()
      const output = newOutput()
      for (let round = 0; round < Math.min(left, roundsOfSchema); round++) {
        await runAndKill(schema.url, output)
        await using storage = await openPostgresStorage({ url: schema.url })
        await checkOutput(storage, output)
      }
    }
  })

  test(`acknowledged writes survive a crash of the database under load, ${databaseCrashes} times`, async () => {
    await using postgres = await startOwnPostgres()
    await using storage = await openPostgresStorage({ url: postgres.url })
    await storage.conversations.create({ id: conversation })
    const stored: string[] = []
    const stop = new AbortController()
    const writer = (async () => {
      for (let n = 0; !stop.signal.aborted; n++) {
        const events = [0, 1, 2].map((i) => ({ id: `${n}-${i}`, kind: 'PauseEvent', source: 'user' }))
        // An append whose answer was lost is repeated with its ids, as a client does.
        for (;;) {
          try {
            await storage.log.append(conversation, events)
            break
          } catch (error) {
            expect(error).toMatchObject({ code: 'unavailable' })
            await pause(20)
          }
        }
        stored.push(...events.map(({ id }) => id))
      }
    })()
    for (let round = 0; round < databaseCrashes; round++) {
      const before = stored.length
      await expect.poll(() => stored.length, { timeout: 60_000 }).toBeGreaterThan(before)
      await pause(200 * Math.random())
      await postgres.crash()
      const after = stored.length
      await expect.poll(() => stored.length, { timeout: 60_000 }).toBeGreaterThan(after)
    }
    stop.abort()
    await writer
    const events = await readAll(storage)
    expect(events.map(({ id }) => id)).toEqual(stored)
    expect(events.map(({ position }) => position)).toEqual(events.map((_, i) => i + 1))
  })
})
