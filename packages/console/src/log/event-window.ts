import type { TransientUpdate } from '@slipway/client'
import { textOf } from '@slipway/protocol/event-text'
import { useSyncExternalStore } from 'react'
import {
  findPositions,
  followLog,
  type LogEvent,
  readEvents,
  readHead,
  type ServerFilter,
} from '../api/log.ts'
import { noteError } from '../api/session.ts'
import { Store } from '../api/store.ts'

/** Most events that a window holds, whatever the length of the log. */
const capacity = 240
const pageSize = 60
/** What a jump reads before the first frame: a screen and some more. The rest follows as pages. */
const jumpAfter = 24
const jumpBefore = 12
/** Events that arrive faster are a stream: then the end of the log is shown four times a second. */
const streamPerSecond = 200
const streamMs = 250
/** Numbers of jumps, so that those of two windows differ. */
let jumpCount = 0
/** Most events that one search for matches reads before it asks whether to continue. */
export const scanLimit = 20_000

interface WindowState {
  /** The matching events of the scanned range, in order. */
  readonly events: readonly LogEvent[]
  /** First and last position that were read; empty while `to < from`. */
  readonly from: number
  readonly to: number
  /** The position of the last event of the log. */
  readonly head: number
  /** The head when the reader was at the end last, or when the window was opened. */
  readonly seen: number
  /** Whether the reader is at the end: then new events are appended. */
  readonly isPinned: boolean
  readonly loading: 'jump' | 'before' | 'after' | undefined
  readonly error: unknown
  /** Counts jumps: a view that shows another one scrolls to `target`. */
  readonly jumps: number
  readonly target: number
  /** The pieces of the answer that the model is writing. */
  readonly draft: { readonly text: string; readonly reasoning: string }
}

const emptyDraft = { text: '', reasoning: '' }
const initialState: WindowState = {
  events: [],
  from: 1,
  to: 0,
  head: 0,
  seen: 0,
  isPinned: true,
  loading: 'jump',
  error: undefined,
  jumps: 0,
  target: 0,
  draft: emptyDraft,
}

interface WindowOptions {
  readonly conversationId: string
  readonly matches: (event: LogEvent) => boolean
  /** What the server can search by; events between its matches are not read. */
  readonly serverFilter?: ServerFilter | undefined
  /** Called after new events arrived, with them. */
  readonly onLive: (events: readonly LogEvent[]) => void
}

/**
 * A bounded part of the log of a conversation: pages around a position, and new events while the reader is at
 * the end. What it holds does not grow with the log.
 */
export class EventWindow {
  readonly store = new Store<WindowState>(initialState)
  readonly #options: WindowOptions
  #abort = new AbortController()
  #loadAbort = new AbortController()
  #queue: LogEvent[] = []
  #isFlushPlanned = false
  /** Whether events arrive faster than rows are worth showing one by one. */
  #isStreaming = false
  #flushedAt = performance.now()
  #pendingDraft: { text: string; reasoning: string } | undefined

  constructor(options: WindowOptions) {
    this.#options = options
  }

  /** Shows a position, or the end, and follows the log; also again after `close`. */
  async open(position: number | undefined): Promise<void> {
    this.#abort.abort()
    this.#abort = new AbortController()
    const { signal } = this.#abort
    try {
      const head = await readHead(this.#options.conversationId, signal)
      signal.throwIfAborted()
      this.#update({ head, seen: head })
      void this.#follow(head, signal)
      await this.jump(position ?? head)
    } catch (error) {
      if (!signal.aborted) this.#fail(error)
    }
  }

  close(): void {
    this.#abort.abort()
    this.#loadAbort.abort()
  }

  /** Says whether the reader is at the end of what is shown. */
  setPinned(isPinned: boolean): void {
    if (isPinned !== this.store.get().isPinned) this.#update({ isPinned })
  }

  get isAtEnd(): boolean {
    const { to, head } = this.store.get()
    return to >= head
  }

  /** Shows the events around a position. */
  async jump(position: number): Promise<void> {
    const { head } = this.store.get()
    const target = Math.min(Math.max(1, position), Math.max(1, head))
    const isEnd = target >= head
    const signal = this.#restartLoad()
    this.#update({ loading: 'jump', error: undefined, isPinned: isEnd })
    try {
      const start = isEnd ? head + 1 : target
      const [after, before] = await Promise.all([
        isEnd ? { events: [], edge: head } : this.#scan('after', start - 1, jumpAfter, signal),
        this.#scan('before', start, isEnd ? jumpAfter : jumpBefore, signal),
      ])
      this.#update({
        events: [...before.events, ...after.events],
        from: before.edge,
        to: after.edge,
        loading: undefined,
        jumps: ++jumpCount,
        target: isEnd ? head : target,
      })
      if (isEnd) this.#planFlush()
    } catch (error) {
      if (!signal.aborted) this.#fail(error)
    }
  }

  /** Reads the next page in a direction; events at the other end leave when there are too many. */
  async more(direction: 'before' | 'after'): Promise<void> {
    const { loading, from, to, head } = this.store.get()
    const isDone = direction === 'before' ? from <= 1 : to >= head
    if (loading !== undefined || isDone) return
    const signal = this.#restartLoad()
    this.#update({ loading: direction, error: undefined })
    try {
      const page = await this.#scan(direction, direction === 'before' ? from : to, pageSize, signal)
      const { events } = this.store.get()
      if (direction === 'before') {
        const all = [...page.events, ...events]
        const retained = all.slice(0, capacity)
        const last = retained.at(-1)
        const isCut = retained.length < all.length && last !== undefined
        this.#update({
          events: retained,
          from: page.edge,
          loading: undefined,
          ...(isCut && { to: last.position }),
        })
      } else {
        this.#update({ ...this.#appended(page.events), to: page.edge, loading: undefined })
        this.#planFlush()
      }
    } catch (error) {
      if (!signal.aborted) this.#fail(error)
    }
  }

  /** Events after the last one, with the oldest left out when there are too many. */
  #appended(added: readonly LogEvent[]): Pick<WindowState, 'events' | 'from'> {
    const { events, from } = this.store.get()
    const all = [...events, ...added]
    const retained = all.slice(-capacity)
    const first = retained[0]
    return {
      events: retained,
      from: retained.length < all.length && first !== undefined ? first.position : from,
    }
  }

  /** Reads on from `edge` until `count` events match; `edge` of the answer is the last position read. */
  async #scan(
    direction: 'before' | 'after',
    edge: number,
    count: number,
    signal: AbortSignal,
  ): Promise<{ events: readonly LogEvent[]; edge: number }> {
    const { conversationId, matches, serverFilter } = this.#options
    const { head } = this.store.get()
    if (serverFilter !== undefined) {
      const page = await this.#find({ direction, edge, count }, serverFilter, signal)
      if (page !== undefined) return page
    }
    let found: LogEvent[] = []
    let limit = count
    let position = edge
    for (let scanned = 0; found.length < count && scanned < scanLimit; scanned += limit, limit *= 2) {
      const isDone = direction === 'before' ? position <= 1 : position >= head
      if (isDone) break
      limit = Math.min(limit, 2_000)
      const after = direction === 'before' ? Math.max(0, position - 1 - limit) : position
      const size = direction === 'before' ? position - 1 - after : limit
      const page = await readAll(conversationId, { after, limit: size, head }, signal)
      const matching = selectMatches(page, matches)
      if (direction === 'before') {
        found = [...matching, ...found]
        position = after + 1
      } else {
        found.push(...matching)
        position = page.at(-1)?.position ?? head
      }
    }
    // A page with many matches is cut, so that the window stays within its capacity.
    if (found.length <= capacity) return { events: found, edge: position }
    const retained = direction === 'before' ? found.slice(-capacity) : found.slice(0, capacity)
    const cut = direction === 'before' ? retained[0] : retained.at(-1)
    return { events: retained, edge: cut?.position ?? position }
  }

  /** Like a scan, by the server's own search; undefined without one. */
  async #find(
    scan: { readonly direction: 'before' | 'after'; readonly edge: number; readonly count: number },
    filter: ServerFilter,
    signal: AbortSignal,
  ): Promise<{ events: readonly LogEvent[]; edge: number } | undefined> {
    const { conversationId, matches } = this.#options
    const { head } = this.store.get()
    const isBefore = scan.direction === 'before'
    const end = isBefore ? 1 : head
    const from = isBefore ? scan.edge - 1 : scan.edge + 1
    if (isBefore ? from < 1 : from > head) return { events: [], edge: end }
    const search = {
      from,
      direction: isBefore ? ('previous' as const) : ('next' as const),
      limit: scan.count,
      filter,
    }
    const page = await findPositions(conversationId, search, signal)
    if (page === undefined) return undefined
    const positions = [...page.positions].filter((position) => position <= head).sort((a, b) => a - b)
    const read = await Promise.all(
      toRuns(positions).map(({ first, last }) =>
        readAll(conversationId, { after: first - 1, limit: last - first + 1, head }, signal),
      ),
    )
    const edge = page.next === undefined ? end : isBefore ? page.next + 1 : page.next - 1
    const isNew = ({ position }: LogEvent) => (isBefore ? position < scan.edge : position > scan.edge)
    return { events: selectMatches(read.flat().filter(isNew), matches), edge }
  }

  async #follow(after: number, signal: AbortSignal): Promise<void> {
    const { conversationId } = this.#options
    try {
      const events = followLog(conversationId, {
        after,
        signal,
        onTransientUpdate: (update) => this.#noteTransient(update),
        onResync: () => void this.#startAgain(),
      })
      for await (const item of events) {
        this.#queue.push(item)
        this.#planFlush()
      }
    } catch (error) {
      if (!signal.aborted) this.#fail(error)
    }
  }

  /** The log has another history than before: everything is read again. */
  async #startAgain(): Promise<void> {
    this.#queue = []
    const head = await readHead(this.#options.conversationId, this.#abort.signal).catch(() => 0)
    this.#update({ head, events: [], from: 1, to: 0 })
    await this.jump(head)
  }

  #planFlush(): void {
    if (this.#isFlushPlanned) return
    this.#isFlushPlanned = true
    const flush = () => {
      this.#isFlushPlanned = false
      if (!this.#abort.signal.aborted) this.#flush()
    }
    // A hidden page paints no frames, and its title still shows what waits.
    if (document.hidden || this.#isStreaming) setTimeout(flush, streamMs)
    else requestAnimationFrame(flush)
  }

  #flush(): void {
    const { to, head, loading, draft, isPinned } = this.store.get()
    const arrived = this.#queue
    this.#queue = []
    const now = performance.now()
    const perSecond = (arrived.length / (now - this.#flushedAt)) * 1_000
    this.#isStreaming = arrived.length > 4 && perSecond > streamPerSecond
    this.#flushedAt = now
    const last = arrived.at(-1)
    const newHead = Math.max(head, last?.position ?? 0)
    const first = arrived[0]
    const isNext = first !== undefined && first.position === to + 1
    const nextDraft = this.#pendingDraft ?? (last === undefined ? draft : emptyDraft)
    this.#pendingDraft = undefined
    if (isNext && isPinned && loading === undefined) {
      const added = selectMatches(arrived, this.#options.matches)
      // Of a stream only the end is shown: its rows would be gone before anybody reads them.
      const newest = this.#isStreaming && added.length > pageSize ? added.slice(-pageSize) : undefined
      const rows =
        newest?.[0] === undefined ? this.#appended(added) : { events: newest, from: newest[0].position }
      this.#update({ ...rows, to: newHead, head: newHead, draft: nextDraft })
    } else {
      this.#update({ head: newHead, draft: nextDraft })
      if (isPinned && loading === undefined && newHead > to) void this.more('after')
    }
    if (arrived.length > 0) this.#options.onLive(arrived)
  }

  #noteTransient(update: TransientUpdate): void {
    if (update.kind === 'ConversationStateUpdateEvent') return
    const { text, reasoning } = this.#pendingDraft ?? this.store.get().draft
    this.#pendingDraft =
      update.kind === 'StreamingResetEvent'
        ? emptyDraft
        : { text: text + (update.content ?? ''), reasoning: reasoning + (update.reasoning_content ?? '') }
    this.#planFlush()
  }

  #restartLoad(): AbortSignal {
    this.#loadAbort.abort()
    this.#loadAbort = new AbortController()
    return this.#loadAbort.signal
  }

  #fail(error: unknown): void {
    if (this.#abort.signal.aborted) return
    noteError(error)
    this.#update({ error, loading: undefined })
  }

  #update(change: Partial<WindowState>): void {
    const next = { ...this.store.get(), ...change }
    this.store.set(next.to >= next.head ? { ...next, seen: next.head } : next)
  }
}

/** Ranges that cover positions with the event before each, which is mostly its call; near ones are joined. */
function toRuns(positions: readonly number[]): { first: number; last: number }[] {
  const runs: { first: number; last: number }[] = []
  for (const position of positions) {
    const run = runs.at(-1)
    if (run !== undefined && position - run.last < 20) run.last = position
    else runs.push({ first: Math.max(1, position - 1), last: position })
  }
  return runs
}

/** The events that match, and of a call that matches by one half the other half too. */
function selectMatches(
  events: readonly LogEvent[],
  matches: (event: LogEvent) => boolean,
): readonly LogEvent[] {
  const callOf = ({ event }: LogEvent) => textOf(event.tool_call_id)
  const matching = new Set(events.filter(matches))
  const calls = new Set([...matching].map(callOf).filter((id) => id !== undefined))
  return events.filter((item) => matching.has(item) || calls.has(callOf(item) ?? ''))
}

/** Reads a range to its end, also where a page has fewer events because they are large. */
async function readAll(
  id: string,
  { after, limit, head }: { readonly after: number; readonly limit: number; readonly head: number },
  signal: AbortSignal,
): Promise<LogEvent[]> {
  const last = Math.min(after + limit, head)
  const events: LogEvent[] = []
  while (after + events.length < last) {
    const rest = { after: after + events.length, limit: last - after - events.length, head }
    const page = await readEvents(id, rest, signal)
    if (page.length === 0) break
    events.push(...page)
  }
  return events
}

export function useWindowState(window: EventWindow): WindowState {
  return useSyncExternalStore(window.store.subscribe, window.store.get)
}
