import { Problem } from '@slipway/protocol/problem'

/** A stored event, an index or the record of a conversation is not what was written. It is never served. */
export class DamageError extends Problem {
  override readonly name = 'DamageError'
  readonly conversation: string
  /** The position of an event, or what else is damaged. */
  readonly part: number | 'index' | 'record' | 'log'
  readonly position: number | undefined

  /** @param cause the error of SQLite, where a page cannot be read. */
  constructor(conversation: string, part: DamageError['part'], reason: string, cause?: unknown) {
    const what = typeof part === 'number' ? `Event ${part}` : `The ${part}`
    const next = typeof part === 'number' ? 'Restore it from a backup.' : nextSteps[part]
    super(
      'unavailable',
      `${what} of conversation ${conversation} ${reason}: ${part === 'log' ? 'log.db' : 'the log'} is damaged. ${next}`,
    )
    if (cause !== undefined) this.cause = cause
    this.conversation = conversation
    this.part = part
    this.position = typeof part === 'number' ? part : undefined
  }
}

const nextSteps = {
  index: 'Stop the server, then "slipway doctor --repair" makes it again.',
  log: 'Stop the server, then "slipway doctor" says what is lost, and "slipway doctor --repair" repairs what can be.',
  record: 'Stop the server, then "slipway doctor --repair" takes what is there, or restore it from a backup.',
}

/** The row of an event that the thread of the text index found damaged. */
export class DamagedRowError extends Error {
  override readonly name = 'DamagedRowError'
  readonly row: number

  constructor(row: number) {
    super(`The event of row ${row} does not match its checksum`)
    this.row = row
  }
}

/** The thread of the text index cannot read a page of the log. */
export class DamagedLogError extends Error {
  override readonly name = 'DamagedLogError'
}
