import * as z from 'zod'
import { emptyAsUndefined, queryBoolean, queryInstant } from '../core/query.ts'
import { queryCursor, resync } from './cursor.ts'
import { event } from './event.ts'

/**
 * The query of `/sockets/events/{conversation_id}`. `resend_mode` sends history first: all, or events from
 * `after_timestamp` (an instant) on; `resend_all` is an older spelling of `all`. `after` selects the
 * resumable form: frames `{position, event, cursor}` after that cursor.
 */
export const eventsSocketQuery = z.object({
  session_api_key: z.string().optional(),
  resend_mode: emptyAsUndefined(z.enum(['all', 'since'])),
  after_timestamp: emptyAsUndefined(queryInstant),
  resend_all: emptyAsUndefined(queryBoolean),
  after: queryCursor.optional(),
})

/** The first frame of a client without a key in URL or header; further members make it another frame. */
export const authFrame = z.strictObject({ type: z.literal('auth'), session_api_key: z.string() })

/** A frame of the resumable form. The next connection asks for `?after=` the last cursor. */
export const positionedEvent = z.object({ position: z.int().min(1), event, cursor: z.string().optional() })

/** The first frame of the resumable form when the log has another history than the cursor. */
export const resyncFrame = z.object({ resync })
