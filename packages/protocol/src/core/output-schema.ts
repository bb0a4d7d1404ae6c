import { errorText, firstChars } from '@slipway/shared/text'
import * as z from 'zod'
import { validationIssues } from './validation-issues.ts'

const maxIssues = 8

/** Checks values against a JSON Schema. */
export interface OutputSchema {
  /** What is wrong, in one sentence; undefined when nothing is. */
  check(value: unknown): string | undefined
}

/** A JSON Schema of type object (draft 2020-12, local references only), or why it cannot be used. */
export function readOutputSchema(
  schema: Readonly<Record<string, unknown>>,
): OutputSchema | { readonly issue: string } {
  if (schema.type !== 'object') return { issue: 'The schema has to be of type object' }
  try {
    const checked = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]) // it throws for others
    // Some schemas fail only when they are used.
    checked.safeParse({})
    return { check: (value) => describe(checked, value) }
  } catch (error) {
    return { issue: `The schema cannot be used: ${errorText(error)}` }
  }
}

function describe(schema: z.ZodType, value: unknown): string | undefined {
  const result = schema.safeParse(value)
  if (result.success) return undefined
  const issues = validationIssues(result.error, [], value)
  const parts = issues.slice(0, maxIssues).map(({ loc, msg }) => `${loc.join('.') || 'the value'}: ${msg}`)
  const more = issues.length > maxIssues ? `; and ${issues.length - maxIssues} more` : ''
  return firstChars(`${parts.join('; ')}${more}`, 4_000)
}
