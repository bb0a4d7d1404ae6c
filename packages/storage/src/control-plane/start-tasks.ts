import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowChange, RowPage, RowSort, Rows, Scope } from './rows.ts'

/** A start of a conversation: in progress, ready or failed. */
export interface StartTaskRow {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly owner: string | null
  /** The organisation that the start worked in. */
  readonly org: string | null
  readonly status: string
  readonly detail: string | null
  readonly conversation: string | null
  readonly sandbox: string | null
  readonly agent_url: string | null
  /** JSON text of the request, secrets redacted. */
  readonly request: string
  /** UTC day (`2026-01-31`) of the quota slot of its owner that it holds; null when it holds none. */
  readonly quota_day: string | null
  readonly created_at: Instant
  readonly updated_at: Instant
}

export interface AddedTask {
  readonly isAdded: boolean
  readonly used: number
}

export interface StartTaskFilter {
  readonly conversation_id__eq?: string | undefined
  readonly created_at__gte?: Instant | undefined
}

export type StartTaskQuery = PageQuery & StartTaskFilter & { readonly sort_order: RowSort }

export interface StartTaskRows extends Omit<Rows<StartTaskRow>, 'remove'> {
  /**
   * Adds a row and takes its quota slot, in one change: after a failure the row says whether the slot is
   * taken. Not added when `dailyLimit` slots of the day are in use. `used` includes the new one. A plain
   * Error when the id exists.
   */
  add(row: StartTaskRow, options?: { readonly dailyLimit?: number | undefined }): Promise<AddedTask>
  /** Gives the slot back in the same change when `quota_day` becomes null. */
  update(id: string, members: RowChange<StartTaskRow>): Promise<StartTaskRow | undefined>
  search(scope: Scope, query: StartTaskQuery): Promise<RowPage<StartTaskRow>>
  count(scope: Scope, filter: StartTaskFilter): Promise<number>
  /** Tasks of all owners that are neither READY nor ERROR, oldest first. */
  listUnfinished(): Promise<readonly StartTaskRow[]>
  removeByConversation(conversation: string): Promise<void>
  /** Also those that never had a conversation. */
  removeByOwner(owner: string): Promise<void>
}
