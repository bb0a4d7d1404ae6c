import type { SandboxRow } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { usageHandlers } from './usage-handlers.ts'

const hour = 3_600_000_000
const noon = Date.parse('2026-03-10T12:00:00Z') * 1000

async function open() {
  let now = noon
  const opened = await openTestControlPlane(() => now)
  onTestFinished(() => opened[Symbol.asyncDispose]())
  const { controlPlane } = opened
  const handlers = usageHandlers({ controlPlane, now: () => now })
  const request = (query: object, boundOrg: string | null = null) =>
    ({ caller: { ...root, boundOrg }, query: { by: 'user', ...query } }) as never
  return {
    controlPlane,
    at: (instant: number) => {
      now = instant
    },
    read: async (query: object, boundOrg?: string) =>
      (await handlers.getUsage(request(query, boundOrg ?? null))).json,
    csv: async (query: object) => (await handlers.downloadUsage(request(query))).bytes.toString(),
  }
}

const user = { email: null, org: null, is_admin: false, daily_conversation_limit: null, created_at: 1 }
const conversation = { parent: null, title: null, status: null, members: '{}', created_at: 1, updated_at: 1 }
const report = (accumulated_cost: number) =>
  JSON.stringify({ llm_model: 'x/y', metrics: { accumulated_cost, accumulated_token_usage: null } })

const root = { owner: 'root', isAdmin: true, scopes: ['admin'] }

test('usage has names, the hours of sandboxes that still run, and the days asked for', async () => {
  const { controlPlane, at, read, csv } = await open()
  const { users, conversations, sandboxes } = controlPlane
  await users.addUser({ ...user, id: 'ann', name: '=cmd("x"), Ann' })
  await users.addOrg({ id: 'o', name: 'Org', daily_conversation_limit: null, created_at: 1 })
  await conversations.add({ ...conversation, id: 'c', owner: 'ann', org: 'o', sandbox: 's' })
  await conversations.add({ ...conversation, id: 'd', owner: 'gone', org: null, sandbox: 't' })
  await conversations.update('c', { members: report(1.25) })
  await conversations.update('d', { members: report(0.5) })
  const row: SandboxRow = {
    id: 's',
    owner: 'ann',
    org: 'o',
    spec: 'x',
    backend: 'b',
    wanted: 'running',
    status: 'STARTING',
    detail: null,
    key_hash: null,
    sealed: Buffer.alloc(0),
    epoch: null,
    addresses: '{}',
    created_at: noon,
    changed_at: noon,
    used_at: noon,
    caught_up_at: null,
    deletes_at: null,
  }
  await sandboxes.add(row)
  at(noon + 9 * hour)
  await sandboxes.update('s', { status: 'RUNNING' })
  at(noon + 24 * hour)
  const line = { conversations: 1, prompt_tokens: 0, completion_tokens: 0 }
  expect(await read({})).toMatchObject({
    ...{ by: 'user', from: '2026-03-01', to: '2026-03-11' },
    items: [
      { key: 'ann', name: '=cmd("x"), Ann', cost: 1.25, sandbox_hours: 15, ...line },
      { key: 'gone', name: null, cost: 0.5, sandbox_hours: 0, ...line },
    ],
  })
  expect((await read({ by: 'day' })).items).toMatchObject([
    { key: '2026-03-10', cost: 1.75, conversations: 2, sandbox_hours: 3 },
    { key: '2026-03-11', cost: 0, conversations: 0, sandbox_hours: 12 },
  ])
  expect((await read({ by: 'day', from: '2026-03-11', to: '2026-03-11' })).items).toHaveLength(1)
  expect((await read({ by: 'organization' })).items).toMatchObject([
    { key: null, name: null, cost: 0.5, sandbox_hours: 0 },
    { key: 'o', name: 'Org', cost: 1.25, sandbox_hours: 15 },
  ])
  expect((await read({ by: 'model' })).items).toMatchObject([{ key: 'x/y', cost: 1.75, sandbox_hours: null }])
  expect((await read({ by: 'user' }, 'o')).items.map(({ key }) => key)).toEqual(['ann'])
  expect((await read({ by: 'user' }, 'other')).items).toEqual([])
  await expect(read({ from: '2026-03-12' })).rejects.toMatchObject({ code: 'invalid' })
  // A name that a spreadsheet would run is a text there.
  expect(await csv({})).toBe(
    [
      'key,name,conversations,cost,prompt_tokens,completion_tokens,cache_read_tokens,cache_write_tokens,reasoning_tokens,sandbox_hours',
      'ann,"\'=cmd(""x""), Ann",1,1.25,0,0,0,0,0,15',
      'gone,,1,0.5,0,0,0,0,0,0\r\n',
    ].join('\r\n'),
  )
})
