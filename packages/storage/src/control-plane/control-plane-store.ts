import type { Instant } from '@slipway/protocol'
import type { DocumentStore } from '../documents/document-store.ts'
import type { AppConversationRows } from './app-conversations.ts'
import type { AuditRows } from './audit-rows.ts'
import type { BudgetRows } from './budgets.ts'
import type { Leases } from './leases.ts'
import type { SandboxEventRows } from './sandbox-events.ts'
import type { SandboxRows } from './sandboxes.ts'
import type { StartTaskRows } from './start-tasks.ts'
import type { UsageRows } from './usage.ts'
import type { UserRows } from './users.ts'

/** Number of conversations started on a UTC day (`2026-01-31`): the slots that start tasks took. */
export interface QuotaRows {
  getUsed(user: string, day: string): Promise<number>
}

export interface PendingMessageRow {
  readonly id: string
  /** Id of the conversation, or `task-` and the id of its start task (32 hex digits). */
  readonly target: string
  readonly owner: string | null
  /** JSON text of role and content. */
  readonly message: string
  readonly created_at: Instant
}

export interface PendingMessageRows {
  /** The place in the queue from 1, also of a known id; undefined when `max` messages wait already. */
  add(row: PendingMessageRow, max: number): Promise<number | undefined>
  /** Oldest first. */
  list(target: string): Promise<readonly PendingMessageRow[]>
  /** Ids of all of an owner. */
  listIds(owner: string): Promise<readonly string[]>
  /** False when there was none. */
  remove(id: string): Promise<boolean>
}

/**
 * The rows of the control plane. A change is durable when its promise resolves, and atomic; the changes of a
 * server take effect in the order of their calls. A change rejects with a Problem `storage_full` on
 * a full disk, and `unavailable` while the disk fails and after closing.
 */
export interface ControlPlaneStore extends AsyncDisposable {
  /** 32 hex digits, created with the store: the label of everything that a backend creates for it. */
  readonly id: string
  readonly sandboxes: SandboxRows
  readonly conversations: AppConversationRows
  readonly startTasks: StartTaskRows
  readonly users: UserRows
  readonly quota: QuotaRows
  readonly budgets: BudgetRows
  readonly pendingMessages: PendingMessageRows
  readonly documents: DocumentStore
  /** What requests did. */
  readonly audit: AuditRows
  readonly usage: UsageRows
  readonly sandboxEvents: SandboxEventRows
  readonly leases: Leases
  /** Resolves when rows that were removed before are overwritten in the files of this server. */
  overwriteRemoved(): Promise<void>
}
