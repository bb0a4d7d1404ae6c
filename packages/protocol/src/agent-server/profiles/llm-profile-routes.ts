import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import {
  activateProfileResponse,
  profileDetail,
  profileList,
  profileMutation,
  profileName,
  renameProfileRequest,
  saveProfileRequest,
  validateProfileRequest,
  validateProfileResponse,
} from './llm-profile.ts'

const profileParams = z.object({ name: profileName })
const unreadableResponses = { 400: { description: 'The stored profile cannot be read.' } }
const profileMutationResponse = { description: 'What was done.', schema: profileMutation }

export const llmProfileRoutes = defineRoutes('profiles', {
  listProfiles: route.get('/api/profiles', {
    summary: 'List the profiles of models',
    responses: ok('All of them.', profileList),
  }),
  getProfile: route.get('/api/profiles/{name}', {
    summary: 'Get a profile',
    description: 'Its secrets are null.',
    params: profileParams,
    responses: { ...ok('The profile.', profileDetail), ...unreadableResponses },
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
    responses: { ...ok('It is.', activateProfileResponse), ...unreadableResponses },
  }),
  validateProfile: route.post('/api/profiles/{name}/validate', {
    summary: 'Try a model before it is saved',
    description:
      'Asks the model once, with the given settings; nothing is saved, and the profile need not be there. A limit of rate and a timeout do not make it invalid.',
    params: profileParams,
    body: validateProfileRequest,
    responses: ok('Whether it answered.', validateProfileResponse),
  }),
})
