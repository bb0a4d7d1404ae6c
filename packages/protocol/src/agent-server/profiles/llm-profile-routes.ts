import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, jsonObject } from '../../core/schemas.ts'
import { llm } from '../llm/llm.ts'
import { profileName } from '../llm/profile-name.ts'
import { profileMutation, profileSummary, renameProfileRequest, saveProfileRequest } from './llm-profile.ts'

const profileParams = z.object({ name: profileName })
const unreadableResponses = { 400: { description: 'The stored profile cannot be read.' } }
const profileMutationResponse = { description: 'What was done.', schema: profileMutation }

export const llmProfileRoutes = defineRoutes('profiles', {
  listProfiles: route.get('/api/profiles', {
    summary: 'List the profiles of models',
    /** In order of name; `active_profile` is the name of the one that was activated last. */
    responses: ok(
      'All of them.',
      component('ProfileList', {
        profiles: z.array(profileSummary),
        active_profile: z.string().nullable(),
      }),
    ),
  }),
  getProfile: route.get('/api/profiles/{name}', {
    headers: { 'X-Expose-Secrets': 'encrypted, true or plaintext.' },
    summary: 'Get a profile',
    description: 'Its secrets are null.',
    params: profileParams,
    /** A profile as clients see it: every secret of `config` is null. */
    responses: {
      ...ok(
        'The profile.',
        component('ProfileDetail', {
          name: z.string(),
          config: jsonObject,
          api_key_set: z.boolean(),
        }),
      ),
      ...unreadableResponses,
    },
  }),
  saveProfile: route.post('/api/profiles/{name}', {
    summary: 'Save a profile',
    description: 'One of the same name is replaced.',
    params: profileParams,
    body: saveProfileRequest,
    responses: {
      201: profileMutationResponse,
      409: { description: 'There are as many profiles as there may be.' },
    },
    example: { llm: { model: 'anthropic/claude-sonnet-4-5', api_key: 'sk-...' } },
  }),
  deleteProfile: route.delete('/api/profiles/{name}', {
    summary: 'Delete a profile',
    description: 'Done as well when there is none of the name.',
    params: profileParams,
    responses: { 200: profileMutationResponse },
  }),
  renameProfile: route.post('/api/profiles/{name}/rename', {
    summary: 'Rename a profile',
    params: profileParams,
    body: renameProfileRequest,
    responses: { 200: profileMutationResponse, 409: { description: 'The new name is taken.' } },
  }),
  activateProfile: route.post('/api/profiles/{name}/activate', {
    summary: 'Make a profile the active one',
    params: profileParams,
    responses: {
      ...ok(
        'It is.',
        profileMutation.extend({ llm_applied: z.boolean() }).meta({ id: 'ActivateProfileResponse' }),
      ),
      ...unreadableResponses,
    },
  }),
  validateProfile: route.post('/api/profiles/{name}/validate', {
    summary: 'Try a model before it is saved',
    description:
      'Asks the model once, with the given settings, or without a body with those of the saved profile; nothing is saved. A limit of rate (429), a timeout (408, 504) and silence do not make it invalid: `valid` is true, and `error` says why it did not answer.',
    params: profileParams,
    /** The model to test; nothing is stored. Without it the saved profile is tested. */
    body: component('ValidateProfileRequest', { llm: llm.optional() }).prefault({}),
    /** `type` is the name of an error (`LLMAuthenticationError`); `message` holds no secret. */
    responses: ok(
      'Whether it answered.',
      component('ValidateProfileResponse', {
        valid: z.boolean(),
        error: z.object({ type: z.string(), message: z.string() }).nullable(),
      }),
    ),
  }),
})
