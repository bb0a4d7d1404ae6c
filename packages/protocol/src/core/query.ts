import * as z from 'zod'
import { type Bound, firstInstant, type Instant, parseMoment } from './instant.ts'

/** Spec 2.4 EventSortOrder. */
export const eventSortOrder = z.enum(['TIMESTAMP', 'TIMESTAMP_DESC']).meta({ id: 'EventSortOrder' })
export type EventSortOrder = z.infer<typeof eventSortOrder>

/** A moment in a query string, to its last digit. A `+` of the offset that arrived as a blank is accepted. */
export const queryMoment = z
  .string()
  .transform((text, ctx): Bound => {
    const moment = parseMoment(
      text.replace(/ (\d{2}:?\d{2})$/, (all, offset, at) => (at > 10 ? `+${offset}` : all)),
    )
    if (moment !== undefined) return moment.finer === undefined ? moment.instant : moment
    ctx.addIssue({ code: 'invalid_format', format: 'datetime', input: text })
    return z.NEVER
  })
  .meta({ type: 'string', format: 'date-time' })

/** A bound of times that are not finer than instants. */
export const queryInstant = queryMoment
  .transform((bound): Instant => firstInstant(bound))
  .meta({ type: 'string', format: 'date-time' })

/** A text in a query string, absent when it is empty. */
export const queryText = z
  .string()
  .transform((text) => (text === '' ? undefined : text))
  .optional()

/** The filters of event search and event count (spec 4.1). */
export const eventFilter = z.object({
  kind: queryText.meta({
    description:
      'Keep only events of this kind, for example ActionEvent; of a longer name, such as a.b.ActionEvent, the last part counts.',
  }),
  source: queryText.meta({ description: 'Keep only events of this source: agent, user or environment.' }),
  body: queryText.meta({ description: 'Keep only messages whose text contains this, in any case.' }),
  timestamp__gte: queryMoment.optional().meta({ description: 'Keep events at or after this moment.' }),
  timestamp__lt: queryMoment.optional().meta({ description: 'Keep events before this moment.' }),
})
/** After parsing: empty texts are undefined, moments are bounds. */
export type EventFilter = z.output<typeof eventFilter>

const integerText = z.string().transform((text, ctx): number => {
  const { MIN_SAFE_INTEGER: least, MAX_SAFE_INTEGER: most } = Number
  if (/^[+-]?\d+$/.test(text)) return Math.max(least, Math.min(most, Number(text))) + 0
  ctx.addIssue({ code: 'invalid_format', format: 'int', input: text })
  return z.NEVER
})

/** A whole number in a query string, from `min` to `max`. */
export function queryInteger(min: number, max: number) {
  return integerText.pipe(z.number().gte(min).lte(max)).meta({ type: 'integer', minimum: min, maximum: max })
}

/** The size of a page: above 0, at most 100. */
export function pageLimitOf(usual: number) {
  return integerText.pipe(z.number().gt(0).lte(100)).default(usual).meta({
    type: 'integer',
    exclusiveMinimum: 0,
    maximum: 100,
    default: usual,
    description: 'Maximum number of items in the page.',
  })
}

/** The size of a page (spec 8): 100 unless given. */
export const pageLimit = pageLimitOf(100)

/** The query of a page. */
export const pageQuery = z.object({
  page_id: queryText.meta({ description: 'The next_page_id of the page before.' }),
  limit: pageLimit,
})

/** A yes or no in a query string: true, 1, yes, on or false, 0, no, off, in any case. */
export const queryBoolean = z
  .string()
  .transform((text, ctx): boolean => {
    if (/^(?:true|1|yes|on)$/i.test(text)) return true
    if (/^(?:false|0|no|off)$/i.test(text)) return false
    ctx.addIssue({ code: 'invalid_format', format: 'bool', input: text })
    return z.NEVER
  })
  .meta({ type: 'boolean' })

/** A yes in a query string, no when it is absent. */
export const queryFlag = queryBoolean.default(false)

/** A member of a query string that is absent when it is empty. */
export function emptyAsUndefined<S extends z.ZodType>(schema: S) {
  return z.preprocess((value) => (value === '' ? undefined : value), schema.optional()).optional()
}

/** The query of an event search (spec 4.1). */
export const eventSearchQuery = eventFilter.extend({
  ...pageQuery.shape,
  sort_order: eventSortOrder.default('TIMESTAMP'),
})
