import type { EventLog, Snapshot } from '@slipway/storage'
import type { LogEvent } from '../view/view.ts'
import { ConversationState, type SavedState } from './state.ts'

export interface Checkpoint {
  readonly position: number
  readonly state: SavedState
}

interface StoredCheckpoint extends SavedState {
  readonly earlier?: readonly Checkpoint[]
}

/** Most events in the views of earlier checkpoints together; nothing else in them can be large. */
const maxViewed = 20_000
/** Least distance of two checkpoints. */
const nearest = 1_000

/**
 * The saved states of a conversation, at distances that grow with their age, so that going back by some
 * events reads about as many. All of them may be deleted.
 */
export class Checkpoints {
  /** Newest first. */
  all: readonly Checkpoint[]

  constructor(snapshot: Snapshot | null) {
    this.all = snapshot === null ? [] : read(snapshot)
  }

  /** Position of the newest; 0 when there is none. */
  get position(): number {
    return this.all[0]?.position ?? 0
  }

  /** Adds the newest; returns the snapshot to store. */
  add(position: number, state: SavedState): Snapshot {
    const earlier = thinCheckpoints(position, this.all)
    this.all = [{ position, state }, ...earlier]
    const stored: StoredCheckpoint = { ...state, earlier }
    return { position, text: JSON.stringify(stored) }
  }
}

/**
 * Drops a checkpoint when the gap between its neighbours is at most the age of the newer one: the age of
 * every second checkpoint doubles.
 */
function thinCheckpoints(position: number, all: readonly Checkpoint[]): Checkpoint[] {
  let newer = position
  const spacedCheckpoints = all.filter((checkpoint, at) => {
    const gap = newer - (all[at + 1]?.position ?? 0)
    if (checkpoint.position >= position || gap <= Math.max(nearest, position - newer)) return false
    newer = checkpoint.position
    return true
  })
  let viewEvents = 0
  return spacedCheckpoints.filter(({ state }) => {
    viewEvents += state.view.length
    return viewEvents <= maxViewed
  })
}

function read({ position, text }: Snapshot): Checkpoint[] {
  try {
    const { earlier = [], ...state }: StoredCheckpoint = JSON.parse(text)
    return [{ position, state }, ...earlier].filter(
      (checkpoint) => checkpoint.state.version === 2 && Array.isArray(checkpoint.state.moves),
    )
  } catch {
    return []
  }
}

/** The state of a checkpoint; undefined when the log lacks one of its events. */
export async function restoreState(
  conversation: string,
  log: EventLog,
  { position, state }: Checkpoint,
): Promise<ConversationState | undefined> {
  try {
    return await ConversationState.restore(state, position, async (ids) => {
      const events = await log.get(conversation, ids)
      return events.map((event): LogEvent | undefined => event && JSON.parse(event.bytes.toString()))
    })
  } catch {
    return undefined
  }
}
