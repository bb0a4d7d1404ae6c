import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

/** The files of a zip that stores them as they are, by its central directory. */
function filesOf(zip: Buffer): Map<string, string> {
  const end = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'))
  const count = zip.readUInt16LE(end + 10)
  const files = new Map<string, string>()
  let at = zip.readUInt32LE(end + 16)
  for (let index = 0; index < count; index++) {
    expect(zip.readUInt32LE(at)).toBe(0x02014b50)
    const sizeBytes = zip.readUInt32LE(at + 20)
    const nameBytes = zip.readUInt16LE(at + 28)
    const name = zip.toString('utf8', at + 46, at + 46 + nameBytes)
    const local = zip.readUInt32LE(at + 42)
    const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    files.set(name, zip.toString('utf8', from, from + sizeBytes))
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32)
  }
  return files
}

async function openFilled(events: readonly object[]) {
  const stage = await openTestServer()
  stage.sandboxes.next = { status: 'RUNNING' }
  const { id: sandbox } = await stage.sandboxes.start({ owner: 'ada' })
  const { key } = stage.sandboxes.getSandbox(sandbox)
  stage.sandboxes.getSandbox(sandbox).url = 'http://127.0.0.1:9'
  const id = randomUUID()
  const headers = { 'x-session-api-key': key }
  await stage.call('POST', '/webhooks/conversations', { id, title: 'T' }, headers)
  for (let from = 0; from < events.length; from += 2000) {
    const { status } = await stage.call(
      'POST',
      `/webhooks/events/${id}`,
      events.slice(from, from + 2000),
      headers,
    )
    expect(status).toBe(200)
  }
  return { ...stage, id, key, path: `/app-conversations/${id}/download` }
}

const event = (id: string, more: object = {}) => ({
  id,
  timestamp: '2026-03-01T10:00:00Z',
  kind: 'PauseEvent',
  source: 'user',
  ...more,
})

test('a zip contains the record and each stored event under safe names, and no key', async () => {
  const events = [event('a'), event('../../etc/é\n'), event('x'.repeat(300)), event('a', { second: true })]
  await using stage = await openFilled(events)
  const response = await stage.open('GET', stage.path)
  const hex = stage.id.replaceAll('-', '')
  expect(response.headers.get('content-type')).toBe('application/zip')
  expect(response.headers.get('content-disposition')).toBe(`attachment; filename=conversation_${hex}.zip`)
  const files = filesOf(Buffer.from(await response.arrayBuffer()))
  expect([...files.keys()]).toEqual([
    'meta.json',
    'event_000001_a.json',
    'event_000002_..-..-etc---.json',
    `event_000003_${'x'.repeat(100)}.json`,
    'event_000004_a.json',
  ])
  expect([...files.values()].slice(1)).toEqual(events.map((one) => JSON.stringify(one)))
  expect(JSON.parse(String(files.get('meta.json')))).toMatchObject({
    id: hex,
    title: 'T',
    session_api_key: null,
  })
  expect(files.get('meta.json')).not.toContain(stage.key)
  expect((await stage.open('GET', stage.path, undefined, { 'x-user': 'bob' })).status).toBe(404)
})

test('a conversation without events has a zip too', async () => {
  await using stage = await openFilled([])
  const response = await stage.open('GET', stage.path)
  expect([...filesOf(Buffer.from(await response.arrayBuffer())).keys()]).toEqual(['meta.json'])
})

test('one download at a time for a conversation; an aborted one frees it', { timeout: 60_000 }, async () => {
  const text = 'x'.repeat(4_000)
  const events = Array.from({ length: 6_000 }, (_, at) => event(`e${at}`, { text }))
  await using stage = await openFilled(events)
  const controller = new AbortController()
  const first = await fetch(`${stage.url}/api/v1${stage.path}`, { signal: controller.signal })
  expect(first.status).toBe(200)
  const second = await stage.call('GET', stage.path)
  expect(second.status).toBe(409)
  controller.abort()
  await first.body?.cancel().catch(() => undefined)
  const third = await stage.until(
    () => stage.open('GET', stage.path),
    ({ status }) => status === 200,
  )
  expect(filesOf(Buffer.from(await third.arrayBuffer())).size).toBe(6_001)
  expect(stage.logged.filter((line) => line.includes('request failed'))).toEqual([])
  expect((await stage.open('HEAD', stage.path)).status).toBe(200)
  expect((await stage.open('GET', stage.path)).status).toBe(200)
})
