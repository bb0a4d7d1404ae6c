import { foldCase } from '../text/case-folding.ts'
import type {
  AllConversationsQuery,
  AppConversationFilter,
  AppConversationQuery,
} from './app-conversations.ts'
import type { AuditFilter } from './audit-rows.ts'
import { ownedBy } from './owned-by.ts'
import type { AdminScope, RowSort, Scope } from './rows.ts'
import type { SandboxFilter, SandboxSort } from './sandboxes.ts'
import type { StartTaskFilter, StartTaskQuery } from './start-tasks.ts'

type ConditionValue = string | number | Buffer | null

/** Conditions in SQL with `?` for each value, all of which hold. */
export interface Conditions {
  readonly where: string[]
  readonly values: ConditionValue[]
}

/** One order of a table, and a selection of its rows. */
export interface Listing {
  /** The index that has the order; part of page ids. */
  readonly index: string
  /** The column that orders rows; equal ones are in order of their ids. */
  readonly by: string
  readonly isDescending: boolean
  readonly where: readonly string[]
  readonly values: readonly ConditionValue[]
}

/** How an engine finds a folded text in folded titles: a condition with `?`, and the form of folded texts. */
export interface TitleSearch {
  readonly condition: string
  toValue(folded: string): ConditionValue
}

/** Titles are ordered by this many characters of their folded text; a page id contains them. */
const titleKeyLength = 100

/** The rows of conversations that a query selects, in its order. */
export function conversationListing(
  scope: Scope,
  { sort_order, ...filter }: Omit<AppConversationQuery, 'limit'>,
  search: TitleSearch,
): Listing {
  const conditions = conversationConditions(scope, filter, search)
  if (sort_order !== 'TITLE' && sort_order !== 'TITLE_DESC')
    return timestampListing('app_conversation', sort_order, conditions)
  const isDescending = sort_order === 'TITLE_DESC'
  return { ...conditions, index: 'app_conversation_title', by: 'title_key', isDescending }
}

export function conversationConditions(
  scope: Scope,
  filter: AppConversationFilter,
  search: TitleSearch,
): Conditions {
  const conditions: Conditions = ownedBy(scope)
  const { title__contains: title } = filter
  addConditions(conditions, {
    [search.condition]: title ? search.toValue(foldCase(title)) : undefined,
    'created_at >= ?': filter.created_at__gte,
    'created_at < ?': filter.created_at__lt,
    'updated_at >= ?': filter.updated_at__gte,
    'updated_at < ?': filter.updated_at__lt,
    'sandbox = ?': filter.sandbox_id__eq,
  })
  if (filter.include_sub_conversations !== true) conditions.where.push('parent IS NULL')
  return conditions
}

/** The rows of start tasks that a query selects, in its order. */
export function taskListing(scope: Scope, { sort_order, ...filter }: Omit<StartTaskQuery, 'limit'>): Listing {
  return timestampListing('start_task', sort_order, taskConditions(scope, filter))
}

export function taskConditions(scope: Scope, filter: StartTaskFilter): Conditions {
  const conditions: Conditions = ownedBy(scope)
  addConditions(conditions, {
    'conversation = ?': filter.conversation_id__eq,
    'created_at >= ?': filter.created_at__gte,
  })
  return conditions
}

/** The visible sandboxes, newest first. */
export function sandboxListing(scope: Scope | AdminScope): Listing {
  const { where, values } = ownedBy(scope)
  const visible = [...where, `wanted <> 'gone'`]
  const index = 'isEveryOwner' in scope ? 'sandbox_of_users' : 'sandbox_created'
  return { index, by: 'created_at', isDescending: true, where: visible, values }
}

/** Lines of the audit, newest first, by the index of the rarest condition. */
export function auditListing({ isRefused, text, ...filter }: AuditFilter): Listing {
  const conditions: Conditions = { where: [], values: [] }
  addConditions(conditions, {
    'caller = ?': filter.caller,
    'target = ?': filter.target,
    'target_type = ?': filter.target_type,
    'action = ?': filter.action,
    'org = ?': filter.org,
    'created_at >= ?': filter.created_at__gte,
    'created_at < ?': filter.created_at__lt,
    [auditTextCondition]: text === undefined ? undefined : containing(text.toLowerCase()),
  })
  if (isRefused) conditions.where.push('coalesce(status, 500) >= 400')
  const by = filter.target !== undefined ? 'target' : filter.caller !== undefined ? 'caller' : 'created'
  return { ...conditions, index: `audit_${by}`, by: 'created_at', isDescending: true }
}

const auditTexts = 'action method route caller via target conversation sandbox request_id'.split(' ')
const auditTextCondition = `lower(${auditTexts.map((column) => `coalesce(${column}, '')`).join(` || ' ' || `)}) LIKE ? ESCAPE '!'`

/** The visible sandboxes of all users that a filter selects. */
export function allSandboxesListing(
  filter: SandboxFilter & { readonly sort_order: SandboxSort },
  engine: 'sqlite' | 'postgres',
): Listing {
  const { sort_order, owner, org, status, text } = filter
  const conditions: Conditions = { where: ['owner IS NOT NULL', `wanted <> 'gone'`], values: [] }
  addConditions(conditions, {
    'owner = ?': owner,
    'org = ?': org,
    "CASE WHEN wanted = 'archived' THEN 'MISSING' ELSE status END = ?": status,
  })
  if (text !== undefined && text !== '') {
    const pattern = containing(text)
    const isLike = (column: string) => `lower(${column}) LIKE lower(?) ESCAPE '!'`
    const users = engine === 'sqlite' ? 'user' : 'app_user'
    const named = `owner IN (SELECT id FROM ${users} WHERE ${isLike('name')} OR ${isLike('email')})`
    const where = [...['id', 'spec', 'detail', 'owner'].map(isLike), named]
    conditions.where.push(`(${where.join(' OR ')})`)
    conditions.values.push(...Array.from({ length: 6 }, () => pattern))
  }
  const [by, index] = sandboxOrders[sort_order.replace('_DESC', '') as keyof typeof sandboxOrders]
  return { ...conditions, index, by, isDescending: sort_order.endsWith('_DESC') }
}

const sandboxOrders = {
  CREATED_AT: ['created_at', 'sandbox_of_users'],
  USED_AT: ['used_at', 'sandbox_of_users_used'],
  COST: ['cost', 'sandbox_of_users_cost'],
} as const

/** The conversations of all users that a filter selects. */
export function allConversationsListing(
  query: Omit<AllConversationsQuery, 'limit'>,
  search: TitleSearch,
): Listing {
  const { sort_order, owner, org, status, title } = query
  const conditions: Conditions = { where: ['owner IS NOT NULL'], values: [] }
  addConditions(conditions, {
    'owner = ?': owner,
    'org = ?': org,
    'status = ?': status,
    [search.condition]: title ? search.toValue(foldCase(title)) : undefined,
  })
  const [by, index] = conversationOrders[sort_order.replace('_DESC', '') as keyof typeof conversationOrders]
  return { ...conditions, index, by, isDescending: sort_order.endsWith('_DESC') }
}

const conversationOrders = {
  CREATED_AT: ['created_at', 'conversation_of_users'],
  UPDATED_AT: ['updated_at', 'conversation_of_users_used'],
  COST: ['cost', 'conversation_of_users_cost'],
} as const

/** Of `LIKE ? ESCAPE '!'`: texts with this one in them. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[!%_]/g, '!$&')}%`
}

/** All rows of a table, newest first. */
export function newestFirst(index: string): Listing {
  return { index, by: 'created_at', isDescending: true, where: [], values: [] }
}

export function joinConditions(conditions: readonly string[]): string {
  return conditions.length === 0 ? 'true' : conditions.join(' AND ')
}

/** What is stored beside a title, for order and search. A missing title is ordered as an empty one. */
export function titleKeys(title: string | null) {
  const folded_title = foldCase(title ?? '').toWellFormed()
  return { folded_title, title_key: Array.from(folded_title).slice(0, titleKeyLength).join('') }
}

/** Adds the conditions that have a value. */
function addConditions(
  { where, values }: Conditions,
  conditions: Readonly<Record<string, ConditionValue | undefined>>,
): void {
  for (const [condition, value] of Object.entries(conditions)) {
    if (value === undefined) continue
    where.push(condition)
    values.push(value)
  }
}

/** The rows of `table` that meet the conditions, in order of a timestamp. */
function timestampListing(table: string, sort: RowSort, conditions: Conditions): Listing {
  const by = sort.startsWith('CREATED_AT') ? 'created' : 'updated'
  return { ...conditions, index: `${table}_${by}`, by: `${by}_at`, isDescending: sort.endsWith('_DESC') }
}
