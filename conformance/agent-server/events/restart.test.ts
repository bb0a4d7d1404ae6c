import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startAgentServer } from '../../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const queries = [
  {},
  { sort_order: 'TIMESTAMP_DESC' },
  { kind: 'MessageEvent' },
  { source: 'agent' },
  { body: 'number 1' },
  { timestamp__gte: '2026-01-01T00:00:20Z' },
]

test('a restart changes nothing: the same searches, page ids and exports', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-restart-'))
  try {
    const seconds = (i: number) => `2026-01-01T00:00:${String((i * 7) % 60).padStart(2, '0')}Z`
    const log = toJsonLines(
      ...Array.from({ length: 150 }, (_, i) =>
        messageLine(`e${i}`, seconds(i), `number ${i}`, i % 2 ? 'user' : 'agent'),
      ),
    )
    let id = ''
    const seen = async () => {
      const server = await startAgentServer(data)
      const api = new AgentServerApi({ url: server.url, headers: {}, [Symbol.asyncDispose]: async () => {} })
      if (id === '') {
        id = await api.import(log)
        await api.sendJson('POST', `/api/conversations/${id}/events`, { content: 'number 150' })
        await api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Kept', tags: { a: 'b' } })
      }
      const pages = []
      for (const query of queries) {
        const page = await api.search(id, { ...query, limit: '40' })
        const next = await api.search(id, { ...query, limit: '40', page_id: String(page.next_page_id) })
        pages.push(page, next)
      }
      const info = (await api.requestJson(`/api/conversations/${id}`)).body
      const exported = (await api.export(id)).toString()
      expect(await server.stop()).toBe(0)
      return { pages, info, exported }
    }
    const before = await seen()
    expect(await seen()).toEqual(before)
  } finally {
    await rm(data, { recursive: true })
  }
})

test('a second server on the same directory is refused', async () => {
  const data = await mkdtemp(join(tmpdir(), 'slipway-two-'))
  const first = await startAgentServer(data)
  try {
    await expect(startAgentServer(data)).rejects.toThrow(/in use/)
  } finally {
    await first.stop()
    await rm(data, { recursive: true })
  }
})
