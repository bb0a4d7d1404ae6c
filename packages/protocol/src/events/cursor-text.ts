/** A place in the log of a conversation: after the event at a position. */
export interface Cursor {
  readonly position: number
  /** Names the event there, and with it the history of the log; undefined for a bare position. */
  readonly digest: string | undefined
}

/** `41.9f3c01ab`, or the bare position `41`, which is in whatever history the log has. */
export const cursorPattern = /^(\d{1,15})(?:\.([0-9a-f]{8}))?$/

/** Undefined for any other text. */
export function parseCursor(text: string): Cursor | undefined {
  const [, position, digest] = cursorPattern.exec(text) ?? []
  return position === undefined ? undefined : { position: Number(position), digest }
}
