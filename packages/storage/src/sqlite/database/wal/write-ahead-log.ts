import type { Stats } from 'node:fs'
import { basename } from 'node:path'
import { storageUnavailableProblem } from '@slipway/protocol/problem'
import { checkpointInThread, startCheckpointThread } from './checkpoint-thread.ts'
import { DurablePoint } from './durable-point.ts'
import { recoverAlone } from './recover-alone.ts'
import { SyncPace } from './sync-pace.ts'
import { isWalWhole, rewrite, WalFile } from './wal-file.ts'
import type { WalEnd } from './wal-frames.ts'

/** The write-ahead log is moved into the database when it has this many pages more than the last time. */
const framesPerCheckpoint = 2_000
/** Its pages are counted when the commits that were synced at once have taken that time, each rounded up. */
const maxUncountedMs = 16

/** Which files of a database are open. */
export interface OpenFiles {
  /** Device and inode of the database. */
  readonly file: string
  isOpenWal(stats: Stats): boolean
  /** Throws a Problem unless it is. */
  assertOpenWal(stats: Stats): void
}

/**
 * The write-ahead log of an open database: its syncs and checkpoints, and what a failed sync leaves of it.
 */
export class WriteAheadLog {
  readonly #databasePath: string
  readonly #path: string
  readonly #findOpen: () => OpenFiles | undefined
  #file: WalFile | undefined
  /** What it had before the last commit: that is on the disk. */
  #acknowledged: WalEnd | undefined
  #checkpointAtFrames = framesPerCheckpoint
  readonly #pace = new SyncPace()
  readonly durable = new DurablePoint()
  #uncountedMs = 0

  constructor(databasePath: string, findOpen: () => OpenFiles | undefined) {
    this.#databasePath = databasePath
    this.#findOpen = findOpen
    this.#path = `${databasePath}-wal`
  }

  /** Before a commit that `sync` follows. Throws when the one that is open cannot be opened at its path. */
  prepare(): void {
    if (this.#uncountedMs > 0) this.#count()
    else this.#open()
  }

  #open(): WalFile {
    this.#file ??= new WalFile(this.#path, (stats) => this.#findOpen()?.assertOpenWal(stats))
    return this.#file
  }

  close(): void {
    const file = this.#file
    this.#file = undefined
    this.#pace.reset()
    try {
      file?.close()
    } catch {
      // A failed write that the system reports now: what was acknowledged was synced before.
    }
  }

  /** `SyncPace.isFast`. */
  get isFast(): boolean {
    return this.#pace.isFast
  }

  /** @param commit on this thread, with a sync. */
  commitSynced(commit: () => void): void {
    const endSync = this.#pace.beginSync()
    commit()
    this.#uncountedMs += Math.ceil(endSync())
  }

  /** Returns where it ended when it was last counted. */
  #count(): WalEnd {
    const file = this.#open()
    const before = file.advance()
    this.#uncountedMs = 0
    if (file.hasRestarted) this.#checkpointAtFrames = framesPerCheckpoint
    if (2 * file.frames > this.#checkpointAtFrames) startCheckpointThread()
    return before
  }

  /** @param commit on this thread, without a sync: `sync` follows. */
  commitUnsynced(commit: () => void): void {
    this.durable.begin()
    commit()
  }

  /** After a commit: resolves when it is on the disk. */
  async sync(): Promise<void> {
    this.#acknowledged = undefined
    this.#acknowledged = this.#count()
    const endSync = this.#pace.beginSync()
    await this.#open().sync()
    endSync()
    this.durable.reach()
  }

  /** After a failed commit. */
  distrust(): void {
    try {
      this.#open().distrust()
    } catch {
      // Without the file nothing of it is taken.
    }
  }

  /** Whether it has that many pages that they should be moved into the database. */
  isCheckpointDue(): boolean {
    if (this.#uncountedMs >= maxUncountedMs) this.#count()
    return (this.#file?.frames ?? 0) >= this.#checkpointAtFrames
  }

  /** After a checkpoint, which has left that many frames. */
  noteCheckpoint(frames = 0): void {
    this.#checkpointAtFrames = frames + framesPerCheckpoint
    this.durable.reach()
  }

  /**
   * @param isWanted give the space of the log back
   * @returns whether all of it was moved: a reader may need what was there before
   */
  async checkpointInThread(isWanted: boolean): Promise<boolean> {
    // What a reader keeps there stays until the next time.
    this.#checkpointAtFrames += framesPerCheckpoint
    const mode = isWanted ? 'TRUNCATE' : this.isFast ? 'PASSIVE' : 'RESTART'
    const file = this.#findOpen()?.file ?? ''
    const { frames, isWhole } = await checkpointInThread({ path: this.#databasePath, file, mode })
    this.noteCheckpoint(frames)
    if (this.#file !== undefined) this.#count()
    return isWhole
  }

  /** Its bytes are written again and synced. The file at its path may be in use by another server. */
  rewrite(): void {
    rewrite(this.#path, (stats) => this.#findOpen()?.isOpenWal(stats) === true)
  }

  /** After a failed sync: throws a Problem when something that was acknowledged is not in it any more. */
  assertWhole(): void {
    if (this.#acknowledged === undefined || isWalWhole(this.#path, this.#acknowledged)) return
    throw storageUnavailableProblem(
      `${basename(this.#path)} lost what was acknowledged when a sync failed: nothing is stored, so that it stays as it is. Stop the server, keep a copy of the data directory, and restore a backup, or see what "slipway doctor" finds.`,
    )
  }

  /**
   * After a failed sync, when no connection is open: moves what has the right checksums into the database.
   */
  recoverAlone(): void {
    recoverAlone(this.#databasePath)
    this.#acknowledged = undefined
  }
}
