import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { AppConversationFilter } from '../../control-plane/app-conversations.ts'
import {
  allConversationsListing,
  allSandboxesListing,
  auditListing,
  conversationListing,
  type Listing,
  newestFirst,
  sandboxListing,
  taskListing,
} from '../../control-plane/listings.ts'
import type { Scope } from '../../control-plane/rows.ts'
import { childrenClause, idsOfOwnerSql, sandboxClause } from '../../control-plane/stores/app-conversations.ts'
import { pruneSql, pruneWithoutCallerSql } from '../../control-plane/stores/audit.ts'
import {
  monthSql,
  oldReservationsSql,
  openRequestClause,
  reservationSql,
} from '../../control-plane/stores/budgets.ts'
import { documentSql } from '../../control-plane/stores/documents.ts'
import { countSql, positionSql, targetClause } from '../../control-plane/stores/pending-messages.ts'
import { usedSql } from '../../control-plane/stores/quota.ts'
import { eventsSql, logSql, oldEventsSql, trimEventsSql } from '../../control-plane/stores/sandbox-events.ts'
import {
  batchClause,
  grantedSql,
  keyClause,
  pooledClause,
  runningBatchClause,
  runningClause,
  totalsSql,
} from '../../control-plane/stores/sandboxes.ts'
import { removeByConversationSql, unfinishedClause } from '../../control-plane/stores/start-tasks.ts'
import { pageSql } from '../../control-plane/stores/table.ts'
import { hashClause, keysClause, limitsSql, orgsOfUserClause } from '../../control-plane/stores/users.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { Database } from '../database/database.ts'
import { controlPlaneMigrations } from './schema.ts'
import { titleSearch } from './session.ts'

const scopes: readonly Scope[] = [{ owner: null }, { owner: 'a', org: 'o' }]
const starts = [undefined, { value: 1, id: 'x' }]
const moments = ['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC'] as const

function queryPlans(statements: readonly string[]): string[] {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'test.db')
  const db = new Database(path, {
    synchronous: 'NORMAL',
    cacheBytes: 1_000_000,
    migrations: controlPlaneMigrations,
  })
  const steps = statements.flatMap((sql) => db.plan(sql))
  db.close()
  return steps
}

function pageStatements(table: string, listings: readonly Listing[]): string[] {
  return listings.flatMap((listing) =>
    starts.map((start) => `SELECT * FROM ${table} ${pageSql(listing, start).clause}`),
  )
}

test('pages are read in the order of an index without sorting', () => {
  const filters: AppConversationFilter[] = [
    {},
    { title__contains: 'x', sandbox_id__eq: 's', created_at__gte: 1, updated_at__lt: 2 },
    { include_sub_conversations: true },
  ]
  const orders = [...moments, 'TITLE', 'TITLE_DESC'] as const
  const conversations = scopes.flatMap((scope) =>
    filters.flatMap((filter) =>
      orders.map((sort_order) => conversationListing(scope, { ...filter, sort_order }, titleSearch)),
    ),
  )
  const tasks = scopes.flatMap((scope) =>
    [{}, { conversation_id__eq: 'c', created_at__gte: 1 }].flatMap((filter) =>
      moments.map((sort_order) => taskListing(scope, { ...filter, sort_order })),
    ),
  )
  const owned = [
    ...pageStatements('app_conversation', conversations),
    ...pageStatements('start_task', tasks),
    ...pageStatements('sandbox', scopes.map(sandboxListing)),
  ]
  for (const step of queryPlans(owned)) expect(step).toMatch(/^SEARCH \w+ USING INDEX \w+ \(owner=\?/)
  const ofAll = pageStatements('sandbox', [sandboxListing({ isEveryOwner: true })])
  for (const step of queryPlans(ofAll))
    expect(step).toMatch(/^(SCAN|SEARCH) \w+ USING INDEX sandbox_of_users/)
  const audits = [{}, { caller: 'user:u', text: 'x', isRefused: true }, { target: 't', action: 'a' }]
  for (const step of queryPlans(pageStatements('audit', audits.map(auditListing))))
    expect(step).toMatch(/^(SCAN|SEARCH) audit USING INDEX audit_/)
  const foundConversations = [...moments, 'COST', 'COST_DESC'] as const
  const filtered = foundConversations.map((sort_order) =>
    allConversationsListing({ sort_order, owner: 'a', org: 'o', status: 's', title: 'x' }, titleSearch),
  )
  for (const step of queryPlans(pageStatements('app_conversation', filtered)))
    expect(step).toMatch(/^(SCAN|SEARCH) \w+ USING INDEX conversation_of_users/)
  const found = (['CREATED_AT', 'USED_AT_DESC', 'COST', 'COST_DESC'] as const).map((sort_order) =>
    allSandboxesListing({ sort_order, status: 's', owner: 'a', org: 'o' }, 'sqlite'),
  )
  for (const step of queryPlans(pageStatements('sandbox', found)))
    expect(step).toMatch(/^(SCAN|SEARCH) \w+ USING INDEX sandbox_of_users/)
  const [users = [], orgs = []] = [newestFirst('user_created'), newestFirst('org_created')].map((listing) => [
    listing,
  ])
  for (const step of queryPlans([...pageStatements('user', users), ...pageStatements('org', orgs)]))
    expect(step).toMatch(/^(SCAN|SEARCH) \w+ USING INDEX/)
})

test('every other query searches an index', () => {
  const tails = [
    ['sandbox', pooledClause, runningClause('a'), keyClause, batchClause],
    ['app_conversation', sandboxClause, childrenClause],
    ['api_key', keysClause, hashClause],
    ['pending_message', targetClause],
    ['budget_request', openRequestClause],
  ].flatMap(([table, ...tails]) => tails.map((tail) => `SELECT * FROM ${table} ${tail}`))
  const whole = [
    limitsSql,
    idsOfOwnerSql,
    removeByConversationSql,
    documentSql,
    grantedSql,
    usedSql,
    countSql,
    positionSql,
    pruneSql,
    pruneWithoutCallerSql,
    eventsSql,
    trimEventsSql,
    logSql,
    totalsSql(2),
    oldEventsSql,
    monthSql(['user:a', 'organization:b']),
    reservationSql,
    oldReservationsSql,
  ]
  for (const step of queryPlans([...tails, ...whole]))
    expect(step).toMatch(/^(SEARCH |(CORRELATED )?SCALAR SUBQUERY)/)
  const [unfinished] = queryPlans([`SELECT * FROM start_task ${unfinishedClause}`])
  expect(unfinished).toBe('SCAN start_task USING INDEX start_task_unfinished')
  const [running] = queryPlans([`SELECT * FROM sandbox ${runningBatchClause}`])
  expect(running).toBe('SCAN sandbox USING INDEX sandbox_running')
  const [memberships, orgs] = queryPlans([`SELECT org.* FROM org ${orgsOfUserClause}`])
  expect(memberships).toBe('SEARCH member USING PRIMARY KEY (user=?)')
  expect(orgs).toMatch(/^SEARCH org USING INDEX/)
})
