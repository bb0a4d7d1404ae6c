import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { startAgentServer } from '../../support/agent-server.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const queries = [
  {},
  { sort_order: 'TIMESTAMP_DESC' },
  { kind: 'MessageEvent' },
  { source: 'agent' },
  { body: 'number 1' },
  { timestamp__gte: '2026-01-01T00:00:20Z' },
]

test('a restart changes nothing: the same searches, page ids and exports', async () => {
  await using server = await OwnAgentServer.open({ isInProcess: true })
  const seconds = (i: number) => `2026-01-01T00:00:${String((i * 7) % 60).padStart(2, '0')}Z`
  const log = toJsonLines(
    ...Array.from({ length: 150 }, (_, i) =>
      messageLine(`e${i}`, seconds(i), `number ${i}`, i % 2 ? 'user' : 'agent'),
    ),
  )
  const id = await server.api.import(log)
  await server.api.sendJson('POST', `/api/conversations/${id}/events`, {
    content: [{ type: 'text', text: 'number 150' }],
  })
  await server.api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Stored', tags: { a: 'b' } })
  const readAll = async ({ api }: OwnAgentServer) => {
    const pages = []
    for (const query of queries) {
      const page = await api.search(id, { ...query, limit: '40' })
      const next = await api.search(id, { ...query, limit: '40', page_id: String(page.next_page_id) })
      pages.push(page, next)
    }
    const info = (await api.requestJson(`/api/conversations/${id}`)).body
    return { pages, info, exported: (await api.export(id)).toString() }
  }
  const before = await readAll(server)
  expect(await server.stop()).toBe(0)
  await server.start()
  expect(await readAll(server)).toEqual(before)
})

test('a second server on the same directory is refused', async () => {
  await using first = await OwnAgentServer.open({ isInProcess: true })
  await expect(startAgentServer(first.data)).rejects.toThrow(/in use/)
})
