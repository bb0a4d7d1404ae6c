import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AuditEntry } from './audit.ts'
import { RecentAudit } from './recent-audit.ts'

const entry: AuditEntry = { audit: true, method: 'POST', route: '/x', status: 200, request_id: 'r' }

test('the newest entries come first, page by page, and the oldest are forgotten', () => {
  const recent = new RecentAudit()
  for (let n = 0; n < 1_200; n++) recent.add({ ...entry, request_id: `r${n}` })
  const ids: string[] = []
  for (let before: number | undefined; ; ) {
    const { records, next } = recent.read({ limit: 300, before })
    ids.push(...records.map(({ request_id }) => request_id))
    if (next === undefined) break
    before = next
  }
  expect(ids).toEqual(Array.from({ length: 1_000 }, (_, n) => `r${1_199 - n}`))
  const { records } = recent.read({ limit: 10, matches: ({ request_id }) => request_id === 'r700' })
  expect(records).toMatchObject([{ request_id: 'r700', time: expect.stringMatching(/^\d{4}-.*Z$/) }])
})

test('it begins with the end of an audit file, whatever else is in it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-audit-'))
  try {
    const path = join(directory, 'audit.log')
    const line = (request_id: string) =>
      JSON.stringify({ time: '2026-01-02T03:04:05.000Z', ...entry, caller: 'user:u', request_id })
    await writeFile(path, [line('a'), '{"cut', '"text"', '{}', line('b'), ''].join('\n'))
    const recent = new RecentAudit(path)
    recent.add({ ...entry, request_id: 'c' })
    const { records } = recent.read({ limit: 10 })
    expect(records.map(({ request_id }) => request_id)).toEqual(['c', 'b', 'a'])
    expect(records[1]).toMatchObject({ time: '2026-01-02T03:04:05.000Z', caller: 'user:u' })
    expect(new RecentAudit(join(directory, 'none')).read({ limit: 1 }).records).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})
