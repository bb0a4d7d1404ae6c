import type { EventLog, Snapshot } from '@slipway/storage'
import { countTokens } from '../llm/tokens.ts'
import { ConversationWriter } from './events/writer.ts'
import { Checkpoints } from './state/checkpoints.ts'
import type { ConversationState } from './state/state.ts'
import { defaultMessageLimits } from './view/message-limits.ts'
import { Projection } from './view/projection.ts'
import { summarySuffix, type ViewEvent } from './view/view.ts'

/** What the model sees of a log (spec 2.3), by positions. */
export interface ViewDescription {
  /** The position of the last event that this follows from. */
  readonly head: number
  readonly message_count: number
  /** Of the messages, without tools; rather too high than too low. */
  readonly estimated_tokens: number
  /** The events that the model sees, ascending. */
  readonly ranges: readonly { readonly first: number; readonly last: number }[]
  /** Results among them that the model sees only shortened. */
  readonly shortened_positions: readonly number[]
  /** What stands for events that it no longer sees, in the order of the view. */
  readonly summaries: readonly { readonly position: number; readonly text: string }[]
  /** Updates after which the log follows an earlier event, ascending. */
  readonly branches: readonly BranchStart[]
}

interface BranchStart {
  readonly position: number
  /** The event that the log continues from; null: it begins again. */
  readonly from_position: number | null
}

const batch = 500

/** From the state of a loaded conversation, or from its log, read from the newest snapshot on. */
export async function describeView(
  conversation: string,
  log: EventLog,
  source: { readonly state: ConversationState } | { readonly snapshot: Snapshot | null },
): Promise<ViewDescription> {
  const state = 'state' in source ? source.state : await readState(conversation, log, source.snapshot)
  const { view, position } = state
  // The state of a loaded conversation changes while positions are read.
  const events = [...view.events]
  const pruned = new Set(events.filter(({ id }) => view.isPruned(id)))
  const moves = [...state.leafMoves]
  const messages = new Projection(defaultMessageLimits).messages(events)
  const positions = await findPositions(conversation, log, events)
  const positionsOf = (matches: (event: ViewEvent) => boolean) =>
    events.flatMap((event, at) => (matches(event) ? (positions[at] ?? []) : [])).sort((a, b) => a - b)
  return {
    head: position,
    message_count: messages.length,
    estimated_tokens: countTokens(messages),
    ranges: toRanges(positionsOf(({ kind }) => kind !== 'CondensationSummaryEvent')),
    shortened_positions: positionsOf((event) => pruned.has(event)),
    summaries: events.flatMap((event, at) =>
      event.kind === 'CondensationSummaryEvent'
        ? [{ position: positions[at] ?? 0, text: event.summary }]
        : [],
    ),
    branches: moves.map(({ position: at, target }) => ({
      position: at,
      from_position: target || null,
    })),
  }
}

async function readState(
  conversation: string,
  log: EventLog,
  snapshot: Snapshot | null,
): Promise<ConversationState> {
  const checkpoints = new Checkpoints(snapshot)
  return (await ConversationWriter.open(conversation, log, { checkpoints: () => checkpoints.all })).state
}

/** The position of each event; of a summary that of its Condensation, if it is not stored itself. */
async function findPositions(
  conversation: string,
  log: EventLog,
  events: readonly ViewEvent[],
): Promise<(number | undefined)[]> {
  const positions: (number | undefined)[] = []
  for (let start = 0; start < events.length; start += batch) {
    const ids = events.slice(start, start + batch).map(({ id }) => id)
    const found = await log.get(conversation, ids)
    const condensations = ids.map((id, at) =>
      found[at] === undefined && id.endsWith(summarySuffix) ? id.slice(0, -summarySuffix.length) : '',
    )
    const summarised = await log.get(conversation, condensations)
    positions.push(...found.map((event, at) => (event ?? summarised[at])?.position))
  }
  return positions
}

/** Of ascending positions. */
function toRanges(positions: readonly number[]): { first: number; last: number }[] {
  const ranges: { first: number; last: number }[] = []
  for (const position of positions) {
    const range = ranges.at(-1)
    if (range?.last === position - 1) range.last = position
    else ranges.push({ first: position, last: position })
  }
  return ranges
}
