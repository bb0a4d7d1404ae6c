import type { LogFunction } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'
import type { DamageError } from './damage.ts'

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
        ? 'an event'
        : part === 'log'
          ? 'a log'
          : part === 'index'
            ? 'an index'
            : 'a record'
    this.#log('error', `${what} is damaged`, { conversation, position, error: message })
  }
}
