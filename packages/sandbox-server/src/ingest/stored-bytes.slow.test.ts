import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'

const slow = { timeout: 120_000 }
const mebibyte = 1024 * 1024

/** A sandbox of each of two users, which sends events; agent servers do not exist. */
async function openIngest(limits: { readonly maxStoredMb?: number; readonly maxConversations?: number }) {
  const stage = await openTestServer(limits)
  stage.sandboxes.next = { status: 'RUNNING' }
  const keys = new Map<string, string>()
  for (const id of ['ada', 'bob']) {
    const more = { email: null, org: null, is_admin: false, daily_conversation_limit: null, created_at: 1 }
    await stage.controlPlane.users.addUser({ id, name: id, ...more })
    const sandbox = await stage.sandboxes.start({ owner: id })
    keys.set(id, stage.sandboxes.getSandbox(sandbox.id).key)
    stage.sandboxes.getSandbox(sandbox.id).url = 'http://127.0.0.1:9'
  }
  const send = async (owner: string, conversation: string, ids: readonly string[], size = 200_000) => {
    const events = ids.map((id) => ({
      id,
      timestamp: '2026-03-01T10:00:00',
      kind: 'PauseEvent',
      source: 'user',
      text: 'x'.repeat(size),
    }))
    const headers = { 'x-session-api-key': keys.get(owner) ?? '' }
    return await stage.call('POST', `/webhooks/events/${conversation}`, events, headers)
  }
  return { ...stage, send }
}

const full = { status: 507, json: { detail: { code: 'stored_bytes_limit_reached', limit: mebibyte } } }

test(
  'events above the limit of their owner are refused as a whole, and others store theirs',
  slow,
  async () => {
    await using ingest = await openIngest({ maxStoredMb: 1 })
    const [first, second] = [randomUUID(), randomUUID()]
    expect((await ingest.send('ada', first, ['1', '2', '3'])).status).toBe(200)
    // What is stored already takes nothing again.
    for (let n = 0; n < 5; n++) expect((await ingest.send('ada', first, ['3'])).status).toBe(200)
    expect((await ingest.send('ada', second, ['1'])).status).toBe(200)
    expect(await ingest.send('ada', second, ['2', '3'])).toMatchObject(full)
    expect((await ingest.storage.conversations.get([second]))[0]?.head).toBe(1)
    expect((await ingest.send('bob', randomUUID(), ['1', '2', '3'])).status).toBe(200)
    expect((await ingest.send('ada', second, ['2'])).status).toBe(200)
    expect(await ingest.send('ada', second, ['3'])).toMatchObject(full)

    // Deleting makes room.
    expect(
      (await ingest.call('DELETE', `/app-conversations/${first}`, undefined, { 'x-user': 'ada' })).status,
    ).toBe(200)
    expect((await ingest.send('ada', randomUUID(), ['1'])).status).not.toBe(507)
  },
)

test('concurrent batches of one owner do not pass the limit together', slow, async () => {
  await using ingest = await openIngest({ maxStoredMb: 1 })
  const replies = await Promise.all(
    Array.from({ length: 8 }, () => ingest.send('ada', randomUUID(), ['1', '2'])),
  )
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(2)
  expect(await ingest.storage.conversations.sumBytes()).toBeLessThan(mebibyte)
})

test(
  'a sandbox cannot create more conversations than its owner may have, and no start can',
  slow,
  async () => {
    await using ingest = await openIngest({ maxConversations: 2 })
    const ids = [randomUUID(), randomUUID(), randomUUID()]
    const replies = await Promise.all(ids.map((id) => ingest.send('ada', id, ['1'], 10)))
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 200, 429])
    expect((await ingest.send('bob', randomUUID(), ['1'], 10)).status).toBe(200)
    const refused = await ingest.call('POST', '/app-conversations', {}, { 'x-user': 'ada' })
    expect(refused).toMatchObject({
      status: 429,
      json: { detail: { code: 'conversation_limit_reached', limit: 2, used: 2 } },
    })
    expect(await ingest.quota.used).toBe(0)
    await ingest.controlPlane.users.setLimits('ada', { max_conversations: 3 })
    expect((await ingest.send('ada', randomUUID(), ['1'], 10)).status).toBe(200)
  },
)
