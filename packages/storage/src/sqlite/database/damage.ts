import { type LogFunction, Problem } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'

/** A stored event, an index or the record of a conversation is not what was written. It is never served. */
export class DamageError extends Problem {
  readonly conversation: string
  /** The position of an event, or what else is damaged. */
  readonly part: number | 'index' | 'record'
  readonly position: number | undefined

  constructor(conversation: string, part: DamageError['part'], reason: string) {
    const what = typeof part === 'number' ? `Event ${part}` : `The ${part}`
    const next = typeof part === 'number' ? 'Restore it from a backup.' : nextSteps[part]
    super('unavailable', `${what} of conversation ${conversation} ${reason}: the log is damaged. ${next}`)
    this.conversation = conversation
    this.part = part
    this.position = typeof part === 'number' ? part : undefined
  }
}

const nextSteps = {
  index: 'Stop the server, then "slipway doctor --repair" makes it again.',
  record: 'Stop the server, then "slipway doctor --repair" takes what is there, or restore it from a backup.',
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
    'Reads that were refused because what is stored is missing or damaged.',
  )
  readonly #log: LogFunction
  readonly #logged = new Set<string>()

  constructor(log: LogFunction) {
    this.#log = log
  }

  add({ conversation, part, position, message }: DamageError): void {
    this.reads.inc()
    if (this.#logged.has(message)) return
    this.#logged.add(message)
    const what =
      typeof part === 'number'
        ? 'an event is damaged'
        : part === 'index'
          ? 'an index is damaged'
          : 'a record is damaged'
    this.#log('error', what, { conversation, position, error: message })
  }
}
