/**
 * What a condensation forgets.
 *
 * Problem: a view outgrows its model. Its middle is to become a summary, but a provider refuses a call
 * without its result, the user's latest message must stay, and each condensation has to make the view
 * smaller, or the conversation would condense for ever.
 *
 * Idea: keep the first events, which are the task and the cached beginning of the prompt, and the longest end
 * that fits the target. Forget the block between them, in whole units (`view-units.ts`: the calls of a turn
 * with their results). Where that is no progress, a reset forgets all that may be forgotten.
 *
 * Invariants:
 * - A plan divides no unit: `head` and `end` are boundaries. Units overlap where results come late, so a
 *   boundary is an index that no unit covers (`viewLayout`).
 * - Protected events stay: system prompts, the latest user message, and the last turn while one of its calls
 *   has no result (`createPlan`).
 * - `planMiddle` keeps the last unit: `end` stops at `last`.
 * - A plan forgets something else than summaries. So the number of other events shrinks each time, and
 *   condensing ends.
 * - Nothing before `head` is forgotten, so `offset` is the place of the summary in the view without the
 *   forgotten events. The Condensation stores it, and every reader of the log inserts there.
 *
 * If you change this: requests that providers refuse, or a conversation that loses its question. The property
 * test in `condense.test.ts` shrinks views of any log until they cannot shrink.
 */

import { isUserMessage, type ViewEvent } from '../view/log-event.ts'
import { groupUnits, type ViewUnit } from '../view/view-units.ts'

/** The events to forget, in order, and the place of their summary in the view without them. */
export interface CondensePlan {
  readonly forgotten: readonly ViewEvent[]
  readonly offset: number
}

interface CondenseTarget {
  readonly keepFirst: number
  /** Most events of the view afterwards, its summary included. */
  readonly maxEvents: number
  /** Most tokens of the view afterwards without its summary; undefined: no bound. */
  readonly maxTokens: number | undefined
  readonly minForgotten: number
}

/**
 * Forgets a block between the first events and the longest end of the view that fits the target (at least the
 * last unit). Undefined when that is no progress.
 */
export function planMiddle(
  events: readonly ViewEvent[],
  target: CondenseTarget,
  tokensOf: (unit: ViewUnit) => number,
): CondensePlan | undefined {
  const layout = viewLayout(events)
  const { units, boundaries, protectedIndexes } = layout
  const { maxEvents, maxTokens = Number.POSITIVE_INFINITY } = target
  const head = headEnd(layout, events, target.keepFirst)
  const last = boundaries.lastIndexOf(true, events.length - 1)
  const countedUnits = target.maxTokens === undefined ? [] : units
  const tokens = new Map(countedUnits.map((unit) => [unit.first, tokensOf(unit)]))
  // The view without the forgettable events from `head` to `end`, with a summary in their place.
  let eventsLeft = events.length + 1
  let tokensLeft = tokens.values().reduce((sum, value) => sum + value, 0)
  let end = head
  while (end < last && !(boundaries[end] && eventsLeft <= maxEvents && tokensLeft <= maxTokens)) {
    if (!protectedIndexes.has(end)) {
      eventsLeft--
      tokensLeft -= tokens.get(end) ?? 0
    }
    end++
  }
  const plan = createPlan(events, layout, { head, end })
  return plan !== undefined && plan.forgotten.length >= target.minForgotten ? plan : undefined
}

/** Forgets all but the first and the protected events. Undefined when nothing is left to forget. */
export function planReset(events: readonly ViewEvent[], keepFirst: number): CondensePlan | undefined {
  const layout = viewLayout(events)
  return createPlan(events, layout, { head: headEnd(layout, events, keepFirst), end: events.length })
}

interface ViewLayout {
  readonly units: readonly ViewUnit[]
  /** Whether the view can be divided before this index (up to its length) without dividing a unit. */
  readonly boundaries: readonly boolean[]
  /** Events that are never forgotten: system prompts, the latest user message, calls without a result. */
  readonly protectedIndexes: ReadonlySet<number>
}

function viewLayout(events: readonly ViewEvent[]): ViewLayout {
  const units = groupUnits(events)
  const boundaries = new Array<boolean>(events.length + 1).fill(true)
  let covered = 0
  for (const { first, last } of units) {
    for (let index = Math.max(first, covered) + 1; index <= last; index++) boundaries[index] = false
    covered = Math.max(covered, last)
  }
  const protectedIndexes = new Set(
    events.flatMap(({ kind }, index) => (kind === 'SystemPromptEvent' ? [index] : [])),
  )
  protectedIndexes.add(events.findLastIndex(isUserMessage))
  for (const index of openBatchIndexes(events, units)) protectedIndexes.add(index)
  protectedIndexes.delete(-1)
  return { units, boundaries, protectedIndexes }
}

/** Indexes of the last turn's calls and results while one of its calls has no result. */
function openBatchIndexes(events: readonly ViewEvent[], units: readonly ViewUnit[]): number[] {
  const last = units.findLast(({ kind }) => kind === 'batch')
  if (last?.kind !== 'batch' || last.calls.every(({ result }) => result !== undefined)) return []
  const own = new Set<ViewEvent>(
    last.calls.flatMap(({ action, result }) => (result ? [action, result] : [action])),
  )
  return events.flatMap((event, index) => (own.has(event) ? [index] : []))
}

/** The end of the first events: `keepFirst` or the unit boundary before it, but after a system prompt. */
function headEnd(layout: ViewLayout, events: readonly ViewEvent[], keepFirst: number): number {
  const isLed = events[0]?.kind === 'SystemPromptEvent'
  const head = layout.boundaries.lastIndexOf(true, Math.min(keepFirst, events.length))
  return Math.max(head, isLed ? 1 : 0)
}

/** Undefined when the plan would forget nothing but earlier summaries. */
function createPlan(
  events: readonly ViewEvent[],
  layout: ViewLayout,
  { head, end }: { readonly head: number; readonly end: number },
): CondensePlan | undefined {
  const forgotten = events.filter(
    (_, index) => index >= head && index < end && !layout.protectedIndexes.has(index),
  )
  if (forgotten.every(({ kind }) => kind === 'CondensationSummaryEvent')) return undefined
  return { forgotten, offset: head }
}
