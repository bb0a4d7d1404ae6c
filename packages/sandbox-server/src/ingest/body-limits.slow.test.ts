import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'
import type { BodyLimits } from './event-ingest.ts'
import { JsonArraySplitter } from './json-array-splitter.ts'

const slow = { timeout: 120_000 }
const mebibyte = 1024 * 1024

/** Two sandboxes of two owners that send events. */
async function openIngest(bodyLimits?: BodyLimits) {
  const stage = await openTestServer(bodyLimits === undefined ? {} : { bodyLimits })
  stage.sandboxes.next = { status: 'RUNNING' }
  const keys = new Map<string, string>()
  for (const owner of ['ada', 'bob']) {
    const { id } = await stage.sandboxes.start({ owner })
    keys.set(owner, stage.sandboxes.getSandbox(id).key)
  }
  return {
    ...stage,
    async post(owner: string, conversation: string, body: Buffer | string, encoding = 'identity') {
      const response = await fetch(`${stage.url}/api/v1/webhooks/events/${conversation}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'content-encoding': encoding,
          'x-session-api-key': keys.get(owner) ?? '',
        },
        body: new Uint8Array(Buffer.from(body)),
      })
      return { status: response.status, text: await response.text() }
    },
  }
}

function event(text: string, id = 'e1'): string {
  const members = `"id":"${id}","timestamp":"2026-03-01T10:00:00","kind":"MessageEvent","source":"user"`
  return `{${members},"llm_message":{"role":"user","content":[{"type":"text","text":"${text}"}]}}`
}

test('few compressed bytes do not become many stored ones', slow, async () => {
  await using ingest = await openIngest()
  const bomb = gzipSync(`[${event('x'.repeat(58 * mebibyte))}]`, { level: 9 })
  expect(bomb.length).toBeLessThan(262_144)
  const ids = [randomUUID(), randomUUID()]
  const memoryBefore = process.memoryUsage().rss
  const replies = await Promise.all(ids.map((id) => ingest.post('ada', id, bomb, 'gzip')))
  expect(replies.map(({ status }) => status)).toEqual([413, 413])
  expect(process.memoryUsage().rss - memoryBefore).toBeLessThan(400 * mebibyte)
  for (const id of ids) expect((await ingest.storage.conversations.get([id]))[0]?.head ?? 0).toBe(0)
  // Compressed bodies of the size of uncompressed ones are stored.
  const small = gzipSync(`[${event('y'.repeat(mebibyte))}]`)
  expect((await ingest.post('ada', randomUUID(), small, 'gzip')).status).toBe(200)
  expect((await ingest.post('bob', randomUUID(), `[${event('z')}]`)).status).toBe(200)
})

test('an event with millions of values is refused before it is parsed', slow, async () => {
  await using ingest = await openIngest()
  const values = '[],'.repeat(4_000_000)
  const body = `[{"id":"e","timestamp":"2026-03-01T10:00:00","kind":"PauseEvent","source":"user","x":[${values}0]}]`
  expect(await ingest.post('ada', randomUUID(), body)).toMatchObject({
    status: 413,
    text: expect.stringContaining('values'),
  })
  const splitter = new JsonArraySplitter()
  const manyEvents = Array.from({ length: 3 }, () => `[${'0,'.repeat(1_500_000)}0]`)
  expect(splitter.push(Buffer.from(`[${manyEvents.join(',')}]`))).toHaveLength(3)
})

test('large bodies of one owner at once wait or are refused, and leave room for others', slow, async () => {
  const limits = { totalBytes: 4 * mebibyte, bytesPerKey: 2 * mebibyte, maxWaitMs: 10_000 }
  await using ingest = await openIngest(limits)
  const large = `[${event('x'.repeat(1.5 * mebibyte))}]`
  const ids = Array.from({ length: 4 }, () => randomUUID())
  const all = Promise.all(ids.map((id) => ingest.post('ada', id, large)))
  const other = await ingest.post('bob', randomUUID(), `[${event('z')}]`)
  expect(other.status).toBe(200)
  const replies = await all
  for (const { status } of replies) expect([200, 503]).toContain(status)
  expect(replies.some(({ status }) => status === 200)).toBe(true)
  // What never fits is refused at once.
  const tooLarge = `[${event('x'.repeat(3 * mebibyte))}]`
  expect((await ingest.post('ada', randomUUID(), tooLarge)).status).toBe(503)
  expect((await ingest.post('ada', randomUUID(), large)).status).toBe(200)
})
