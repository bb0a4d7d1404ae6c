/**
 * Branches: several lines of conversation in one flat log.
 *
 * Problem: a user goes back to an earlier event and continues from there. The log only grows, and its
 * positions have no gaps, so it has no place for a tree.
 *
 * Idea: the event before an event in the log is its parent, unless a state update with the key
 * `leaf_event_id` stands between them. Such an update is a leaf move: the events behind it follow the event
 * that it names (null: none). A branch is a list of ranges of positions, found backwards from the leaf: down
 * to the nearest move, then on from its target.
 *
 * Invariants:
 * - A target is below its move (`leafMoveTarget`). So each step of `branchSegments` goes down, and it ends.
 * - A target is no leaf move: an update that names one has the target of that one.
 * - A leaf move is on no branch: a segment begins above its position. An update that names no earlier event
 *   moves nothing, and is an ordinary event of its branch.
 * - Moves are in order of position: `leafPosition` reads the last one, and `branchSegments` goes through them
 *   once.
 *
 * If you change this: logs keep their moves for ever, so another rule gives stored conversations another
 * history. The rule has two readers that must agree: ConversationWriter, while a conversation is open, and
 * `readBranch`, without opening it. Checkpoints have a copy of the moves (`SavedState.moves`).
 */

import { leafEventIdKey } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { searchEvents } from './search-events.ts'

/** An update at `position` that moves the leaf: the events behind it follow that at `target` (0: none). */
export interface LeafMove {
  readonly position: number
  readonly target: number
}

/** Positions above `after` up to `last`. */
interface BranchSegment {
  readonly after: number
  readonly last: number
}

/** Whether an event may move the leaf. Its value is an event id, or null, which the log omits. */
export function isLeafUpdate(event: { readonly kind: string; readonly key?: unknown }): boolean {
  return event.kind === 'ConversationStateUpdateEvent' && event.key === leafEventIdKey
}

/** Position of the event that the next one follows in a log that ends at `head`; 0 when it follows none. */
export function leafPosition(head: number, moves: readonly LeafMove[]): number {
  const last = moves.at(-1)
  return last?.position === head ? last.target : head
}

/**
 * The segments of the branch that ends at `leaf`, in order. An event follows the one before it in the log
 * unless an update between them moves the leaf; that update is on no branch. `moves` are in order.
 */
export function branchSegments(leaf: number, moves: readonly LeafMove[]): BranchSegment[] {
  const segments: BranchSegment[] = []
  for (let [last, index] = [leaf, moves.length - 1]; last > 0; ) {
    while (index >= 0 && (moves[index]?.position ?? 0) > last) index--
    const move = moves[index]
    segments.push({ after: move?.position ?? 0, last })
    last = move?.target ?? 0
  }
  return segments.reverse()
}

/**
 * The position to which an update at `position` moves the leaf; undefined when it names no earlier event and
 * moves nothing. An update that names another leaf move has that move's target.
 */
export function leafMoveTarget(
  named: { readonly position: number } | undefined,
  position: number,
  moves: readonly LeafMove[],
): number | undefined {
  if (named === undefined || named.position >= position) return undefined
  return moves.find((move) => move.position === named.position)?.target ?? named.position
}

/** All leaf moves of a log, in order of position. */
export async function readLeafMoves(
  log: Pick<EventLog, 'get' | 'search'>,
  conversation: string,
): Promise<LeafMove[]> {
  const updates: { readonly position: number; readonly value: unknown }[] = []
  const query = { key: leafEventIdKey, sort_order: 'TIMESTAMP' } as const
  for await (const { position, bytes } of searchEvents(log, conversation, query)) {
    const { value }: { value?: unknown } = JSON.parse(bytes.toString())
    updates.push({ position, value })
  }
  if (updates.length === 0) return []
  updates.sort((a, b) => a.position - b.position)
  const named = await log.get(
    conversation,
    updates.map(({ value }) => (typeof value === 'string' ? value : '')),
  )
  const moves: LeafMove[] = []
  updates.forEach(({ position, value }, index) => {
    const target = value === undefined || value === null ? 0 : leafMoveTarget(named[index], position, moves)
    if (target !== undefined) moves.push({ position, target })
  })
  return moves
}

/** The active branch of a log, without loading the conversation. */
export interface Branch {
  /** Position of the event that the next one follows when the log ends at `head`; 0 when it follows none. */
  leafAt(head: number): number
  /** Whether an event at this position is on it. */
  has(position: number): boolean
}

export async function readBranch(
  log: Pick<EventLog, 'get' | 'read' | 'search'>,
  conversation: string,
): Promise<Branch> {
  const moves = await readLeafMoves(log, conversation)
  const last = moves.at(-1)
  if (last === undefined) return { leafAt: (head) => head, has: () => true }
  const [further] = await log.read(conversation, last.position, 1)
  const segments = branchSegments(further === undefined ? last.target : Number.POSITIVE_INFINITY, moves)
  return {
    // The head may be older than the moves.
    leafAt: (head) =>
      leafPosition(
        head,
        moves.filter(({ position }) => position <= head),
      ),
    has: (position) => segments.some(({ after, last }) => position > after && position <= last),
  }
}
