import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowPage } from './rows.ts'

export type Members = Readonly<Record<string, unknown>>

/** By what right a request was allowed. */
export interface AllowedBy {
  readonly role: 'administrator' | 'user' | 'sandbox'
  /** The scope that the route needs. */
  readonly scope: string | null
  /** The only organisation in which the key works. */
  readonly org_id: string | null
}

/** What one request did, or tried to do. */
export interface AuditRow {
  readonly id: string
  readonly created_at: Instant
  /** `user:ID` or `sandbox:ID`; null for a request without a valid key. */
  readonly caller: string | null
  /** The id of the caller's key; null for a key of the configuration. */
  readonly via: string | null
  readonly org: string | null
  /** The name of the operation. */
  readonly action: string
  readonly method: string
  readonly route: string
  readonly target_type: string
  /** Null: the request failed before it was known, or it names none. */
  readonly target: string | null
  readonly conversation: string | null
  readonly sandbox: string | null
  /** Null: it was not allowed. */
  readonly allowed_by: AllowedBy | null
  /** Of the answer; null when the server ended after the change and before the answer. */
  readonly status: number | null
  /** The members that changed; secrets are stars. */
  readonly before: Members | null
  readonly after: Members | null
  readonly request_id: string
}

export interface AuditFilter {
  readonly caller?: string | undefined
  readonly action?: string | undefined
  readonly target_type?: string | undefined
  readonly target?: string | undefined
  readonly org?: string | undefined
  readonly created_at__gte?: Instant | undefined
  readonly created_at__lt?: Instant | undefined
  /** A part of the operation, the route or an id, in any case. */
  readonly text?: string | undefined
  /** Only what was refused or failed. */
  readonly isRefused?: boolean | undefined
}

export interface AuditRows {
  /** Newest first. */
  search(query: AuditFilter & PageQuery): Promise<RowPage<AuditRow>>
  /** Adds the row, or replaces the one of its id. */
  put(row: AuditRow): Promise<void>
  /** The lines of a user, and those about the user or about something with one of the ids. */
  countAbout(user: string, ids: readonly string[]): Promise<number>
  /**
   * Replaces the id of a user in all lines, in what was used and in the events of sandboxes. Lines of the
   * user, and those about the user or about something with one of the ids, lose their members, and names
   * that the user has chosen.
   */
  pseudonymise(user: string, pseudonym: string, ids: readonly string[]): Promise<void>
  /** Removes rows before an instant, and of those without a caller all but the newest `maxWithoutCaller`. */
  prune(before: Instant, maxWithoutCaller: number): Promise<void>
}
