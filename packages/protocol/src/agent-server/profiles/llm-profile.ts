import * as z from 'zod'
import { component } from '../../core/schemas.ts'
import { llm } from '../llm/llm.ts'
import { profileName } from '../llm/profile-name.ts'
import { readOnlyFile } from '../llm/read-only-file.ts'

/** A profile in a list, without secrets. `provider_connection_*` are for clients that know them. */
export const profileSummary = component('ProfileSummary', {
  name: z.string(),
  model: z.string().nullable(),
  base_url: z.string().nullable(),
  provider_connection_id: z.string().nullable(),
  provider_connection_broken: z.boolean(),
  api_key_set: z.boolean(),
  read_only_file: readOnlyFile,
})
export type ProfileSummary = z.infer<typeof profileSummary>

/** `include_secrets: false` does not store the secrets of `llm`. */
export const saveProfileRequest = component('SaveProfileRequest', {
  llm,
  include_secrets: z.boolean().default(true),
})

export const renameProfileRequest = component('RenameProfileRequest', { new_name: profileName })

/** What was done, in words. */
export const profileMutation = component('ProfileMutationResponse', { name: z.string(), message: z.string() })
