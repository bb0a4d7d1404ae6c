import type { LogFunction } from '@slipway/protocol'

/** What a transaction found set. */
export type TransactionSettings = readonly [synchronous: string, fsync: string, pages: string]

/**
 * The first statements of each transaction. Its commit is durable when it is reported, whatever the database,
 * the role or the connection are set to by then; levels that wait for standbys stay. Its locks end
 * `maxIdleMs` after its last statement: a server that stands still holds up no other. Settings of the
 * connection would not hold behind a pooler in transaction mode.
 */
export function beginSql(maxIdleMs: number): string {
  return `BEGIN; SELECT current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('full_page_writes'),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END;
    SET LOCAL idle_in_transaction_session_timeout = ${maxIdleMs}`
}

const risks = [
  ['synchronous_commit', 'the transactions of this server set it on for themselves'],
  ['fsync', 'a crash of its machine may lose or damage data'],
  ['full_page_writes', 'a crash of its machine may lose or damage data'],
] as const

/** Warns about settings that are unsafe, when they are first seen and after each change. */
export class SettingWarnings {
  readonly #log: LogFunction
  readonly #off = new Set<string>()

  constructor(log: LogFunction) {
    this.#log = log
  }

  check(settings: TransactionSettings): void {
    for (const [index, [name, risk]] of risks.entries()) {
      if (settings[index] !== 'off') this.#off.delete(name)
      else if (!this.#off.has(name)) {
        this.#off.add(name)
        this.#log('warn', `the database has ${name} = off: ${risk}`, {})
      }
    }
  }
}
