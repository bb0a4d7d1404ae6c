import { type BashSearchQuery, invalidInput, must } from '@slipway/protocol'
import type { BashEventEntry, CommandFile } from './command-files.ts'
import { decodePageId } from './page-id.ts'

type EventFilters = Omit<BashSearchQuery, 'limit'>

/** Where the kept bash events are, in order of time; every moment is there once. */
export class BashEventIndex {
  readonly #commands = new Map<string, CommandFile>()
  readonly #byId = new Map<string, BashEventEntry>()
  #entries: BashEventEntry[] = []
  #sizeBytes = 0

  get eventCount(): number {
    return this.#entries.length
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** The moment of the newest; 0 when there is none. */
  get lastInstant(): number {
    return this.#entries.at(-1)?.instant ?? 0
  }

  getCommand(id: string): CommandFile | undefined {
    return this.#commands.get(id)
  }

  getEntry(id: string): BashEventEntry | undefined {
    return this.#byId.get(id)
  }

  /** All commands, in the order in which they began. */
  listCommands(): CommandFile[] {
    return [...this.#commands.values()]
  }

  /** Those that are over. */
  listFinished(): CommandFile[] {
    return this.listCommands().filter(({ entries }) => entries.at(-1)?.isLast)
  }

  /** Takes commands with the entries that they have. */
  addCommands(commands: readonly CommandFile[]): void {
    for (const command of commands) {
      this.#commands.set(command.id, command)
      for (const entry of command.entries) this.#track(entry)
    }
    this.#entries = commands.flatMap(({ entries }) => entries).sort((a, b) => a.instant - b.instant)
  }

  /** Takes the newest entry. */
  addEntry(entry: BashEventEntry): void {
    this.#commands.set(entry.commandId, entry.command)
    entry.command.entries.push(entry)
    this.#entries.push(entry)
    this.#track(entry)
  }

  removeCommands(commands: ReadonlySet<CommandFile>): void {
    this.#entries = this.#entries.filter(({ command }) => !commands.has(command))
    for (const { id, entries } of commands) {
      this.#commands.delete(id)
      for (const entry of entries) {
        this.#byId.delete(entry.id)
        this.#sizeBytes -= entry.size
      }
    }
  }

  /** Some entries after a moment, at most 50 and about 1 MiB of them. */
  entriesAfter(instant: number): BashEventEntry[] {
    const start = lowerBound(this.#entries, instant + 1)
    const page: BashEventEntry[] = []
    let sizeBytes = 0
    for (const entry of this.#entries.slice(start, start + 50)) {
      sizeBytes += entry.size
      if (page.length > 0 && sizeBytes > 1024 * 1024) break
      page.push(entry)
    }
    return page
  }

  /** What a search finds, in its order. An unknown page id is a Problem `invalid`. */
  *search(query: EventFilters): Generator<BashEventEntry> {
    const { command_id__eq: id, kind__eq: kind, order__gt: order } = query
    const entries = id === undefined ? this.#entries : (this.#commands.get(id)?.entries ?? [])
    const isDescending = query.sort_order === 'TIMESTAMP_DESC'
    const { from, to } = this.#timeRange(query, isDescending)
    const start = isDescending ? lowerBound(entries, to) - 1 : lowerBound(entries, from)
    for (let index = start; index >= 0 && index < entries.length; index += isDescending ? -1 : 1) {
      const entry = must(entries[index], 'an entry')
      if (isDescending ? entry.instant < from : entry.instant >= to) return
      if (kind !== undefined && entry.kind !== kind) continue
      if (order !== undefined && entry.kind === 'BashOutput' && entry.order <= order) continue
      yield entry
    }
  }

  /** From the first of these moments up to, not including, the second: what bounds and page say together. */
  #timeRange(query: EventFilters, isDescending: boolean): { from: number; to: number } {
    const from = query.timestamp__gte ?? Number.MIN_SAFE_INTEGER
    const to = query.timestamp__lt ?? Number.MAX_SAFE_INTEGER
    if (query.page_id === undefined) return { from, to }
    const position = decodePageId(query.page_id)
    if (position === undefined) throw invalidInput(['query', 'page_id'], 'Unknown page id')
    const knownInstant = this.#byId.get(position.id)?.instant
    const skipped = position.isAfter && knownInstant !== undefined ? 1 : 0
    return isDescending
      ? { from, to: Math.min(to, (knownInstant ?? position.to) + 1 - skipped) }
      : { from: Math.max(from, (knownInstant ?? position.from) + skipped), to }
  }

  #track(entry: BashEventEntry): void {
    this.#byId.set(entry.id, entry)
    this.#sizeBytes += entry.size
  }
}

/** Where the first entry at or after a moment is; the length when there is none. */
function lowerBound(entries: readonly BashEventEntry[], instant: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (must(entries[middle], 'an entry').instant < instant) low = middle + 1
    else high = middle
  }
  return low
}
