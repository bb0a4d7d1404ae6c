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
      headers: { ETag: 'Present while the page cannot change.' },
    },
    304: { description: 'The page of If-None-Match.' },
  }
}
