import { statSync } from 'node:fs'
import { basename } from 'node:path'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { CompactedFile, CompactOptions } from '../../conversations/compaction.ts'
import type { Database } from './database.ts'

export type { CompactedFile, CompactOptions } from '../../conversations/compaction.ts'

const pagesPerStep = 250
/** Fewer free pages are used again by later events. */
export const minReclaimedPages = 250

interface ReclaimSteps {
  /** Runs a step in a transaction. */
  write(apply: () => void): Promise<void> | void
  /** After a step, with its duration. */
  waitBetween(elapsedMs: number): Promise<unknown>
  isStopped(): boolean
}

/** Gives free pages back to the file system, in small transactions. The file shrinks at a checkpoint. */
export async function reclaimSpace(
  db: Database,
  { write, waitBetween, isStopped }: ReclaimSteps,
): Promise<void> {
  for (let pages = db.reclaimablePages(); pages > 0 && !isStopped(); ) {
    const began = performance.now()
    let left = 0
    await write(() => {
      db.reclaim(pagesPerStep)
      left = db.reclaimablePages()
    })
    if (isStopped()) return
    await waitBetween(performance.now() - began)
    pages = left < pages ? left : 0
  }
}

/** Gives the free space of a database back while it is used: each step waits as long as it took. */
export async function compactInSteps(
  db: Database,
  write: ReclaimSteps['write'],
  {
    signal,
    maxMs,
    checkpoint = () => db.checkpoint(),
  }: CompactOptions & { readonly checkpoint?: () => Promise<void> | void },
): Promise<CompactedFile> {
  const before_bytes = sizeOf(db.path)
  const until = performance.now() + maxMs
  await reclaimSpace(db, {
    write,
    waitBetween: async (elapsedMs) => await pause(elapsedMs),
    isStopped: () => signal.aborted || performance.now() > until,
  })
  await nextTurn()
  signal.throwIfAborted()
  try {
    await checkpoint()
  } catch {
    // Somebody reads: a later checkpoint shrinks the file.
  }
  return {
    name: basename(db.path),
    before_bytes,
    after_bytes: sizeOf(db.path),
    free_bytes: Number(db.pragma('freelist_count')) * Number(db.pragma('page_size')),
    needs_stop: !db.isReclaimable,
  }
}

function sizeOf(path: string): number {
  const sizes = [path, `${path}-wal`].map((file) => statSync(file, { throwIfNoEntry: false })?.size ?? 0)
  return sizes.reduce((sum, size) => sum + size, 0)
}
