import type { Instant } from '@slipway/protocol'

/**
 * What happened to a sandbox. Asked for: `create`, `pause`, `resume`, `restart`, `archive`, `delete`; as it
 * came: `running`, `paused`, `starting`, `failed`, `missing`, `deleted`; by others: `exec`, `logs`.
 */
export interface SandboxEventRow {
  readonly sandbox: string
  readonly owner: string | null
  readonly org: string | null
  readonly kind: string
  /** `user:ID`; null: the server itself. */
  readonly actor: string | null
  /** Contains no secret. */
  readonly detail: string | null
  readonly created_at: Instant
}

/** Who changes a sandbox, and what they say of it. */
export interface SandboxActor {
  readonly actor?: string | null | undefined
  readonly detail?: string | null | undefined
  /** Instead of the one that the change has. */
  readonly kind?: string | undefined
}

/** The last output of a sandbox that was deleted. */
export interface SandboxLogRow {
  readonly sandbox: string
  readonly owner: string | null
  readonly org: string | null
  /** Contains no secret. */
  readonly text: string
  readonly created_at: Instant
}

export interface SandboxEventRows {
  /** The newest 200 of a sandbox, the oldest first; of a deleted one for 30 days. */
  list(sandbox: string): Promise<readonly SandboxEventRow[]>
  add(row: SandboxEventRow): Promise<void>
  /**
   * Replaces that of the sandbox; logs are kept for 7 days, the newest 1,000. Nothing for an owner who was
   * removed: the secrets of that user are not known any more.
   */
  saveLog(row: SandboxLogRow): Promise<void>
  getLog(sandbox: string): Promise<SandboxLogRow | undefined>
}
