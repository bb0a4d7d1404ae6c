import * as z from 'zod'

/** A setting of several values, separated by commas; blanks around them and empty ones do not count. */
export const listSetting = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  )

/** A setting that is a whole number from `min` to `max`. */
export function numberSetting(min: number, max: number, defaultValue: number) {
  const error = `Should be a whole number from ${min} to ${max}`
  return z.coerce
    .number({ error })
    .int({ error })
    .min(min, { error })
    .max(max, { error })
    .default(defaultValue)
}

/** What is set; an empty variable is one that is not. */
export function nonEmptyVariables(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [[name, value]],
    ),
  )
}

/** Parses settings; throws an Error that names the invalid variable and never shows its value. */
export function parseSettings<S extends z.ZodType>(schema: S, variables: unknown): z.output<S> {
  const result = schema.safeParse(variables)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  throw new Error(`${issue?.path.join('.')}: ${issue?.message}`)
}
