import * as z from 'zod'
import { component } from './schemas.ts'

/** The 200 of a route that answers JSON. */
export function ok<S extends z.ZodType>(description: string, schema: S) {
  return { 200: { description, schema } }
}

/** The items of the requested ids. */
export function listed<S extends z.ZodType>(item: S) {
  return ok('In the order asked for, null for the missing.', z.array(item.nullable()))
}

export const success = component('Success', { success: z.boolean() })

/** Of `/alive` and `/ready`. */
export const healthStatus = z.object({ status: z.string(), message: z.string().optional() })

export const successResponses = ok('Done.', success)
export const countResponses = ok('Their number.', z.int())
/** A stored document is damaged, or was sealed with another key. */
export const unreadableResponses = { 409: { description: 'What is kept cannot be read.' } }

/** The request and the answers of a page that is served from a cache as long as it cannot have changed. */
export const conditionalHeaders = { 'If-None-Match': 'The ETag of the page that the caller has.' }
export function cachedPageResponses<S extends z.ZodType>(page: S) {
  return {
    200: {
      description: 'One page.',
      schema: page,
      headers: {
        ETag: 'From the second answer on while the page cannot change: the first does not pay for its digest.',
      },
    },
    304: { description: 'The page of If-None-Match.' },
    409: { description: 'The page id belongs to another history of the log.' },
  }
}

/** Spec 2.4. */
const validationError = component('ValidationError', {
  loc: z.array(z.union([z.string(), z.int()])),
  msg: z.string(),
  type: z.string(),
})
/** What a 422 answers. */
export const httpValidationError = component('HTTPValidationError', {
  detail: z.array(validationError).optional(),
})
/** What every other refusal answers. */
export const problem = component('Problem', {
  detail: z.union([z.string(), z.looseObject({ message: z.string() })]),
  error_id: z.string().optional().meta({
    description: 'With a status of 500 or more: by this the log of the server tells more.',
  }),
  error: z
    .object({ message: z.string(), type: z.string(), code: z.string().nullable() })
    .optional()
    .meta({ description: 'Below /v1: the same as clients of such interfaces read it.' }),
})

/** The 422 of a route that also refuses valid input in its own words. */
export function invalidOrRefused(description: string) {
  return { 422: { description, schema: z.union([httpValidationError, problem]) } }
}
