import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AppConversationFilter, Scope } from '../../control-plane/control-plane-store.ts'
import { temporary } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { childrenTail, listingOf, sandboxTail } from './app-conversations.ts'
import { documentSql } from './documents.ts'
import { moveSql, placeSql, targetTail, waitingSql } from './pending-messages.ts'
import { usedSql } from './quota.ts'
import { batchTail, keyTail, othersSql, pooledTail, runningTail, sandboxListing } from './sandboxes.ts'
import { ledgerMigrations } from './schema.ts'
import { removeOfSql, taskListing, unfinishedTail } from './start-tasks.ts'
import { type Listing, pageSql } from './table.ts'
import { hashTail, keysTail, newest, orgsOfTail } from './users.ts'

const scopes: readonly Scope[] = [{ owner: null }, { owner: 'a', org: 'o' }]
const starts = [undefined, { value: 1, id: 'x' }]
const moments = ['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC'] as const

function plansOf(statements: readonly string[]): string[] {
  using directory = temporary()
  const path = join(directory.path, 'test.db')
  const db = new Database(path, {
    synchronous: 'NORMAL',
    cacheBytes: 1_000_000,
    migrations: ledgerMigrations,
  })
  const steps = statements.flatMap((sql) => db.plan(sql))
  db.close()
  return steps
}

function pagesOf<R>(table: string, listings: readonly Listing<R>[]): string[] {
  return listings.flatMap((listing) =>
    starts.map((start) => `SELECT * FROM ${table} ${pageSql(listing, start).tail}`),
  )
}

test('pages are walked in the order of an index, from where they begin: nothing is sorted', () => {
  const filters: AppConversationFilter[] = [
    {},
    { title__contains: 'x', sandbox_id__eq: 's', created_at__gte: 1, updated_at__lt: 2 },
    { include_sub_conversations: true },
  ]
  const orders = [...moments, 'TITLE', 'TITLE_DESC'] as const
  const conversations = scopes.flatMap((scope) =>
    filters.flatMap((filter) =>
      orders.map((sort_order) => listingOf(scope, { ...filter, sort_order, limit: 1 })),
    ),
  )
  const tasks = scopes.flatMap((scope) =>
    [{}, { conversation_id__eq: 'c', created_at__gte: 1 }].flatMap((filter) =>
      moments.map((sort_order) => taskListing(scope, { ...filter, sort_order })),
    ),
  )
  const owned = [
    ...pagesOf('app_conversation', conversations),
    ...pagesOf('start_task', tasks),
    ...pagesOf('sandbox', scopes.map(sandboxListing)),
  ]
  for (const step of plansOf(owned)) expect(step).toMatch(/^SEARCH \w+ USING INDEX \w+ \(owner=\?/)
  const [users = [], orgs = []] = [newest('user_created'), newest('org_created')].map((listing) => [listing])
  for (const step of plansOf([...pagesOf('user', users), ...pagesOf('org', orgs)]))
    expect(step).toMatch(/^(SCAN|SEARCH) \w+ USING INDEX/)
})

test('every other question is answered by a search in an index', () => {
  const tails = [
    ['sandbox', pooledTail, runningTail, keyTail, batchTail],
    ['app_conversation', sandboxTail, childrenTail],
    ['api_key', keysTail, hashTail],
    ['pending_message', targetTail],
  ].flatMap(([table, ...tails]) => tails.map((tail) => `SELECT * FROM ${table} ${tail}`))
  const whole = [othersSql, removeOfSql, documentSql, usedSql, waitingSql, placeSql, moveSql]
  for (const step of plansOf([...tails, ...whole])) expect(step).toMatch(/^(SEARCH |SCALAR SUBQUERY)/)
  const [unfinished] = plansOf([`SELECT * FROM start_task ${unfinishedTail}`])
  expect(unfinished).toBe('SCAN start_task USING INDEX start_task_unfinished')
  const [memberships, orgs] = plansOf([`SELECT org.* FROM org ${orgsOfTail}`])
  expect(memberships).toBe('SEARCH member USING PRIMARY KEY (user=?)')
  expect(orgs).toMatch(/^SEARCH org USING INDEX/)
})
