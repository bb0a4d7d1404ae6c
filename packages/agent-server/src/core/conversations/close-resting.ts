import type { Conversation } from '@slipway/agent'

/** An open conversation and when it was last asked for. */
export interface Rester {
  readonly conversation?: Conversation
  lastUsedAt: number
}

/** A conversation without use for so long may be closed to free its memory. */
export const restMs = 3_000
/** Each of them has the shell, servers or hooks of its last run: processes, a thread, descriptors. */
const maxResting = 32

/** Closing it would interrupt nothing that the server knows of. */
export function isUnused({ isBusy, hasDeadline, transientUpdates }: Conversation): boolean {
  return !isBusy && !hasDeadline && !transientUpdates.hasListeners
}

/**
 * Closes conversations that rest after a run, as idle ones are later: those above a fixed number that were
 * not used for the longest time, unless a program continues in them.
 */
export async function closeResting(
  loaded: ReadonlyMap<string, Rester>,
  options: {
    readonly now: number
    readonly isInUse: (id: string) => boolean
    readonly close: (id: string) => Promise<void>
  },
): Promise<void> {
  const { now, isInUse, close } = options
  const resting = [...loaded].flatMap(([id, rester]) => {
    const { conversation } = rester
    if (conversation === undefined || conversation.isAtRest || isInUse(id)) return []
    // It rests from the end of its run on.
    if (!isUnused(conversation)) rester.lastUsedAt = now
    return rester.lastUsedAt < now - restMs ? [{ id, conversation, lastUsedAt: rester.lastUsedAt }] : []
  })
  let excess = resting.length - maxResting
  for (const { id, conversation, lastUsedAt } of resting.sort((a, b) => a.lastUsedAt - b.lastUsedAt)) {
    if (excess <= 0) return
    // A failure tells nothing of its programs.
    if (await conversation.isOccupied().catch(() => true)) continue
    if (loaded.get(id)?.lastUsedAt === lastUsedAt && isUnused(conversation)) await close(id)
    excess -= 1
  }
}
