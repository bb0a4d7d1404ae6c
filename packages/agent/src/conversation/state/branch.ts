import { leafEventIdKey } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'

/** A fact that has moved the leaf: it stands at `position`, and what follows it follows the event at `target` (0: none). */
export interface LeafMove {
  readonly position: number
  readonly target: number
}

/** Positions above `after` up to `last`. */
export interface BranchSegment {
  readonly after: number
  readonly last: number
}

/** Whether an event is a fact that may move the leaf; its value is the id of an event, or null, which the log leaves out. */
export function isLeafUpdate(event: { readonly kind: string; readonly key?: unknown }): boolean {
  return event.kind === 'ConversationStateUpdateEvent' && event.key === leafEventIdKey
}

/** Where the branch ends that is active in a log of so many events: what comes next follows the event there; 0 when none. */
export function leafPosition(head: number, moves: readonly LeafMove[]): number {
  const last = moves.at(-1)
  return last?.position === head ? last.target : head
}

/**
 * The stretches of a log that are the branch which ends at `leaf`, in order. An event follows the one before it in the log,
 * unless a fact between them has moved the leaf; that fact itself is on no branch. `moves` are in order of position.
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
 * The event that a fact at `position` moves the leaf to: null for none, undefined when it names no earlier event, so that it
 * moves nothing. A fact that names another such fact leads where that one leads.
 */
export function leafMoveTarget(
  named: { readonly position: number } | undefined,
  position: number,
  moves: readonly LeafMove[],
): number | undefined {
  if (named === undefined || named.position >= position) return undefined
  return moves.find((move) => move.position === named.position)?.target ?? named.position
}

const pageSize = 100

/** All moves of a log, in order of position, from an index: the log is not read. */
export async function readLeafMoves(
  log: Pick<EventLog, 'get' | 'search'>,
  conversation: string,
): Promise<LeafMove[]> {
  const updates: { readonly position: number; readonly value: unknown }[] = []
  let page_id: string | undefined
  do {
    const query = { key: leafEventIdKey, limit: pageSize, sort_order: 'TIMESTAMP', page_id } as const
    const page = await log.search(conversation, query)
    for (const { position, bytes } of page.items) {
      const { value }: { value?: unknown } = JSON.parse(bytes.toString())
      updates.push({ position, value })
    }
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
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

/** The active branch of a log, for those who do not load the conversation. */
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
    // Of a head that was read a moment ago: what came since does not count.
    leafAt: (head) =>
      leafPosition(
        head,
        moves.filter(({ position }) => position <= head),
      ),
    has: (position) => segments.some(({ after, last }) => position > after && position <= last),
  }
}
