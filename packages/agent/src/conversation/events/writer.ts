import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type ExecutionStatus, Problem } from '@slipway/protocol'
import type { AppendOptions, EventDraft, EventLog, StoredEvent } from '@slipway/storage'
import { isLeafFact, leafOf, stretchesTo, targetOf } from '../state/branch.ts'
import { type Checkpoint, restored } from '../state/checkpoints.ts'
import { State } from '../state/state.ts'
import type { LogEvent } from '../view/view.ts'

/** What is to be written; nothing at all is written for undefined. */
export interface Decision {
  readonly events: readonly EventDraft[]
  /** Changes of the conversation's record in the same transaction; the status follows from the events. */
  readonly record?: Omit<NonNullable<AppendOptions['record']>, 'status'>
}

const batch = 500
const busyMs = 100

export interface PenOptions {
  /** No text of a draft holds a secret after this. */
  readonly mask?: (draft: EventDraft) => EventDraft
  /** What a draft is written as behind the event of this id, the last change before it is stored. */
  readonly dress?: (draft: EventDraft, leafId: string | undefined) => EventDraft
  /** Folds that were saved, the newest first: reading goes on from there where it can. */
  readonly saved?: () => readonly Checkpoint[]
}

/**
 * The one pen of a conversation: every write waits for the one before it, is decided with the state as it is then, goes
 * to the log after the position that the decision has seen, and is folded before the next one is decided. When the leaf is
 * moved the state is folded anew, along the branch that leads there.
 */
export class Pen {
  readonly conversation: string
  readonly #log: EventLog
  readonly #mask: (draft: EventDraft) => EventDraft
  readonly #dress: NonNullable<PenOptions['dress']>
  readonly #saved: () => readonly Checkpoint[]
  #state: State
  #last: Promise<unknown> = Promise.resolve()

  private constructor(conversation: string, log: EventLog, options: PenOptions & { readonly state: State }) {
    this.conversation = conversation
    this.#log = log
    this.#state = options.state
    this.#mask = options.mask ?? ((draft) => draft)
    this.#dress = options.dress ?? ((draft) => draft)
    this.#saved = options.saved ?? (() => [])
  }

  /** Folds the log to its end, from the saved state or from the start. */
  static async open(conversation: string, log: EventLog, options: PenOptions = {}): Promise<Pen> {
    const [newest] = options.saved?.() ?? []
    const state = newest && (await restored(conversation, log, newest))
    const pen = new Pen(conversation, log, { ...options, state: state ?? new State() })
    await pen.#readOn()
    return pen
  }

  /** The state as of the last write or reading; not to be changed. */
  get state(): State {
    return this.#state
  }

  /**
   * Writes what `decide` says about the state when the pen is free, and answers the events as they are stored. `isPatient`
   * waits while an import holds the conversation; otherwise that is a Problem `busy`.
   */
  write(
    decide: (state: State) => Decision | undefined | Promise<Decision | undefined>,
    options: { readonly isPatient?: boolean } = {},
  ): Promise<readonly LogEvent[]> {
    const written = this.#last.then(() => this.#write(decide, options.isPatient ?? false))
    this.#last = written.catch(() => undefined)
    return written
  }

  async #write(
    decide: (state: State) => Decision | undefined | Promise<Decision | undefined>,
    isPatient: boolean,
  ): Promise<readonly LogEvent[]> {
    for (;;) {
      if (this.#state.isAstray) await this.#findBranch()
      const decision = await decide(this.#state)
      if (decision === undefined || (decision.events.length === 0 && decision.record === undefined)) return []
      const stored = await this.#append(decision).catch(async (error: unknown) => {
        if (!(error instanceof Problem)) throw error
        if (error.code === 'busy' && isPatient) await sleep(busyMs)
        // Somebody else wrote: with what they wrote the decision may be another one.
        else if (error.code !== 'conflict' || !(await this.#readOn())) throw error
      })
      if (stored !== undefined) return await this.#fold(stored)
    }
  }

  async #append({ events, record }: Decision): Promise<StoredEvent[]> {
    const status = statusOf(events)
    const change = { ...record, ...(status === undefined ? {} : { status }) }
    let { leafId } = this.#state
    const drafts = events.map((event) => {
      const draft = this.#dress(this.#mask(event), leafId)
      leafId = isLeafFact(draft) ? leafIdOf(draft) : draft.id
      return draft
    })
    return await this.#log.append(this.conversation, drafts, {
      after: this.#state.position,
      ...(Object.keys(change).length === 0 ? {} : { record: change }),
    })
  }

  /** Folds what is new; answers whether there was anything. */
  async #readOn(): Promise<boolean> {
    const start = this.#state.position
    for (;;) {
      const events = await this.#log.read(this.conversation, this.#state.position, batch)
      if (events.length === 0) break
      await this.#take(events)
    }
    if (this.#state.isAstray) await this.#findBranch()
    return this.#state.position > start
  }

  async #fold(stored: readonly StoredEvent[]): Promise<readonly LogEvent[]> {
    const events = await this.#take(stored)
    if (this.#state.isAstray) await this.#findBranch()
    return events
  }

  async #take(stored: readonly StoredEvent[]): Promise<readonly LogEvent[]> {
    const events: LogEvent[] = []
    for (const { bytes, position } of stored) {
      const event: LogEvent = JSON.parse(bytes.toString())
      events.push(event)
      // An event that was there already (a repeat of an id) is not folded twice.
      if (position <= this.#state.position) continue
      if (!isLeafFact(event) || !(await this.#move(event, position))) this.#state.apply(event, position)
    }
    return events
  }

  /** Whether a fact moves the leaf: it names an event before it, or none. */
  async #move(event: object, position: number): Promise<boolean> {
    const value: unknown = Reflect.get(event, 'value')
    const state = this.#state
    if (value === undefined || value === null) {
      state.move(position, 0, undefined)
      return true
    }
    const [named] = typeof value === 'string' ? await this.#log.get(this.conversation, [value]) : []
    const target = targetOf(named, position, state.moves)
    if (target === undefined) return false
    state.move(position, target, await this.#idAt(target, named))
    return true
  }

  async #idAt(position: number, near: StoredEvent | undefined): Promise<string | undefined> {
    if (position === 0 || near?.position === position) return near?.id
    return (await this.#log.read(this.conversation, position - 1, 1))[0]?.id
  }

  /** Folds the branch that leads to the leaf, from the saved state where that lies on it, and goes on with it. */
  async #findBranch(): Promise<void> {
    const whole = this.#state
    const { leaf, moves } = whole
    const stretches = stretchesTo(leaf, moves)
    const isThere = (position: number) =>
      stretches.some(({ after, last }) => position > after && position <= last)
    const start = await this.#savedOn(isThere)
    const branch = start?.state ?? new State()
    const from = start?.leaf ?? 0
    for (const { after, last } of stretches) {
      if (last <= from) continue
      if (after > 0 && after >= from) branch.leave(after)
      await this.#foldOn(branch, Math.max(after, from), last)
    }
    const arrival = moves.at(-1)?.position ?? 0
    if (arrival > leaf) branch.leave(arrival)
    branch.join(whole)
    this.#state = branch
  }

  async #foldOn(branch: State, after: number, last: number): Promise<void> {
    for (let position = after; position < last; ) {
      const events = await this.#log.read(this.conversation, position, Math.min(batch, last - position))
      if (events.length === 0) throw new Error('a branch leads beyond the end of its log')
      for (const { bytes, position: at } of events) branch.apply(JSON.parse(bytes.toString()), at)
      position = events.at(-1)?.position ?? last
      await nextTurn()
    }
  }

  /** The newest saved state that is of a moment of this branch: not one in which the leaf had just been moved. */
  async #savedOn(
    isThere: (position: number) => boolean,
  ): Promise<{ readonly state: State; readonly leaf: number } | undefined> {
    const found = this.#saved().find(
      ({ position, state }) => isThere(position) && leafOf(position, state.moves) === position,
    )
    const state = found && (await restored(this.conversation, this.#log, found))
    return state && { state, leaf: found.position }
  }
}

function leafIdOf({ value }: EventDraft): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function statusOf(events: readonly EventDraft[]): ExecutionStatus | undefined {
  const facts = events.filter(({ key }) => key === 'execution_status')
  return facts.at(-1)?.value as ExecutionStatus | undefined
}
