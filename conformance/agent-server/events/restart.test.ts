import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { databaseSettings, startAgentServer } from '../../support/agent-server.ts'
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

test('a list leaves out a conversation whose events are damaged, and has all others', async () => {
  await using server = await OwnAgentServer.open()
  const line = (text: string) => toJsonLines(messageLine(`of-${text}`, '2026-01-01T00:00:00Z', text, 'user'))
  const damaged = await server.api.import(line('damaged'))
  const right = await server.api.import(line('right'))
  await server.stop()
  await damageEvents(server.data)
  await server.start()
  for (const query of ['', '?include_skills=true']) {
    const list = await server.api.requestJson<{ items: { id: string }[] }>(
      `/api/conversations/search${query}`,
    )
    expect(list.status).toBe(200)
    expect(list.body.items.map(({ id }) => id)).toEqual([right])
  }
  const single = await server.api.requestJson<{ detail?: string }>(`/api/conversations/${damaged}`)
  expect(single.status).toBe(503)
  expect(JSON.stringify(single.body)).toContain(damaged)
})

/**
 * Behind the back of the server; on PostgreSQL, whose own checksums cover the bodies, by removing the row.
 */
async function damageEvents(data: string): Promise<void> {
  const { SLIPWAY_DATABASE_URL } = await databaseSettings(data)
  if (SLIPWAY_DATABASE_URL === undefined) {
    using db = new DatabaseSync(join(data, 'log.db'))
    db.exec("UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'damaged', 'changed') AS BLOB)")
    return
  }
  const client = new pg.Client({ connectionString: SLIPWAY_DATABASE_URL })
  await client.connect()
  await client.query("DELETE FROM event WHERE id = 'of-damaged'")
  await client.end()
}
