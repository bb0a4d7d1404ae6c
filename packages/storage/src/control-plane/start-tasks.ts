import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowPage, RowSort, Rows, Scope } from './rows.ts'

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
  /** UTC day (`2026-01-31`) of its quota slot; null when it holds none. */
  readonly quota_day: string | null
  readonly created_at: Instant
  readonly updated_at: Instant
}

export interface StartTaskFilter {
  readonly conversation_id__eq?: string | undefined
  readonly created_at__gte?: Instant | undefined
}

export type StartTaskQuery = PageQuery & StartTaskFilter & { readonly sort_order: RowSort }

export interface StartTaskRows extends Omit<Rows<StartTaskRow>, 'remove'> {
  /** A plain Error when the id exists. */
  add(row: StartTaskRow): Promise<void>
  search(scope: Scope, query: StartTaskQuery): Promise<RowPage<StartTaskRow>>
  count(scope: Scope, filter: StartTaskFilter): Promise<number>
  /** Tasks of all owners that are neither READY nor ERROR, oldest first. */
  listUnfinished(): Promise<readonly StartTaskRow[]>
  removeByConversation(conversation: string): Promise<void>
}
