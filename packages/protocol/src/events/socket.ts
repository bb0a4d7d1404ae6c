import * as z from 'zod'
import { emptyAsUndefined, queryBoolean, queryInteger, queryMoment } from '../core/query.ts'
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
  after_timestamp: emptyAsUndefined(queryMoment),
  resend_all: emptyAsUndefined(queryBoolean),
  after: queryCursor.optional(),
})

/**
 * The query of `/sockets/session/{conversation_id}`. `after_seq` asks for the history after an event's place
 * in the log (from 0); below 0 is all of it, absent is none.
 */
export const sessionSocketQuery = z.object({
  session_api_key: z.string().optional(),
  after_seq: queryInteger(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).optional(),
})

/** The first frame of a client without a key in URL or header; further members make it another frame. */
export const authFrame = z.strictObject({ type: z.literal('auth'), session_api_key: z.string() })

/** A frame of the resumable form. The next connection asks for `?after=` the last cursor. */
export const positionedEvent = z.object({ position: z.int().min(1), event, cursor: z.string().optional() })

/** The first frame of the resumable form when the log has another history than the cursor. */
export const resyncFrame = z.object({ resync })

const seq = z.int().min(0)
const sessionItem = { item_id: z.string(), attempt: z.int().min(1) }

/**
 * A frame of the server on the session socket. `seq` is an event's place in the log, from 0. A streamed reply
 * ends with the durable event whose id is `item_id`, or with `item_aborted`; a higher attempt replaces a
 * lower.
 */
export const sessionFrame = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('sync'), from_seq: z.int().optional(), through_seq: seq.optional() }),
  z.strictObject({ type: z.literal('durable'), seq, event }),
  z.strictObject({ type: z.literal('transient'), event }),
  z.strictObject({ type: z.literal('item_started'), ...sessionItem, anchor_seq: seq.optional() }),
  z.strictObject({
    type: z.literal('delta'),
    ...sessionItem,
    order: seq,
    kind: z.enum(['text', 'reasoning']),
    content: z.string(),
  }),
  z.strictObject({ type: z.literal('item_aborted'), ...sessionItem, reason: z.string() }),
  z.strictObject({ type: z.literal('error'), code: z.string(), detail: z.string() }),
])
export type SessionFrame = z.output<typeof sessionFrame>
