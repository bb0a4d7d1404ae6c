import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { actionsDigest } from '@slipway/protocol/confirmation'
import { expect, test } from 'vitest'
import { Client } from '../calls/agent-server-client.ts'
import { readPendingActions } from './pending-actions.ts'

/** The newest first. */
const pages = [
  [
    { kind: 'ActionEvent', id: 'a4', tool_call_id: 'c4', action: { command: 'four' } },
    { kind: 'UserRejectObservation', id: 'r', action_id: 'a3', tool_call_id: 'c3' },
    { kind: 'AgentErrorEvent', id: 'e', tool_call_id: 'c2', error: 'x'.repeat(1_000) },
  ],
  [
    { kind: 'ConversationStateUpdateEvent', id: 's' },
    { kind: 'ObservationEvent', id: 'o', action_id: 'a1', tool_call_id: 'c1', observation: {} },
    ...[5, 3, 2, 1].map((n) => ({ kind: 'ActionEvent', id: `a${n}`, tool_call_id: `c${n}` })),
    { kind: 'MessageEvent', id: 'm' },
    { kind: 'ActionEvent', id: 'a0', tool_call_id: 'c0' },
  ],
]

test('actions without a result since the last message wait, read in pages as large as there are', async () => {
  const asked: URLSearchParams[] = []
  const server = createServer((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://localhost').searchParams)
    const items = pages[asked.length - 1]
    const next_page_id = asked.length < pages.length ? 'next' : null
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ items, next_page_id }))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  await using _server = {
    [Symbol.asyncDispose]: () => new Promise<void>((done) => server.close(() => done())),
  }
  const client = new Client({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  const { events, digest } = await readPendingActions(client, 'an-id')
  const waiting = [pages[1]?.[2], pages[0]?.[0]]
  expect(events).toEqual(waiting)
  expect(digest).toBe(actionsDigest(waiting as never))
  expect(asked.map((query) => [query.get('limit'), query.get('page_id')])).toEqual([
    ['100', null],
    ['100', 'next'],
  ])
})
