import { type LogFunction, Problem } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'

/** A stored event, or an index of events, is not what was written. It is never served. */
export class DamageError extends Problem {
  readonly conversation: string
  /** Undefined when an index is damaged, and not an event. */
  readonly position: number | undefined

  constructor(conversation: string, position: number | undefined, reason: string) {
    const what =
      position === undefined
        ? `The index of conversation ${conversation}`
        : `Event ${position} of conversation ${conversation}`
    const next =
      position === undefined
        ? 'Stop the server, then "slipway doctor --repair" makes it again.'
        : 'Restore it from a backup.'
    super('unavailable', `${what} ${reason}: the log is damaged. ${next}`)
    this.conversation = conversation
    this.position = position
  }
}

/** The row of an event that the thread of the text index found damaged. */
export class DamagedRowError extends Error {
  readonly row: number

  constructor(row: number) {
    super(`The event of row ${row} does not match its checksum`)
    this.row = row
  }
}

/** Counts damaged reads, and logs each damaged event once. */
export class DamageReport {
  readonly reads = createCounter(
    'slipway_damaged_reads_total',
    'Reads that were refused because a stored event is missing or damaged.',
  )
  readonly #log: LogFunction
  readonly #logged = new Set<string>()

  constructor(log: LogFunction) {
    this.#log = log
  }

  add({ conversation, position, message }: DamageError): void {
    this.reads.inc()
    if (this.#logged.has(message)) return
    this.#logged.add(message)
    const what = position === undefined ? 'an index is damaged' : 'an event is damaged'
    this.#log('error', what, { conversation, position, error: message })
  }
}
