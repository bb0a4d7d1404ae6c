import * as z from 'zod'
import { defineAction, defineBuiltInTool, defineObservation } from './tool.ts'

/**
 * The text of a web page. These kinds are outside the specification's closed lists and in no union: only
 * conversations created with `web_fetch` have them.
 */
export const webFetchAction = defineAction('WebFetchAction', {
  url: z.string().min(1).max(8192).meta({ description: 'http or https.' }),
})
export type WebFetchAction = z.output<typeof webFetchAction>

/** `url`: after redirects. `status`: null when there was no answer. */
export const webFetchObservation = defineObservation('WebFetchObservation', {
  url: z.string(),
  status: z.int().nullish(),
  content_type: z.string().nullish(),
})
export type WebFetchObservation = z.output<typeof webFetchObservation>

export const webFetchTool = defineBuiltInTool(
  'WebFetchTool',
  { action_type: 'WebFetchAction', observation_type: 'WebFetchObservation' },
  { idempotent: true, openWorld: true },
  'Gets the readable text of a web page.',
)
