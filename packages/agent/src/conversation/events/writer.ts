/**
 * The writer of a conversation: the state decides what is appended, and the log decides what was decided in
 * time.
 *
 * Problem: requests, the loop, tool results and external agents append at any time, each by what the
 * conversation is at that moment. An import or another server may write to the same log.
 *
 * Idea: a write is a function from the state to events. A mutex orders the writes of this process. The append
 * names the position that the state is at, so the log refuses a decision that is out of date; then the writer
 * reads the new events and decides again.
 *
 * Invariants:
 * - Each decision sees the state after the write before it (`#mutex`), and is stored behind that state or not
 *   at all (`after` in `#append`).
 * - `decide` runs again after a conflict: it has no effect but its result.
 * - A conflict without new events is thrown, because deciding again would change nothing (`#write`).
 * - `state` is the fold of the log up to `state.position`. A repeated id comes back as the existing event,
 *   which is not applied twice (`#applyEvents`).
 * - A draft is redacted before `format` and the log see it.
 * - The status of the record comes from the events of the same append (`lastStatus`), so the two agree.
 * - After a leaf move the members of the state that follow the branch are those of another one until
 *   `#replayBranch` has put a new state in its place. So nothing holds `state` across a write, and a write
 *   whose replay failed begins with another try. A checkpoint saved right after a move is such a state too,
 *   and is not used for a replay.
 *
 * If you change this: two runs, a lost message or a status that the log does not have. The log checks
 * positions and ids, not decisions. Branches: `../state/branch.ts`.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ExecutionStatus, Problem } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { wellFormed } from '@slipway/shared/json'
import { type Clock, systemClock } from '@slipway/shared/time'
import type { AppendOptions, EventDraft, EventLog, StoredEvent } from '@slipway/storage'
import { branchSegments, isLeafUpdate, leafMoveTarget, leafPosition } from '../state/branch.ts'
import { type Checkpoint, restoreState } from '../state/checkpoints.ts'
import { ConversationState } from '../state/state.ts'
import type { LogEvent } from '../view/view.ts'

interface WriteDecision {
  readonly events: readonly EventDraft[]
  /** Changes of the conversation's record in the same transaction; the status follows from the events. */
  readonly record?: Omit<NonNullable<AppendOptions['record']>, 'status'>
}

type Decide = (state: ConversationState) => WriteDecision | undefined | Promise<WriteDecision | undefined>

const batch = 500
const busyMs = 100
/** Of a conflict: longer than a slow disk takes for a sync. */
const maxTries = 100

export interface ConversationWriterOptions {
  readonly redact?: (draft: EventDraft) => EventDraft
  /**
   * The last change of a draft before it is stored behind the event `leafId`; `isFirst`: in an empty log.
   */
  readonly format?: (draft: EventDraft, leafId: string | undefined, isFirst: boolean) => EventDraft
  /** Saved states, newest first, from which reading starts. */
  readonly checkpoints?: () => readonly Checkpoint[]
  /** For the waits for an import; that of the machine unless given. */
  readonly clock?: Clock
}

/** The only writer of a conversation in this process. */
export class ConversationWriter {
  readonly conversation: string
  /** The state after the last write; read-only. */
  state: ConversationState
  readonly #log: EventLog
  readonly #options: ConversationWriterOptions
  readonly #mutex = new Mutex()

  private constructor(
    conversation: string,
    log: EventLog,
    { state, ...options }: ConversationWriterOptions & { readonly state: ConversationState },
  ) {
    this.conversation = conversation
    this.#log = log
    this.state = state
    this.#options = options
  }

  /** Reads the log to its end, from the newest checkpoint or from the start. */
  static async open(
    conversation: string,
    log: EventLog,
    options: ConversationWriterOptions = {},
  ): Promise<ConversationWriter> {
    const [newest] = options.checkpoints?.() ?? []
    const saved = newest && (await restoreState(conversation, log, newest))
    const state = saved ?? new ConversationState()
    const writer = new ConversationWriter(conversation, log, { ...options, state })
    await writer.#catchUp()
    return writer
  }

  /**
   * Appends what `decide` returns and returns the stored events. While an import holds the conversation it
   * waits when `isPatient`, otherwise rejects with a Problem `busy`.
   */
  write(
    decide: Decide,
    { isPatient = false }: { readonly isPatient?: boolean } = {},
  ): Promise<readonly LogEvent[]> {
    return this.#mutex.runExclusive(() => this.#write(decide, isPatient))
  }

  async #write(decide: Decide, isPatient: boolean): Promise<readonly LogEvent[]> {
    const { clock = systemClock } = this.#options
    for (;;) {
      if (this.state.needsBranchReplay) await this.#replayBranch()
      const decision = await decide(this.state)
      if (decision === undefined || (decision.events.length === 0 && decision.record === undefined)) return []
      const stored = await this.#append(decision).catch(async (error: unknown) => {
        if (!(error instanceof Problem)) throw error
        if (error.code === 'busy' && isPatient) await clock.sleep(busyMs)
        // Another writer was first: decide again with its events.
        else if (error.code !== 'conflict' || !(await this.#waitForOther(clock))) throw error
      })
      if (stored !== undefined) return await this.#fold(stored)
    }
  }

  async #append({ events, record }: WriteDecision): Promise<StoredEvent[]> {
    const status = lastStatus(events)
    const change = { ...record, ...(status === undefined ? {} : { status }) }
    const { redact = (draft) => draft, format = (draft) => draft } = this.#options
    let { leafId } = this.state
    const drafts = events.map((event, index) => {
      const draft = format(wellFormed(redact(event)), leafId, this.state.position === 0 && index === 0)
      leafId = isLeafUpdate(draft) ? leafEventId(draft) : draft.id
      return draft
    })
    return await this.#log.append(this.conversation, drafts, {
      after: this.state.position,
      ...(Object.keys(change).length === 0 ? {} : { record: change }),
    })
  }

  /** What another writer has appended is read when it is durable. False when nothing comes. */
  async #waitForOther(clock: Clock): Promise<boolean> {
    for (let tries = 0; tries < maxTries; tries++) {
      if (await this.#catchUp()) return true
      await clock.sleep(busyMs)
    }
    return false
  }

  /** Reads new events; false when there were none. */
  async #catchUp(): Promise<boolean> {
    const start = this.state.position
    for (;;) {
      const events = await this.#log.read(this.conversation, this.state.position, batch)
      if (events.length === 0) break
      await this.#applyEvents(events)
      // A long log that has no checkpoint holds up no other request.
      if (events.length === batch) await nextTurn()
    }
    if (this.state.needsBranchReplay) await this.#replayBranch()
    return this.state.position > start
  }

  async #fold(stored: readonly StoredEvent[]): Promise<readonly LogEvent[]> {
    const events = await this.#applyEvents(stored)
    if (this.state.needsBranchReplay) await this.#replayBranch()
    return events
  }

  async #applyEvents(stored: readonly StoredEvent[]): Promise<readonly LogEvent[]> {
    const events: LogEvent[] = []
    for (const { bytes, position } of stored) {
      const event: LogEvent = JSON.parse(bytes.toString())
      events.push(event)
      // A repeated id returns the existing event, which is applied already.
      if (position <= this.state.position) continue
      if (!isLeafUpdate(event) || !(await this.#applyLeafMove(event, position)))
        this.state.apply(event, position)
    }
    return events
  }

  /** False when the update names no earlier event and so moves nothing. */
  async #applyLeafMove(event: object, position: number): Promise<boolean> {
    const value: unknown = Reflect.get(event, 'value')
    const state = this.state
    if (value === undefined || value === null) {
      state.moveLeaf(position, 0, undefined)
      return true
    }
    const [named] = typeof value === 'string' ? await this.#log.get(this.conversation, [value]) : []
    const target = leafMoveTarget(named, position, state.leafMoves)
    if (target === undefined) return false
    state.moveLeaf(position, target, await this.#eventIdAt(target, named))
    return true
  }

  async #eventIdAt(position: number, candidate: StoredEvent | undefined): Promise<string | undefined> {
    if (position === 0 || candidate?.position === position) return candidate?.id
    return (await this.#log.read(this.conversation, position - 1, 1))[0]?.id
  }

  /** Computes the state of the branch to the leaf, from a checkpoint on that branch if there is one. */
  async #replayBranch(): Promise<void> {
    const fullState = this.state
    const { leaf, leafMoves } = fullState
    const segments = branchSegments(leaf, leafMoves)
    const isOnBranch = (position: number) =>
      segments.some(({ after, last }) => position > after && position <= last)
    const start = await this.#findCheckpoint(isOnBranch)
    const branch = start?.state ?? new ConversationState()
    const from = start?.leaf ?? 0
    for (const { after, last } of segments) {
      if (last <= from) continue
      if (after > 0 && after >= from) branch.leaveBranch(after)
      await this.#replayRange(branch, Math.max(after, from), last)
    }
    const lastMovePosition = leafMoves.at(-1)?.position ?? 0
    if (lastMovePosition > leaf) branch.leaveBranch(lastMovePosition)
    branch.adoptSharedState(fullState)
    this.state = branch
  }

  async #replayRange(branch: ConversationState, after: number, last: number): Promise<void> {
    for (let position = after; position < last; ) {
      const events = await this.#log.read(this.conversation, position, Math.min(batch, last - position))
      if (events.length === 0) throw new Error('a branch leads beyond the end of its log')
      for (const { bytes, position: at } of events) branch.apply(JSON.parse(bytes.toString()), at)
      position = events.at(-1)?.position ?? last
      await nextTurn()
    }
  }

  /** The newest checkpoint on this branch. */
  async #findCheckpoint(isOnBranch: (position: number) => boolean) {
    const found = this.#options
      .checkpoints?.()
      .find(({ position, state }) => isOnBranch(position) && leafPosition(position, state.moves) === position)
    const state = found && (await restoreState(this.conversation, this.#log, found))
    return state && { state, leaf: found.position }
  }
}

function leafEventId({ value }: EventDraft): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function lastStatus(events: readonly EventDraft[]): ExecutionStatus | undefined {
  return events.findLast(({ key }) => key === 'execution_status')?.value as ExecutionStatus | undefined
}
