import { setTimeout as pause, setInterval } from 'node:timers/promises'
import type { Database } from '../database/database.ts'
import { minReclaimedPages, reclaimSpace } from '../database/reclaim-space.ts'
import type { ChangeQueue } from './change-queue.ts'

/** Gives the space of deleted rows back, when there is much of it. Resolves after the signal. */
export async function reclaimPeriodically(
  db: Database,
  changes: ChangeQueue,
  signal: AbortSignal,
  intervalMs: number,
): Promise<void> {
  try {
    for await (const _ of setInterval(intervalMs, undefined, { signal, ref: false }))
      await reclaimAll(db, changes, signal).catch(() => {})
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** A step that fails is repeated at the next interval; the storage's health reports the failure. */
async function reclaimAll(db: Database, changes: ChangeQueue, signal: AbortSignal): Promise<void> {
  if (db.reclaimablePages() < minReclaimedPages) return
  await reclaimSpace(db, {
    write: (apply) => changes.write(apply),
    waitBetween: (elapsedMs) => pause(elapsedMs),
    isStopped: () => signal.aborted,
  })
  if (!signal.aborted) await changes.checkpoint()
}
