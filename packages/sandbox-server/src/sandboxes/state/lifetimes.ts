import type { Instant } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { isPooled } from './sandbox-repository.ts'

/** How long sandboxes live, in seconds; 0: not limited. */
export interface Lifetimes {
  readonly idleSeconds: number
  /** A running sandbox is paused after this time in any case. */
  readonly maxSessionSeconds: number
  readonly deleteAfterSeconds: number
}

/** `checkIdle`: it is paused if its agent server confirms it. Time counts from the last change of status. */
export function dueAction(
  row: SandboxRow,
  lifetimes: Lifetimes,
  now: Instant,
): 'pause' | 'remove' | 'checkIdle' | undefined {
  if (isPooled(row)) return undefined
  const { idleSeconds, maxSessionSeconds, deleteAfterSeconds } = lifetimes
  const isPast = (since: Instant, seconds: number) => seconds > 0 && now - since >= seconds * 1_000_000
  if (row.status === 'RUNNING' && row.wanted === 'running') {
    if (isPast(row.changed_at, maxSessionSeconds)) return 'pause'
    return isPast(Math.max(row.changed_at, row.used_at), idleSeconds) ? 'checkIdle' : undefined
  }
  const isPaused = row.status === 'PAUSED' && row.wanted === 'paused'
  return isPaused && isPast(row.changed_at, deleteAfterSeconds) ? 'remove' : undefined
}
