import { type BashSearchQuery, invalid, must } from '@slipway/protocol'
import type { Entry, Kept } from './command-files.ts'
import { placeOf } from './page-id.ts'

type Filters = Omit<BashSearchQuery, 'limit'>

/** Where the kept bash events are, in order of time; every moment is there once. */
export class BashIndex {
  readonly #commands = new Map<string, Kept>()
  readonly #byId = new Map<string, Entry>()
  #entries: Entry[] = []
  #sizeBytes = 0

  get events(): number {
    return this.#entries.length
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** The moment of the newest; 0 when there is none. */
  get lastInstant(): number {
    return this.#entries.at(-1)?.instant ?? 0
  }

  command(id: string): Kept | undefined {
    return this.#commands.get(id)
  }

  entry(id: string): Entry | undefined {
    return this.#byId.get(id)
  }

  /** All commands, in the order in which they began. */
  commands(): Kept[] {
    return [...this.#commands.values()]
  }

  /** Those that are over. */
  over(): Kept[] {
    return this.commands().filter(({ entries }) => entries.at(-1)?.isLast)
  }

  /** Takes commands with the entries that they have. */
  load(commands: readonly Kept[]): void {
    for (const command of commands) {
      this.#commands.set(command.id, command)
      for (const entry of command.entries) this.#count(entry)
    }
    this.#entries = commands.flatMap(({ entries }) => entries).sort((a, b) => a.instant - b.instant)
  }

  /** Takes the newest entry. */
  add(entry: Entry): void {
    this.#commands.set(entry.commandId, entry.command)
    entry.command.entries.push(entry)
    this.#entries.push(entry)
    this.#count(entry)
  }

  remove(commands: ReadonlySet<Kept>): void {
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
  after(instant: number): Entry[] {
    const start = firstFrom(this.#entries, instant + 1)
    const found: Entry[] = []
    let sizeBytes = 0
    for (const entry of this.#entries.slice(start, start + 50)) {
      sizeBytes += entry.size
      if (found.length > 0 && sizeBytes > 1024 * 1024) break
      found.push(entry)
    }
    return found
  }

  /** What a search finds, in its order. An unknown page id is a Problem `invalid`. */
  *matching(query: Filters): Generator<Entry> {
    const { command_id__eq: id, kind__eq: kind, order__gt: order } = query
    const entries = id === undefined ? this.#entries : (this.#commands.get(id)?.entries ?? [])
    const isDown = query.sort_order === 'TIMESTAMP_DESC'
    const { from, to } = this.#range(query, isDown)
    const start = isDown ? firstFrom(entries, to) - 1 : firstFrom(entries, from)
    for (let at = start; at >= 0 && at < entries.length; at += isDown ? -1 : 1) {
      const entry = must(entries[at], 'an entry')
      if (isDown ? entry.instant < from : entry.instant >= to) return
      if (kind !== undefined && entry.kind !== kind) continue
      if (order !== undefined && entry.kind === 'BashOutput' && entry.order <= order) continue
      yield entry
    }
  }

  /** From the first of these moments up to, not including, the second: what bounds and page say together. */
  #range(query: Filters, isDown: boolean): { from: number; to: number } {
    const from = query.timestamp__gte ?? Number.MIN_SAFE_INTEGER
    const to = query.timestamp__lt ?? Number.MAX_SAFE_INTEGER
    if (query.page_id === undefined) return { from, to }
    const place = placeOf(query.page_id)
    if (place === undefined) throw invalid(['query', 'page_id'], 'Unknown page id')
    const known = this.#byId.get(place.id)?.instant
    const skipped = place.isAfter && known !== undefined ? 1 : 0
    return isDown
      ? { from, to: Math.min(to, (known ?? place.to) + 1 - skipped) }
      : { from: Math.max(from, (known ?? place.from) + skipped), to }
  }

  #count(entry: Entry): void {
    this.#byId.set(entry.id, entry)
    this.#sizeBytes += entry.size
  }
}

/** Where the first entry at or after a moment is; the length when there is none. */
function firstFrom(entries: readonly Entry[], instant: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (must(entries[middle], 'an entry').instant < instant) low = middle + 1
    else high = middle
  }
  return low
}
