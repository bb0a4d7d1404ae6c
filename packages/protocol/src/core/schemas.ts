import * as z from 'zod'
import { parseInstant } from './instant.ts'

/** An object that OpenAPI lists by id. Unknown members are dropped. */
export function component<S extends z.core.$ZodLooseShape>(id: string, members: S) {
  return z.object(members).meta({ id })
}

/** Like `component`; unknown members stay. */
export function looseComponent<S extends z.core.$ZodLooseShape>(id: string, members: S) {
  return z.looseObject(members).meta({ id })
}

/** Like `component`; unknown members are refused. */
export function strictComponent<S extends z.core.$ZodLooseShape>(id: string, members: S) {
  return z.strictObject(members).meta({ id })
}

/** A text of `min` to `max` characters, counted as code points (a surrogate pair is one). */
export function boundedText(min: number, max: number) {
  return z
    .string()
    .check((ctx) => {
      const { value } = ctx
      const length = value.length > 2 * max ? value.length : [...value].length
      const commonIssue = { origin: 'string', inclusive: true, input: value } as const
      if (length < min) ctx.issues.push({ ...commonIssue, code: 'too_small', minimum: min })
      if (length > max) ctx.issues.push({ ...commonIssue, code: 'too_big', maximum: max })
    })
    .meta(min === 0 ? { maxLength: max } : { minLength: min, maxLength: max })
}

/** A date-time text that `parseInstant` accepts, unchanged. */
export const dateTimeText = z.string().check((ctx) => {
  if (parseInstant(ctx.value) !== undefined) return
  ctx.issues.push({ code: 'invalid_format', format: 'datetime', input: ctx.value })
})

/** A UUID in any case, with or without dashes; after parsing in lower case with dashes. */
export const uuid = z
  .string()
  .transform((text, ctx): string => {
    const hex = text.replaceAll('-', '').toLowerCase()
    const isDashed = /^[^-]{8}(-[^-]{4}){3}-[^-]{12}$/.test(text)
    if (/^[0-9a-f]{32}$/.test(hex) && (isDashed || text.length === 32)) return formatUuid(hex)
    ctx.addIssue({ code: 'invalid_format', format: 'uuid', input: text })
    return z.NEVER
  })
  .meta({ type: 'string', format: 'uuid' })

function formatUuid(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** Null means absent. */
export function nullAsUndefined<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined)
}

/** A member with a default for absent and null. */
export function withDefault<S extends z.ZodType>(schema: S, value: z.output<S>) {
  return schema
    .nullish()
    .transform((input): z.output<S> => input ?? value)
    .meta({ default: value })
}

/** A member that is null until it is set. */
export function nullByDefault<S extends z.ZodType>(schema: S) {
  return schema.nullable().default(null)
}

export const jsonObject = z.record(z.string(), z.unknown())

/** A date-time text of the server, not checked. */
export const timestamp = z.string().meta({ format: 'date-time' })

/** A switch that is on unless the request says otherwise. */
export const trueByDefault = withDefault(z.boolean(), true)

/** One page of a list; `next_page_id` is null on the last one. */
export function pageOf<S extends z.ZodType>(item: S) {
  return z.object({ items: z.array(item), next_page_id: z.string().nullable() })
}
