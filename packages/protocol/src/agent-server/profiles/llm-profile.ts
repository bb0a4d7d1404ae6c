import * as z from 'zod'
import { jsonObject } from '../../core/schemas.ts'
import { llm } from '../llm/llm.ts'

/** The name of a profile: 1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first. */
export const profileName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    'The name of a profile is 1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first',
  )

/** A profile in a list: no secret is read for it. `provider_connection_*` are for clients that know connections. */
export const profileSummary = z
  .object({
    name: z.string(),
    model: z.string().nullable(),
    base_url: z.string().nullable(),
    provider_connection_id: z.string().nullable(),
    provider_connection_broken: z.boolean(),
    api_key_set: z.boolean(),
  })
  .meta({ id: 'ProfileSummary' })
export type ProfileSummary = z.infer<typeof profileSummary>

/** In order of name; `active_profile` is the name of the one that was activated last. */
export const profileList = z
  .object({ profiles: z.array(profileSummary), active_profile: z.string().nullable() })
  .meta({ id: 'ProfileList' })

/** A profile as clients see it: every secret of `config` is null. */
export const profileDetail = z
  .object({ name: z.string(), config: jsonObject, api_key_set: z.boolean() })
  .meta({ id: 'ProfileDetail' })

/** `include_secrets: false` leaves the secrets of `llm` out of what is kept. */
export const saveProfileRequest = z
  .object({ llm, include_secrets: z.boolean().default(true) })
  .meta({ id: 'SaveProfileRequest' })

export const renameProfileRequest = z.object({ new_name: profileName }).meta({ id: 'RenameProfileRequest' })

/** What was done, in words. */
export const profileMutation = z
  .object({ name: z.string(), message: z.string() })
  .meta({ id: 'ProfileMutationResponse' })

export const activateProfileResponse = profileMutation
  .extend({ llm_applied: z.boolean() })
  .meta({ id: 'ActivateProfileResponse' })

export const switchProfileRequest = z
  .object({ profile_name: profileName })
  .meta({ id: 'SwitchProfileRequest' })

/** What is to be tried; nothing of it is kept. */
export const validateProfileRequest = z.object({ llm }).meta({ id: 'ValidateProfileRequest' })

/** `type` is the name of an error (`LLMAuthenticationError`); `message` holds no secret. */
export const validateProfileResponse = z
  .object({
    valid: z.boolean(),
    error: z.object({ type: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'ValidateProfileResponse' })
