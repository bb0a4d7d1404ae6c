/**
 * What is due for a sandbox because of its age.
 *
 * Problem: most sandboxes are not used again, and keep memory while they run and disk space afterwards. Yet a
 * deleted workspace is lost, and so are events that its agent server had not sent.
 *
 * Idea: one pure function of the row, the lifetimes of its spec, the time and what was read. Every server of
 * a control plane may ask it; who acts on a deletion asks again with the lock of the owner
 * (`activity-monitor.ts`).
 *
 * Invariants:
 * - A lifetime of 0 never applies. Sandboxes of the warm pool, those to be removed and those on their way
 *   from one status to another are left alone.
 * - Nothing that was not read counts: without a confirmed idle time none is idle, and no reading deletes.
 *   What a backend does not show is never asked about here, and MISSING is never deleted: it may come back.
 * - Time counts from the last change of status and the last use, so a paused hour is no idle hour.
 * - A deletion needs the note of the pause that all events are in the log of the control plane, from after
 *   the last use (`caught_up_at`). A sandbox that was never created has no events.
 * - A deletion is announced for a tenth of its time at least, also when the limit was lowered or no server
 *   ran meanwhile. An announcement from before a use, or before a higher limit, does not count.
 * - A sandbox in ERROR waits for two more idle periods: its owner may be about to repair it.
 *
 * If you change this: workspaces of users are deleted, or never. `lifetime-year.slow.test.ts` has a year of
 * random use.
 */

import type { Instant } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { isPresent } from './sandbox-repository.ts'

/** How long sandboxes live, in seconds; 0: not limited. */
export interface Lifetimes {
  readonly idleSeconds: number
  /** A running sandbox is paused after this time in any case. */
  readonly maxSessionSeconds: number
  /** A sandbox that has not run for this time is deleted. */
  readonly deleteAfterSeconds: number
}

export interface LifetimeFacts {
  /** Not before `used_at` of the row, which is written with a delay. */
  readonly lastUse: Instant
  /** Of its agent server, which confirmed that nothing runs; undefined without such an answer. */
  readonly idleSeconds: number | undefined
}

/** `announce`: its `deletes_at` becomes that of `findDeletion`. */
export type LifetimeAction = 'none' | 'pause' | 'announce' | 'delete'

interface Deletion {
  /** When it is deleted if it is announced now, or was. */
  readonly at: Instant
  readonly isAnnounced: boolean
}

export function decide(
  row: SandboxRow,
  lifetimes: Lifetimes,
  now: Instant,
  facts: LifetimeFacts,
): LifetimeAction {
  if (isRunning(row)) {
    if (isPast(row.changed_at, lifetimes.maxSessionSeconds, now)) return 'pause'
    const isIdle = facts.idleSeconds !== undefined && facts.idleSeconds >= lifetimes.idleSeconds
    return isIdle && needsIdleTime(row, lifetimes, now, facts.lastUse) ? 'pause' : 'none'
  }
  const deletion = findDeletion(row, lifetimes, now, facts.lastUse)
  if (deletion === undefined) return 'none'
  if (!deletion.isAnnounced) return 'announce'
  return now >= deletion.at ? 'delete' : 'none'
}

/** Whether its idle time decides. */
export function needsIdleTime(
  row: SandboxRow,
  lifetimes: Lifetimes,
  now: Instant,
  lastUse: Instant,
): boolean {
  return isRunning(row) && isPast(Math.max(row.changed_at, lastUse), lifetimes.idleSeconds, now)
}

/** Undefined until its announcement is due. */
export function findDeletion(
  row: SandboxRow,
  lifetimes: Lifetimes,
  now: Instant,
  lastUse: Instant,
): Deletion | undefined {
  const { deleteAfterSeconds, idleSeconds } = lifetimes
  if (deleteAfterSeconds === 0 || !isAtRest(row) || !isCaughtUp(row, lastUse)) return undefined
  const seconds = deleteAfterSeconds + (row.status === 'ERROR' ? 2 * idleSeconds : 0)
  const due = Math.max(row.changed_at, lastUse) + seconds * 1_000_000
  const notice = deleteAfterSeconds * 100_000
  if (now < due - notice) return undefined
  if (row.deletes_at !== null && row.deletes_at >= due) return { at: row.deletes_at, isAnnounced: true }
  return { at: Math.max(due, now + notice), isAnnounced: false }
}

function isRunning(row: SandboxRow): boolean {
  return isPresent(row) && row.status === 'RUNNING' && row.wanted === 'running'
}

function isAtRest(row: SandboxRow): boolean {
  if (!isPresent(row) || row.wanted === 'archived') return false
  return row.status === 'ERROR' || (row.status === 'PAUSED' && row.wanted === 'paused')
}

/** Whether it is known that the control plane has all its events. */
export function isCaughtUp({ epoch, status, caught_up_at }: SandboxRow, lastUse: Instant): boolean {
  if (epoch === null && status === 'PAUSED') return true
  return caught_up_at !== null && caught_up_at >= lastUse
}

function isPast(since: Instant, seconds: number, now: Instant): boolean {
  return seconds > 0 && now - since >= seconds * 1_000_000
}
