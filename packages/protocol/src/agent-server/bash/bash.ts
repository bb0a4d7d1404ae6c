import * as z from 'zod'
import {
  emptyAsUndefined,
  eventSortOrder,
  pageLimit,
  queryBoolean,
  queryInstant,
  queryInteger,
  queryText,
} from '../../core/query.ts'
import { component, nullAsUndefined, timestamp, uuid, withDefault } from '../../core/schemas.ts'

/** An id of bash events: a UUID in any case, with or without dashes; after parsing without. */
export const bashId = uuid.transform((id) => id.replaceAll('-', ''))

/** A command for bash. Unknown members are ignored; null means absent. */
export const executeBashRequest = component('ExecuteBashRequest', {
  command: z.string(),
  cwd: nullAsUndefined(z.string()).meta({
    description: 'Absolute; the directory of the server unless given.',
  }),
  timeout: withDefault(z.int().min(1), 300).meta({
    description: 'Seconds after which the command is ended with its process group.',
  }),
})
export type ExecuteBashRequest = z.output<typeof executeBashRequest>

/** A command that was started. */
export const bashCommand = component('BashCommand', {
  command: z.string(),
  cwd: z.string().nullable(),
  timeout: z.int(),
  id: z.string(),
  timestamp: timestamp,
  kind: z.literal('BashCommand'),
})
export type BashCommand = z.infer<typeof bashCommand>

/** A piece of the output of a command, counted from 0 by `order`; `exit_code` is null in all but the last. */
export const bashOutput = component('BashOutput', {
  id: z.string(),
  timestamp: timestamp,
  command_id: z.string(),
  order: z.int(),
  exit_code: z.int().nullable().meta({
    description: '-1 when the time was over or the server ended, -n when signal n ended the command.',
  }),
  stdout: z.string().nullable(),
  stderr: z.string().nullable(),
  kind: z.literal('BashOutput'),
})
export type BashOutput = z.infer<typeof bashOutput>

export const bashEvent = z.discriminatedUnion('kind', [bashCommand, bashOutput])

/** The query of a bash event search. After parsing, empty texts are absent and moments are instants. */
export const bashSearchQuery = z.object({
  kind__eq: emptyAsUndefined(z.enum(['BashCommand', 'BashOutput'])),
  command_id__eq: emptyAsUndefined(bashId).meta({
    description: 'Keep the output of this command; with kind__eq=BashCommand the command itself.',
  }),
  timestamp__gte: emptyAsUndefined(queryInstant),
  timestamp__lt: emptyAsUndefined(queryInstant),
  order__gt: emptyAsUndefined(queryInteger(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)).meta({
    description: 'Of outputs keep only those of a higher order.',
  }),
  sort_order: eventSortOrder.default('TIMESTAMP'),
  page_id: queryText.meta({
    description: 'The next_page_id of the page before, or <UTC time>_<kind>[_<command id>]_<id> of an event.',
  }),
  limit: pageLimit,
})
export type BashSearchQuery = z.output<typeof bashSearchQuery>

/** The query of `/sockets/bash-events`: whether stored events are sent first. */
export const bashSocketQuery = z.object({
  session_api_key: z.string().optional(),
  resend_mode: emptyAsUndefined(z.enum(['all'])),
  resend_all: emptyAsUndefined(queryBoolean),
})
