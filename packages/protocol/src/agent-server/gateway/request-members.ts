import * as z from 'zod'
import { nullAsUndefined } from '../../core/schemas.ts'

/** What replaces a member of the profile for the request. */
export const samplingMembers = {
  temperature: nullAsUndefined(z.number().min(0).max(2)),
  top_p: nullAsUndefined(z.number().min(0).max(1)),
}

const metadata = z
  .record(z.string(), z.string())
  .refine((members) => Object.keys(members).length <= 16, 'At most 16 members')

/** What a request says about itself. */
export const requestLabels = {
  metadata: nullAsUndefined(metadata),
  user: nullAsUndefined(z.string()),
  safety_identifier: nullAsUndefined(z.string()),
  prompt_cache_key: nullAsUndefined(z.string()),
}
