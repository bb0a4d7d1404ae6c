import type { Message } from '@slipway/protocol'
import { isViewEvent, type LogEvent, type LogEventOf, type ViewEvent } from './log-event.ts'
import { defaultMessageLimits, type MessageLimits } from './message-limits.ts'
import { Projection } from './projection.ts'
import { prunedResultsKey, pruneResult } from './prune-result.ts'

export type { LogEvent, ViewEvent } from './log-event.ts'

/** Behind the id of a Condensation: the id of its summary in a view. */
export const summarySuffix = '-summary'
/** Before the ids of pruned results in a saved view. */
const prunedPrefix = 'pruned:'

/**
 * The part of a log that the model sees (spec 2.3), as a fold of its events. A Condensation removes events
 * and inserts a CondensationSummaryEvent `<its id>-summary`. A second SystemPromptEvent replaces the first. A
 * state update `last_user_message_id` moves that message to the end, because the model had not seen it; one
 * of `pruned_results` shortens results.
 */
export class View {
  #events: ViewEvent[] = []
  readonly #ids = new Set<string>()
  readonly #pruned = new Set<string>()
  #projection = new Projection(defaultMessageLimits)
  #messages: readonly Message[] | undefined

  /** Constant time, except for a Condensation and a move, which take time in proportion to the view. */
  add(event: LogEvent): void {
    if (event.kind === 'Condensation') this.#applyCondensation(event)
    else if (event.kind === 'ConversationStateUpdateEvent') {
      if (event.key === prunedResultsKey && Array.isArray(event.value)) this.#prune(event.value)
      else this.#moveLateMessage(event)
    } else if (isViewEvent(event) && !this.#ids.has(event.id)) this.#append(event)
  }

  /** Whether the model sees a result only shortened. */
  isPruned(id: string): boolean {
    return this.#pruned.has(id)
  }

  get size(): number {
    return this.#events.length
  }

  /** The current events; copy them to use them after the next `add`. */
  get events(): readonly ViewEvent[] {
    return this.#events
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  /**
   * The messages for the model (see `Projection`), by default as last asked; unchanged ones are the same
   * objects.
   */
  messages(limits: MessageLimits = this.#projection.limits): readonly Message[] {
    const { chars, tokens } = this.#projection.limits
    if (chars !== limits.chars || tokens !== limits.tokens) {
      this.#projection = new Projection(limits)
      this.#messages = undefined
    }
    this.#messages ??= this.#projection.messages(this.#events)
    return this.#messages
  }

  /** The ids of the events in order, those of pruned results with a prefix, for `restore`. */
  save(): readonly string[] {
    return this.#events.map(({ id }) => (this.#pruned.has(id) ? prunedPrefix + id : id))
  }

  /** Restores a saved view; `get` returns events by id. Throws when the log lacks one of them. */
  static async restore(
    entries: readonly string[],
    get: (ids: readonly string[]) => Promise<readonly (LogEvent | undefined)[]>,
  ): Promise<View> {
    const pruned = entries
      .filter((id) => id.startsWith(prunedPrefix))
      .map((id) => id.slice(prunedPrefix.length))
    const saved = entries.map((id) => (id.startsWith(prunedPrefix) ? id.slice(prunedPrefix.length) : id))
    const found = await get(saved)
    const summarised = saved.filter((_, index) => !isViewEvent(found[index]))
    const condensations = await get(summarised.map((id) => id.slice(0, -summarySuffix.length)))
    const summaries = new Map(summarised.map((id, index) => [id, summaryEvent(condensations[index], id)]))
    const view = new View()
    saved.forEach((id, index) => {
      const event = found[index]
      const visibleEvent = isViewEvent(event) ? event : summaries.get(id)
      if (visibleEvent === undefined) throw new Error('a saved view names an event that is not in the log')
      view.#append(visibleEvent)
    })
    view.#prune(pruned)
    return view
  }

  #prune(ids: readonly unknown[]): void {
    const wanted = new Set(ids)
    this.#events = this.#events.map((event) => {
      if (!wanted.has(event.id) || event.kind !== 'ObservationEvent' || this.#pruned.has(event.id))
        return event
      this.#pruned.add(event.id)
      return pruneResult(event)
    })
    this.#messages = undefined
  }

  #append(event: ViewEvent): void {
    const index =
      event.kind === 'SystemPromptEvent' ? this.#events.findIndex(({ kind }) => kind === event.kind) : -1
    const [replaced] = index < 0 ? [] : this.#events.splice(index, 1, event)
    if (replaced === undefined) this.#events.push(event)
    else this.#ids.delete(replaced.id)
    this.#ids.add(event.id)
    this.#messages = undefined
  }

  #moveLateMessage({ key, value }: LogEventOf<'ConversationStateUpdateEvent'>): void {
    if (key !== 'last_user_message_id' || typeof value !== 'string' || !this.#ids.has(value)) return
    const index = this.#events.findLastIndex(({ id, kind }) => id === value && kind === 'MessageEvent')
    if (index < 0 || index === this.#events.length - 1) return
    this.#events.push(...this.#events.splice(index, 1))
    this.#messages = undefined
  }

  #applyCondensation(event: LogEventOf<'Condensation'>): void {
    const { forgotten_event_ids, summary_offset } = event
    const forgotten = new Set(Array.isArray(forgotten_event_ids) ? forgotten_event_ids : [])
    const remaining = this.#events.filter(({ id }) => !forgotten.has(id))
    for (const id of forgotten) {
      this.#ids.delete(id)
      this.#pruned.delete(id)
    }
    const summary = summaryEvent(event, event.id + summarySuffix)
    if (summary !== undefined && typeof summary_offset === 'number' && !this.#ids.has(summary.id)) {
      remaining.splice(Math.max(0, Math.min(summary_offset, remaining.length)), 0, summary)
      this.#ids.add(summary.id)
    }
    this.#events = remaining
    this.#messages = undefined
  }
}

function summaryEvent(
  event: LogEvent | undefined,
  id: string,
): LogEventOf<'CondensationSummaryEvent'> | undefined {
  if (event?.kind !== 'Condensation' || `${event.id}${summarySuffix}` !== id) return undefined
  const { timestamp, summary } = event
  if (typeof summary !== 'string') return undefined
  return {
    id,
    ...(timestamp === undefined ? {} : { timestamp }),
    source: 'environment',
    summary,
    kind: 'CondensationSummaryEvent',
  }
}
