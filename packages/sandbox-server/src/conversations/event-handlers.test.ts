import { randomUUID } from 'node:crypto'
import { openStorage } from '@slipway/storage'
import { type AppConversationRow, ownedBy } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane, temporaryDirectory } from '../testing/fixtures.ts'
import { eventHandlers } from './event-handlers.ts'
import { timelineHandlers } from './timeline-handlers.ts'

const start = Date.UTC(2026, 0, 1) * 1000

/** Two users, each with a conversation of two messages. */
async function openHistory() {
  const opened = await openTestControlPlane()
  const directory = temporaryDirectory()
  const storage = await openStorage({ directory: directory.path })
  onTestFinished(async () => {
    await storage[Symbol.asyncDispose]()
    directory[Symbol.dispose]()
    await opened[Symbol.asyncDispose]()
  })
  const { conversations: rows } = opened.controlPlane
  const conversations = {
    findOwned: async (scope: { owner: string | null; org?: string | undefined }, ids: readonly string[]) =>
      (await rows.get(ids)).map((row) => (ownedBy(scope).includes(row) ? row : undefined)),
    list: rows.search.bind(rows),
  }
  const ids: Record<string, string> = {}
  for (const owner of ['ann', 'bob']) {
    const id = randomUUID()
    ids[owner] = id
    const row: AppConversationRow = {
      ...{
        id,
        owner,
        org: null,
        sandbox: 's',
        parent: null,
        title: `Of ${owner}`,
        status: null,
        members: '{}',
      },
      ...{ created_at: start, updated_at: start },
    }
    await rows.add(row)
    await storage.conversations.create({ id })
    const events = [0, 1].map((i) => {
      const llm_message = { role: 'user', content: [{ type: 'text', text: `A needle of ${owner}` }] }
      const event = {
        id: `${owner}-${i}`,
        timestamp: '2026-01-01T00:00:00',
        source: 'user',
        llm_message,
        kind: 'MessageEvent',
      }
      const bytes = Buffer.from(JSON.stringify(event))
      return { bytes, id: event.id, instant: start + i, kind: event.kind, source: event.source }
    })
    await storage.log.append(id, events)
  }
  const handlers = {
    ...eventHandlers({ conversations, storage }),
    ...timelineHandlers({ conversations, storage }),
  }
  const caller = {
    owner: 'ann',
    org: undefined,
    scopes: ['read'],
    keyId: null,
    expiresAt: null,
    boundOrg: null,
    isAdmin: false,
  }
  /** Calls a handler as Ann and returns its JSON. */
  const call = async (handle: (request: never) => unknown, owner: string, query: object) => {
    const request = { caller, params: { conversation_id: ids[owner] }, query, header: () => undefined }
    const reply = (await handle(request as never)) as { json?: unknown; bytes?: Buffer }
    return reply.json ?? JSON.parse(String(reply.bytes))
  }
  return { handlers, call, ids }
}

test('the timeline of a conversation is there for its owner, and empty for others', async () => {
  const { handlers, call } = await openHistory()
  const find = { from: 1, direction: 'next', limit: 10, failed: false }
  expect(await call(handlers.readHomeEventRange, 'ann', { first: 2, limit: 10 })).toMatchObject({
    ...{ first: 2, head: 2, items: [{ id: 'ann-1' }] },
  })
  expect(await call(handlers.homeEventsOverview, 'ann', { buckets: 10 })).toMatchObject({
    ...{
      head: 2,
      covered: 2,
      bucket_size: 1,
      buckets: [{ kinds: { MessageEvent: 1 } }, { first: 2, last: 2 }],
    },
  })
  expect(await call(handlers.findHomeEvents, 'ann', find)).toEqual({ positions: [1, 2], next_from: null })
  expect(await call(handlers.readHomeEventRange, 'bob', { at: start, limit: 10 })).toEqual({
    first: 1,
    head: 0,
    items: [],
  })
  expect(await call(handlers.homeEventsOverview, 'bob', { buckets: 10 })).toMatchObject({
    head: 0,
    buckets: [],
  })
  expect(await call(handlers.findHomeEvents, 'bob', find)).toEqual({ positions: [], next_from: null })
})

test('a search of texts finds those of the caller alone', async () => {
  const { handlers, call, ids } = await openHistory()
  const query = { body: 'NEEDLE', limit: 20, sort_order: 'CREATED_AT_DESC', include_sub_conversations: false }
  const { items, next_page_id } = await call(handlers.searchAppConversationTexts, 'ann', query)
  expect(next_page_id).toBeNull()
  expect(items).toMatchObject([
    {
      conversation_id: ids.ann?.replaceAll('-', ''),
      title: 'Of ann',
      hits: [{ position: 2, text: 'A needle of ann', match: [2, 8] }, { position: 1 }],
    },
  ])
  expect(JSON.stringify(items)).not.toContain('bob')
  expect(await call(handlers.searchAppConversationTexts, 'ann', { ...query, body: 'of bob' })).toEqual({
    items: [],
    next_page_id: null,
  })
})
