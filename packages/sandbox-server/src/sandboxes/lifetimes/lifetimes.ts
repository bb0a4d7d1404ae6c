import type { Instant, SandboxSpec } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import { isPooled } from '../state/sandbox-repository.ts'

/** How long sandboxes live, in seconds; 0: as long as they like. */
export interface Lifetimes {
  /** One that nobody uses is paused after this long. */
  readonly idleSeconds: number
  /** One is paused after it has run for this long, whatever it does. */
  readonly maxSessionSeconds: number
  /** One that is paused is deleted after this long. */
  readonly deleteAfterSeconds: number
}

export function resolveLifetimes(spec: SandboxSpec | undefined, defaults: Lifetimes): Lifetimes {
  return {
    idleSeconds: spec?.idle_seconds ?? defaults.idleSeconds,
    maxSessionSeconds: spec?.max_session_seconds ?? defaults.maxSessionSeconds,
    deleteAfterSeconds: spec?.delete_after_seconds ?? defaults.deleteAfterSeconds,
  }
}

/**
 * What is due for a sandbox about which nothing else is to be done. `ask`: nobody has used it for so long that it is paused if its
 * agent server says so too. Time begins with its last change of status: one that was resumed has its full time again.
 */
export function dueAction(
  row: SandboxRow,
  lifetimes: Lifetimes,
  now: Instant,
): 'pause' | 'remove' | 'ask' | undefined {
  if (isPooled(row)) return undefined
  const { idleSeconds, maxSessionSeconds, deleteAfterSeconds } = lifetimes
  const isPast = (since: Instant, seconds: number) => seconds > 0 && now - since >= seconds * 1_000_000
  if (row.status === 'RUNNING' && row.wanted === 'running') {
    if (isPast(row.changed_at, maxSessionSeconds)) return 'pause'
    return isPast(Math.max(row.changed_at, row.used_at), idleSeconds) ? 'ask' : undefined
  }
  const isPaused = row.status === 'PAUSED' && row.wanted === 'paused'
  return isPaused && isPast(row.changed_at, deleteAfterSeconds) ? 'remove' : undefined
}
