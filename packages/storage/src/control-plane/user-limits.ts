import type { UserLimits } from './users.ts'

export type LimitColumns = readonly [
  max_conversations: number | null,
  max_stored_mb: number | null,
  max_sandboxes: number | null,
]

/** The limits of a row in the order of its columns; without a row, all inherit. */
export function toLimits(row: LimitColumns | undefined): UserLimits {
  const [max_conversations, max_stored_mb, max_sandboxes] = row ?? [null, null, null]
  return { max_conversations, max_stored_mb, max_sandboxes }
}

/** Members that are absent stay. */
export function changeLimits(stored: UserLimits, change: Partial<UserLimits>): UserLimits {
  const {
    max_conversations = stored.max_conversations,
    max_stored_mb = stored.max_stored_mb,
    max_sandboxes = stored.max_sandboxes,
  } = change
  return { max_conversations, max_stored_mb, max_sandboxes }
}
