import { setImmediate as nextTurn } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openStorage } from '../sqlite/storage.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { exportEvents, gzipStream } from './export.ts'

test('gzipStream compresses all chunks', async () => {
  const compressed = await gzipStream(chunks(['a', 'b'])).toArray()
  expect(gunzipSync(Buffer.concat(compressed)).toString()).toBe('ab')
})

test('gzipStream passes a failure on to a reader that starts later', async () => {
  const stream = gzipStream(chunks(['a'], new Error('the log is gone')))
  stream.on('error', () => {})
  await nextTurn()
  await expect(stream.toArray()).rejects.toThrow('the log is gone')
})

test('gzipStream ends its source when its reader leaves', async () => {
  let isEnded = false
  async function* endless() {
    try {
      for (;;) yield Buffer.alloc(100_000)
    } finally {
      isEnded = true
    }
  }
  const stream = gzipStream(endless())
  stream.destroy()
  await expect.poll(() => isEnded).toBe(true)
})

test('an export lets the event loop turn between its batches', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const { record } = await storage.conversations.create({ id: 'a' })
  const draft = { kind: 'MessageEvent', source: 'user' }
  await storage.log.append(
    record.id,
    Array.from({ length: 2_000 }, () => draft),
  )
  const [current = record] = await storage.conversations.get([record.id])
  let turns = 0
  let areCounted = true
  const count = () => {
    turns += 1
    if (areCounted) setImmediate(count)
  }
  setImmediate(count)
  let lines = 0
  for await (const chunk of exportEvents(storage.log, current, { meta: false }))
    lines += chunk.toString().split('\n').length - 1
  areCounted = false
  expect(lines).toBe(2_000)
  expect(turns).toBeGreaterThan(5)
})

async function* chunks(texts: readonly string[], error?: Error): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text)
  if (error !== undefined) throw error
}

test('however many exports run, one of them reads in a turn of the event loop', async () => {
  const head = 2_000
  const record = {
    ...{ id: 'c', title: null, tags: {}, status: 'idle', request: null, stats: null },
    ...{ created_at: 0, updated_at: 0, head },
  }
  let reads = 0
  const log = {
    async read(_id: string, after: number, limit: number) {
      reads++
      return Array.from({ length: limit }, (_, at) => {
        const position = after + at + 1
        return { position, id: `${position}`, instant: position, bytes: Buffer.from(`{"n":${position}}`) }
      })
    },
  }
  const readsOfTurns: number[] = []
  let isDone = false
  const countTurn = () => {
    readsOfTurns.push(reads)
    reads = 0
    if (!isDone) setImmediate(countTurn)
  }
  const exports = Array.from({ length: 8 }, async () => {
    const chunks = await Array.fromAsync(exportEvents(log as never, record as never, { meta: false }))
    return Buffer.concat(chunks).toString()
  })
  setImmediate(countTurn)
  const texts = await Promise.all(exports)
  isDone = true
  const all = Array.from({ length: head }, (_, at) => `{"n":${at + 1}}\n`).join('')
  expect(texts.every((text) => text === all)).toBe(true)
  // The one of a turn may come before or after its count.
  expect(Math.max(...readsOfTurns)).toBeLessThanOrEqual(2)
})
