import { setImmediate as nextTurn } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { gzipStream } from './export.ts'

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

async function* chunks(texts: readonly string[], error?: Error): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text)
  if (error !== undefined) throw error
}
