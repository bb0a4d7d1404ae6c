import { stripVTControlCharacters } from 'node:util'
import { type QuotaStatus, unlimited } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { addUserCommand, eraseUserCommand, quotaTable } from './accounts.ts'

test('limits of a user are numbers, and none is unlimited', () => {
  const status: QuotaStatus = {
    ...{ daily_limit_source: 'server', org_id: null, unlimited_org_ids: [] },
    ...{ daily_limit: 5, used_today: 3, remaining: 2, reset_at: '2026-01-02T00:00:00.000000' },
    conversations: { used: 4, limit: unlimited },
    stored_bytes: { used: 1.26 * 1024 * 1024, limit: 7 * 1024 * 1024 },
    sandboxes: { used: 0, limit: 0 },
  }
  const rows = (changed: object) =>
    stripVTControlCharacters(quotaTable({ ...status, ...changed }))
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(/ {2,}/))
  expect(rows({})).toEqual([
    ['conversations today', '3', '5', 'again at 2026-01-02T00:00Z'],
    ['conversations stored', '4', 'unlimited'],
    ['MB of events stored', '1.3', '7'],
    ['running sandboxes', '0', '0'],
  ])
  const free = { used: 0, limit: null }
  expect(rows({ daily_limit: null, stored_bytes: free, sandboxes: free })).toEqual([
    ['conversations today', '3', 'unlimited'],
    ['conversations stored', '4', 'unlimited'],
    ['MB of events stored', '0', 'unlimited'],
    ['running sandboxes', '0', 'unlimited'],
  ])
})

test('the table says why a limit is what it is', () => {
  const free = { used: 0, limit: null }
  const status: QuotaStatus = {
    ...{ daily_limit: null, used_today: 3, remaining: null, reset_at: '2026-01-02T00:00:00.000000' },
    ...{ daily_limit_source: 'exempt_organizations', org_id: 'o1', unlimited_org_ids: [] },
    ...{ conversations: free, stored_bytes: free, sandboxes: free },
  }
  const shown = (changed: Partial<QuotaStatus>) =>
    stripVTControlCharacters(quotaTable({ ...status, ...changed }))
  expect(shown({})).toMatch(/today +3 +unlimited +the organisation is exempt/)
  expect(shown({ daily_limit: 7, daily_limit_source: 'organization' })).toMatch(
    /7 +again at 2026-01-02T00:00Z, set for the organisation/,
  )
  const member = shown({ daily_limit: 2, daily_limit_source: 'server', unlimited_org_ids: ['o2'] })
  expect(member).toContain('No daily limit in the organisation o2: use a key that is bound to it.')
})

const ann = { id: '8b0f3c1e-3f0e-4c53-9b7e-0f4a2f1d7c55', name: 'ann', email: null }

/** A server with the user Ann, and the names of what is called. */
function contextOf(): { readonly context: SandboxServerContext; readonly calls: string[] } {
  const calls: string[] = []
  const call = async (operation: string) => {
    calls.push(operation)
    return { items: [ann], next_page_id: null }
  }
  const context = { client: { call }, isJson: true, signal: new AbortController().signal }
  return { context: context as never, calls }
}

test('nothing is erased without a terminal or --yes, and the refusal has the id for it', async () => {
  const { context, calls } = contextOf()
  await expect(eraseUserCommand(context, 'ann', { yes: false })).rejects.toThrow(
    `Nothing was erased. Erase it with: slipway users erase ${ann.id} --yes`,
  )
  await expect(eraseUserCommand(context, 'erased-0123456789abcdef', { yes: false })).rejects.toThrow(
    'Nothing',
  )
  expect(calls).toEqual(['listUsers'])
})

test('a second user of the same name is not added', async () => {
  const { context, calls } = contextOf()
  await expect(addUserCommand(context, 'ann', { admin: false })).rejects.toThrow(
    'There is a user ann already',
  )
  expect(calls).toEqual(['listUsers'])
})
