import type { EventLog, Snapshot } from '@slipway/storage'
import type { LogEvent } from '../view/view.ts'
import { ConversationState, type SavedState } from './state.ts'

/** The fold up to a position, as it was saved. */
export interface Checkpoint {
  readonly position: number
  readonly state: SavedState
}

interface StoredCheckpoint extends SavedState {
  readonly earlier?: readonly Checkpoint[]
}

/** Events of the views of earlier checkpoints, together: there is nothing else in them that could be large. */
const maxViewed = 20_000
/** Checkpoints are no nearer to each other. */
const nearest = 1_000

/**
 * The folds of a conversation that were saved: the newest, and earlier ones that lie the further apart the older they are. So
 * going back by some events reads about as many, however long the log is. All of them may be thrown away.
 */
export class Checkpoints {
  #all: readonly Checkpoint[]

  constructor(snapshot: Snapshot | null) {
    this.#all = snapshot === null ? [] : read(snapshot)
  }

  /** The newest first. */
  get all(): readonly Checkpoint[] {
    return this.#all
  }

  /** Of the newest; 0 when there is none. */
  get position(): number {
    return this.#all[0]?.position ?? 0
  }

  /** Adds the newest; answers what is to be kept. */
  add(position: number, state: SavedState): Snapshot {
    const earlier = thinCheckpoints(position, this.#all)
    this.#all = [{ position, state }, ...earlier]
    const stored: StoredCheckpoint = { ...state, earlier }
    return { position, text: JSON.stringify(stored) }
  }
}

/**
 * Leaves out a checkpoint when the gap between its neighbours is no longer than the newer of them is old. So none of the gaps is, and the ages
 * of every second one double.
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

/** The state of a checkpoint; undefined when it cannot be used: the log has it all. */
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
