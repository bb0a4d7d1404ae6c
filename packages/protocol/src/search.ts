import * as z from 'zod'
import { type Instant, parseInstant } from './instant.ts'

/** Spec 2.4 EventSortOrder. */
export const eventSortOrder = z.enum(['TIMESTAMP', 'TIMESTAMP_DESC'])
export type EventSortOrder = z.infer<typeof eventSortOrder>

/**
 * A bound of time in a query string. A `+` that arrived as a blank in front of the offset is understood
 * (`2026-03-01T10:00:00 02:00`). The value is an instant in microseconds.
 */
export const queryInstant = z
  .string()
  .transform((text, ctx): Instant => {
    const instant = parseInstant(text.replace(/ (\d{2}:?\d{2})$/, (all, offset, at) => (at > 10 ? `+${offset}` : all)))
    if (instant !== undefined) return instant
    ctx.addIssue({ code: 'invalid_format', format: 'datetime', message: 'Input should be a valid datetime' })
    return z.NEVER
  })
  .meta({ type: 'string', format: 'date-time' })

/** An empty text filter is no filter. */
const filter = z
  .string()
  .transform((text) => (text === '' ? undefined : text))
  .optional()

/** The filters of event search and event count (spec 4.1). */
export const eventFilter = z.object({
  kind: filter.meta({ description: 'Keep only events of this kind, for example ActionEvent.' }),
  source: filter.meta({ description: 'Keep only events of this source: agent, user or environment.' }),
  body: filter.meta({ description: 'Keep only messages whose text contains this, in any case.' }),
  timestamp__gte: queryInstant.optional().meta({ description: 'Keep events at or after this moment.' }),
  timestamp__lt: queryInstant.optional().meta({ description: 'Keep events before this moment.' }),
})
/** After parsing: empty texts are undefined, moments are instants in microseconds. */
export type EventFilter = z.output<typeof eventFilter>

/** A whole number in a query string. */
export function queryInteger(min: number, max: number) {
  return z.coerce.number<string>().int().min(min).max(max)
}
