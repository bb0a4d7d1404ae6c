import { setTimeout as sleep } from 'node:timers/promises'
import { type ExecutionStatus, Problem } from '@slipway/protocol'
import type { AppendOptions, EventDraft, EventLog, StoredEvent } from '@slipway/storage'
import { State } from './state.ts'
import type { LogEvent } from './view.ts'

/** What is to be written; nothing at all is written for undefined. */
export interface Decision {
  readonly events: readonly EventDraft[]
  /** Changes of the conversation's record in the same transaction; the status follows from the events. */
  readonly record?: Omit<NonNullable<AppendOptions['record']>, 'status'>
}

const batch = 500
const busyMs = 100

/**
 * The one pen of a conversation: every write waits for the one before it, is decided with the state as it is then, goes
 * to the log after the position that the decision has seen, and is folded before the next one is decided.
 */
export class Pen {
  readonly conversation: string
  readonly #log: EventLog
  /** No text of a draft holds a secret after this. */
  readonly #mask: (draft: EventDraft) => EventDraft
  #state: State
  #last: Promise<unknown> = Promise.resolve()

  private constructor(
    conversation: string,
    log: EventLog,
    options: { readonly state: State; readonly mask: (draft: EventDraft) => EventDraft },
  ) {
    this.conversation = conversation
    this.#log = log
    this.#state = options.state
    this.#mask = options.mask
  }

  /** Folds the log to its end, from a saved state or from the start. */
  static async open(
    conversation: string,
    log: EventLog,
    options: { readonly state?: State | undefined; readonly mask?: (draft: EventDraft) => EventDraft } = {},
  ): Promise<Pen> {
    const { state = new State(), mask = (draft) => draft } = options
    const pen = new Pen(conversation, log, { state, mask })
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
      const decision = await decide(this.#state)
      if (decision === undefined || (decision.events.length === 0 && decision.record === undefined)) return []
      try {
        return this.#fold(await this.#append(decision))
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        if (error.code === 'busy' && isPatient) await sleep(busyMs)
        // Somebody else wrote: with what they wrote the decision may be another one.
        else if (error.code !== 'conflict' || !(await this.#readOn())) throw error
      }
    }
  }

  #append({ events, record }: Decision): Promise<StoredEvent[]> {
    const status = statusOf(events)
    const change = { ...record, ...(status === undefined ? {} : { status }) }
    return this.#log.append(this.conversation, events.map(this.#mask), {
      after: this.#state.position,
      ...(Object.keys(change).length === 0 ? {} : { record: change }),
    })
  }

  /** Folds what is new; answers whether there was anything. */
  async #readOn(): Promise<boolean> {
    const start = this.#state.position
    for (;;) {
      const events = await this.#log.read(this.conversation, this.#state.position, batch)
      if (events.length === 0) return this.#state.position > start
      this.#fold(events)
    }
  }

  #fold(stored: readonly StoredEvent[]): readonly LogEvent[] {
    return stored.map(({ bytes, position }) => {
      const event: LogEvent = JSON.parse(bytes.toString())
      // An event that was there already (a repeat of an id) is not folded twice.
      if (position > this.#state.position) this.#state.apply(event, position)
      return event
    })
  }
}

function statusOf(events: readonly EventDraft[]): ExecutionStatus | undefined {
  const facts = events.filter(({ key }) => key === 'execution_status')
  return facts.at(-1)?.value as ExecutionStatus | undefined
}
