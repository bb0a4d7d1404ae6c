import * as z from 'zod'
import { emptyAsUndefined, queryBoolean, queryInstant, queryInteger } from '../core/query.ts'
import { event } from './event.ts'

/**
 * The query of `/sockets/events/{conversation_id}`. `resend_mode` sends history first: all, or events from
 * `after_timestamp` (an instant) on; `resend_all` is an older spelling of `all`. `after` selects the
 * resumable form: frames `{position, event}` after that position.
 */
export const eventsSocketQuery = z.object({
  session_api_key: z.string().optional(),
  resend_mode: emptyAsUndefined(z.enum(['all', 'since'])),
  after_timestamp: emptyAsUndefined(queryInstant),
  resend_all: emptyAsUndefined(queryBoolean),
  after: queryInteger(0, Number.MAX_SAFE_INTEGER).optional(),
})

/** The first frame of a client without a key in URL or header; further members make it another frame. */
export const authFrame = z.strictObject({ type: z.literal('auth'), session_api_key: z.string() })

/** A frame of the resumable form. The next connection asks for `?after=` the last position. */
export const positionedEvent = z.object({ position: z.int().min(1), event })
