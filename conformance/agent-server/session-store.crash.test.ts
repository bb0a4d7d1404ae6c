import { expect, test } from 'vitest'
import { SlipwaySessionStore } from '../../packages/session-store/index.js'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const writers = ['a', 'b', 'c']
const batchSize = 7
const rounds = 2

test('kills in the middle of appends lose, double and reorder nothing that was answered', async () => {
  await using server = await OwnAgentServer.open()
  const key = { projectKey: 'kills', sessionId: 'session' }
  /** The first batch of each writer that was not answered. */
  const next = new Map(writers.map((writer) => [writer, 0]))
  const batchOf = (writer: string, batch: number) =>
    Array.from({ length: batchSize }, (_, n) => ({
      type: writer,
      uuid: `${writer}-${batch * batchSize + n}`,
    }))
  const nextOf = (writer: string) => next.get(writer) ?? 0
  /** As the SDK does, it repeats a batch that was not answered. */
  const write = async (store: SlipwaySessionStore, writer: string, onAnswer: () => void) => {
    try {
      for (;;) {
        await store.append(key, batchOf(writer, nextOf(writer)))
        next.set(writer, nextOf(writer) + 1)
        onAnswer()
      }
    } catch {
      // The server is gone.
    }
  }
  for (let round = 0; round < rounds; round++) {
    const store = new SlipwaySessionStore({ url: server.url })
    let answers = 0
    const { promise: isBusy, resolve } = Promise.withResolvers<void>()
    const writing = Promise.all(
      writers.map((writer) =>
        write(store, writer, () => {
          answers += 1
          if (answers === 10 + 7 * round) resolve()
        }),
      ),
    )
    await isBusy
    await server.restart('SIGKILL')
    await writing
    const loaded = (await new SlipwaySessionStore({ url: server.url }).load(key)) ?? []
    for (const writer of writers) {
      const own = loaded.filter(({ type }) => type === writer).map(({ uuid }) => uuid)
      expect(own).toEqual(own.map((_, n) => `${writer}-${n}`))
      const batches = own.length / batchSize
      // The one that was not answered is whole, or not there.
      expect([nextOf(writer), nextOf(writer) + 1]).toContain(batches)
    }
  }
}, 60_000)
