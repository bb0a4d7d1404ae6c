import type { EventLog, Snapshot } from '@slipway/storage'
import { countTokens } from '../llm/tokens.ts'
import { ConversationWriter } from './events/writer.ts'
import { Checkpoints } from './state/checkpoints.ts'
import { summarySuffix, type View, type ViewEvent } from './view/view.ts'

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
  /** The event that the log goes on from; null: it begins again. */
  readonly from_position: number | null
}

const batch = 500

/** Reads the log from the newest snapshot on. Writes nothing. */
export async function describeView(
  conversation: string,
  log: EventLog,
  snapshot: Snapshot | null,
): Promise<ViewDescription> {
  const checkpoints = new Checkpoints(snapshot)
  const { state } = await ConversationWriter.open(conversation, log, { checkpoints: () => checkpoints.all })
  const { view, position } = state
  const positions = await findPositions(conversation, log, view.events)
  const isSummary = ({ kind }: ViewEvent) => kind === 'CondensationSummaryEvent'
  const messages = view.messages()
  return {
    head: position,
    message_count: messages.length,
    estimated_tokens: countTokens(messages),
    ranges: toRanges(view.events.flatMap((event, at) => (isSummary(event) ? [] : (positions[at] ?? [])))),
    shortened_positions: shortened(view, positions),
    summaries: view.events.flatMap((event, at) =>
      event.kind === 'CondensationSummaryEvent'
        ? [{ position: positions[at] ?? 0, text: event.summary }]
        : [],
    ),
    branches: state.leafMoves.map(({ position: at, target }) => ({
      position: at,
      from_position: target || null,
    })),
  }
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

function shortened(view: View, positions: readonly (number | undefined)[]): number[] {
  const found = view.events.flatMap(({ id }, at) => (view.isPruned(id) ? (positions[at] ?? []) : []))
  return found.sort((a, b) => a - b)
}

function toRanges(positions: readonly number[]): { first: number; last: number }[] {
  const ranges: { first: number; last: number }[] = []
  for (const position of positions.toSorted((a, b) => a - b)) {
    const range = ranges.at(-1)
    if (range?.last === position - 1) range.last = position
    else ranges.push({ first: position, last: position })
  }
  return ranges
}
