import * as z from 'zod'

/** The profile of an agent at its revision then, and the names of the secrets that it allows. */
export const launchedProfile = z.object({
  agent_profile_id: z.uuid(),
  revision: z.int().min(0),
  secret_refs: z.array(z.string()).nullable().optional(),
})
export type LaunchedProfile = z.output<typeof launchedProfile>
