import type { Instant } from '@slipway/protocol'
import type { CompactedFile, CompactOptions } from '../conversations/compaction.ts'

/** One event of `/api/bash`: a command, or a piece of its output. */
export interface BashEventRow {
  /**
   * Unique, and later than that of every event before it, so that events in order of time are in order of
   * arrival.
   */
  readonly instant: Instant
  readonly id: string
  /** For the command itself the same as `id`. */
  readonly commandId: string
  /** The conversation in whose workspace it runs; null: none. */
  readonly conversationId: string | null
  /** Number of the piece among the output of its command; -1 for the command itself. */
  readonly order: number
  /** True for the last piece of output: the command has ended. */
  readonly isLast: boolean
  /** The event as JSON. */
  readonly body: Buffer
}

export interface BashEventRange {
  /** null: commands of no conversation. */
  readonly conversationId?: string | null | undefined
  readonly commandId?: string | undefined
  readonly kind?: 'BashCommand' | 'BashOutput' | undefined
  /** Leaves out pieces of output up to this number; commands stay. */
  readonly orderAfter?: number | undefined
  /** Inclusive. */
  readonly from?: Instant | undefined
  /** Exclusive. */
  readonly to?: Instant | undefined
  readonly isDescending?: boolean | undefined
}

/** Which finished commands; null: those of no conversation. */
export interface FinishedFilter {
  readonly endedBefore?: Instant | undefined
  readonly conversationId?: string | null | undefined
}

/**
 * The events of `/api/bash`. Calls are synchronous: what `add` stored survives the end of the process, and
 * the newest events may be lost with the power. A write throws a Problem `storage_full` when the disk has no
 * room, `unavailable` when it fails otherwise, and has then stored nothing; output waits in memory while
 * another process holds the lock.
 */
export interface BashEvents extends Disposable {
  /** How many events there are, and the bytes of their bodies. */
  readonly totals: { readonly count: number; readonly sizeBytes: number }
  /** Instant of the newest event; 0 when there is none. */
  readonly lastInstant: Instant
  /** Stores all of them or none; an event whose id or instant is stored already is left out. */
  add(events: readonly BashEventRow[]): void
  /** Like `add`, but lost when this is closed: for an event that the disk has no room for. */
  addInMemory(event: BashEventRow): void
  get(id: string): BashEventRow | undefined
  /** In order of time. Each event is read when the iteration comes to it. */
  read(range: BashEventRange): Iterable<BashEventRow>
  /** Commands without a last piece of output, with the number of their next piece. */
  unfinished(): (Pick<BashEventRow, 'commandId' | 'conversationId'> & { readonly nextOrder: number })[]
  /**
   * Finished commands in the order in which they began; with `endedBefore` only those whose end was before
   * it.
   */
  finished(
    filter?: FinishedFilter,
  ): { readonly commandId: string; readonly count: number; readonly sizeBytes: number }[]
  /** Removes commands with all their events; answers how many events. */
  remove(commandIds: readonly string[]): number
  /** Syncs to disk what was added: it survives the end of the power too. */
  sync(): void
  /** Gives the space of removed events back to the file system when little is stored. */
  compact(): void
  /** Gives free space back in steps, between which events are stored. */
  compactInSteps(options: CompactOptions): Promise<CompactedFile>
}
