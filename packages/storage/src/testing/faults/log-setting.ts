import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '@slipway/protocol'
import { expect } from 'vitest'
import type { Storage } from '../../conversations/storage.ts'
import { FaultRounds, until, type Watcher } from './fault-rounds.ts'
import { appendLast, newRoundIds, setUp } from './log-operations.ts'
import { observeLog, searchTexts } from './observe-log.ts'

const retryMs = 10

/** Rounds of the operations of a log. What was stored without an answer is searchable and followed too. */
export const logRounds = new FaultRounds({
  newIds: newRoundIds,
  setUp,
  goOn: appendLast,
  observe: observeLog,
  watch: (storage: Storage, { main }) => follow(storage, main),
  observeAtEnd: searchTexts,
})

/** A follower, which receives each event once and in order, also when it was told of none. */
function follow(storage: Storage, id: string): Watcher {
  const ending = new AbortController()
  const positions: number[] = []
  let problem: unknown
  const read = async () => {
    while (!ending.signal.aborted) {
      try {
        for await (const batch of storage.log.tail(id, positions.length, ending.signal))
          positions.push(...batch.map(({ position }) => position))
        return
      } catch (error) {
        if (!(error instanceof Problem) || error.code === 'not_found') {
          problem = error
          return
        }
        await pause(retryMs)
      }
    }
  }
  const reading = read()
  return {
    async assertComplete(label: string) {
      const [record] = await storage.conversations.get([id])
      const expected = Array.from({ length: record?.head ?? 0 }, (_, n) => n + 1)
      await until(() => positions.length >= expected.length, `${label}: followed`)
      if (record !== undefined) expect(positions, `${label}: followed`).toEqual(expected)
      if (record !== undefined) expect(problem, `${label}: the follower ended`).toBeUndefined()
    },
    async [Symbol.asyncDispose]() {
      ending.abort()
      await reading
    },
  }
}
