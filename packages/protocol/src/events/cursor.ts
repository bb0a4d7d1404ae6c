import * as z from 'zod'
import { type Cursor, cursorPattern, parseCursor } from './cursor-text.ts'

export { type Cursor, cursorPattern, parseCursor } from './cursor-text.ts'

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
