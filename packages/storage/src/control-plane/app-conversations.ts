import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowPage, RowSort, Rows, Scope } from './rows.ts'

/** A conversation as the control plane knows it; its events are in the log of the same id. */
export interface AppConversationRow {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly owner: string | null
  readonly org: string | null
  readonly sandbox: string
  readonly parent: string | null
  readonly title: string | null
  /** Last reported execution status; null before the first. */
  readonly status: string | null
  /** JSON text of the members that no query filters by. */
  readonly members: string
  readonly created_at: Instant
  readonly updated_at: Instant
}

export interface AppConversationFilter {
  /** Ignores case (simple folding), without wildcards; empty is no filter. */
  readonly title__contains?: string | undefined
  readonly created_at__gte?: Instant | undefined
  readonly created_at__lt?: Instant | undefined
  readonly updated_at__gte?: Instant | undefined
  readonly updated_at__lt?: Instant | undefined
  readonly sandbox_id__eq?: string | undefined
  /** Includes conversations with a parent. */
  readonly include_sub_conversations?: boolean | undefined
}

/** TITLE orders by the first hundred characters, ignoring case; a missing title is an empty one. */
export type AppConversationQuery = PageQuery &
  AppConversationFilter & { readonly sort_order: RowSort | 'TITLE' | 'TITLE_DESC' }

/** Those of all users, children included. `title` as in `AppConversationFilter`. */
export type AllConversationsQuery = PageQuery & {
  readonly owner?: string | undefined
  readonly org?: string | undefined
  readonly status?: string | undefined
  readonly title?: string | undefined
  readonly sort_order: RowSort | 'COST' | 'COST_DESC'
}

/**
 * A change of the usage in `members` adds the difference to the usage reports, and to the cost of the
 * sandbox.
 */
export interface AppConversationRows extends Rows<AppConversationRow> {
  /**
   * Writes a new row, or returns the existing one (of any owner). A Problem `too_many` for a new one when its
   * owner
   * has `maxOfOwner` already.
   */
  add(
    row: AppConversationRow,
    options?: { readonly maxOfOwner?: number | undefined },
  ): Promise<{ readonly row: AppConversationRow; readonly created: boolean }>
  /** Of an owner, children included. */
  listIds(owner: string): Promise<readonly string[]>
  /** Children included. */
  countAll(owner: string): Promise<number>
  search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversationRow>>
  searchAll(query: AllConversationsQuery): Promise<RowPage<AppConversationRow>>
  count(scope: Scope, filter: AppConversationFilter): Promise<number>
  /** The conversations of a sandbox, oldest first. */
  listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]>
  listChildren(id: string): Promise<readonly AppConversationRow[]>
}
