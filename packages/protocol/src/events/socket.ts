import * as z from 'zod'
import { emptyAsUndefined, queryBoolean, queryInstant, queryInteger } from '../core/query.ts'
import { event } from './event.ts'

/**
 * The query of `/sockets/events/{conversation_id}`. `resend_mode` asks for history first: all of it, or what is not
 * before `after_timestamp` (an instant in microseconds after parsing); `resend_all` is an older spelling of `all`.
 * `after` asks for the resumable form: frames `{position, event}` from the position after it.
 */
export const eventsSocketQuery = z.object({
  session_api_key: z.string().optional(),
  resend_mode: emptyAsUndefined(z.enum(['all', 'since'])),
  after_timestamp: emptyAsUndefined(queryInstant),
  resend_all: emptyAsUndefined(queryBoolean),
  after: queryInteger(0, Number.MAX_SAFE_INTEGER).optional(),
})

/** The first frame of a client that gave no key in the URL or in a header. Closed: with more members it is no such frame. */
export const authFrame = z.strictObject({ type: z.literal('auth'), session_api_key: z.string() })

/** A frame of the resumable form. The next connection asks for `?after=` the last position. */
export const positionedEvent = z.object({ position: z.int().min(1), event })
