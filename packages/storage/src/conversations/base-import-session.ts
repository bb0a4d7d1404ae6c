import { isStorageFailure, type Moment, Problem } from '@slipway/protocol'
import { type Extent, emptyExtent, type NewEvent } from '../event-log/append-planner.ts'
import type { ReceivedEvent, RecordUpdate } from '../event-log/event-log.ts'
import type { LiveTails } from '../event-log/live-tails.ts'
import type { ImportLocks } from './import-locks.ts'
import type { ImportSession } from './import-session.ts'

/** `Leftover`: what an import that does not end leaves behind. */
interface ImportOptions<Leftover> {
  readonly context: {
    readonly importLocks: ImportLocks
    readonly liveTails: LiveTails
    readonly deliveries: { markChanged(conversation: string): void }
  }
  readonly purge: {
    schedule(leftover: Leftover, done?: () => void): void
    run(leftover: Leftover): Promise<void>
  }
  readonly conversation: string
  readonly ordinal: number
  /** Where the visible log ends; undefined for a new conversation. */
  readonly start: Extent | undefined
}

/** What imports of both engines have in common. */
export abstract class BaseImportSession<Leftover, Options extends ImportOptions<Leftover>>
  implements ImportSession
{
  protected readonly options: Options
  protected extent: Extent
  #last: Moment | undefined
  #isOver = false

  constructor(options: Options, last: Moment | undefined) {
    this.options = options
    this.extent = options.start ?? emptyExtent
    this.#last = last
  }

  abstract add(events: readonly ReceivedEvent[]): Promise<void>
  abstract publish(update: RecordUpdate): Promise<void>
  protected abstract readonly leftover: Leftover

  get nextPosition(): number {
    return this.extent.head + 1
  }

  get last(): Moment | undefined {
    return this.#last
  }

  async abort(): Promise<void> {
    const { context, purge, conversation, start } = this.options
    if (this.#isOver) return
    this.#isOver = true
    const { importLocks } = context
    if (start === undefined) {
      purge.schedule(this.leftover)
      importLocks.release(conversation)
      return
    }
    try {
      await purge.run(this.leftover)
      importLocks.release(conversation)
    } catch (error) {
      if (!isStorageFailure(error)) throw error
      scheduleCleanUp(this.options, this.leftover, error)
    }
  }

  protected added(extent: Extent, newEvents: readonly NewEvent[]): void {
    this.extent = extent
    this.#last = newEvents.at(-1)?.event ?? this.#last
  }

  protected published(): void {
    const { context, conversation, ordinal } = this.options
    this.#isOver = true
    context.importLocks.release(conversation)
    const liveTail = context.liveTails.get(ordinal)
    liveTail?.reset()
    liveTail?.signal.notify()
    context.deliveries.markChanged(conversation)
  }

  protected assertOpen(): void {
    if (this.#isOver) throw new Problem('conflict', 'The import is over')
  }
}

/** Later, because the storage fails. The conversation takes no appends until then. */
export function scheduleCleanUp<Leftover>(
  { context, purge, conversation }: Pick<ImportOptions<Leftover>, 'context' | 'purge' | 'conversation'>,
  leftover: Leftover,
  reason: Problem,
): void {
  const { importLocks } = context
  importLocks.explain(conversation, reason)
  purge.schedule(leftover, () => importLocks.release(conversation))
}
