import { type LogFunction, Problem } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'

/** A stored event is missing or is not what was written. It is never served. */
export class DamageError extends Problem {
  readonly conversation: string
  readonly position: number

  constructor(conversation: string, position: number, reason: string) {
    const event = `Event ${position} of conversation ${conversation} ${reason}`
    super('unavailable', `${event}: the log is damaged. Restore it from a backup.`)
    this.conversation = conversation
    this.position = position
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
    this.#log('error', 'an event is damaged', { conversation, position, error: message })
  }
}
