import * as z from 'zod'

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

/** A cursor in a query string. */
export const queryCursor = z
  .string()
  .transform((text, ctx): Cursor => {
    const cursor = parseCursor(text)
    if (cursor !== undefined) return cursor
    ctx.addIssue({ code: 'invalid_format', format: 'cursor', input: text })
    return z.NEVER
  })
  .meta({ type: 'string', pattern: cursorPattern.source })

/**
 * The log of a conversation does not contain the event that a cursor names: an older log was restored, or the
 * conversation was created again. What the reader has is another history.
 */
export const resync = z.object({
  /** Where to start again: read everything after this position, and drop what came before. */
  after: z.int().min(0),
  /** The end of the log. */
  head: z.int().min(0),
  /** The refused cursor. */
  cursor: z.string(),
  message: z.string(),
})
export type Resync = z.infer<typeof resync>
