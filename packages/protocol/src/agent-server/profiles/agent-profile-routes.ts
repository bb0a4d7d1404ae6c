import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import { uuid } from '../../core/schemas.ts'
import {
  activateAgentProfileResponse,
  agentProfile,
  agentProfileDetail,
  agentProfileDiagnostics,
  agentProfileList,
  agentProfileMutationResponse,
  renameAgentProfileRequest,
} from './agent-profile.ts'
import { profileName } from './llm-profile.ts'

const tag = 'agent profiles'
const nameParams = z.object({ name: profileName })
const mutationResponse = { description: 'What was done.', schema: agentProfileMutationResponse }
const unreadableResponses = { 409: { description: 'What is kept cannot be read.' } }

export const agentProfileRoutes = {
  listAgentProfiles: {
    method: 'GET',
    path: '/api/agent-profiles',
    tag,
    summary: 'List the profiles of agents',
    description: 'There is always one: an empty list gets one with the name default.',
    responses: { 200: { description: 'All of them.', schema: agentProfileList }, ...unreadableResponses },
  },
  getAgentProfile: {
    method: 'GET',
    path: '/api/agent-profiles/{name}',
    tag,
    summary: 'Get a profile of an agent',
    params: nameParams,
    responses: { 200: { description: 'The profile.', schema: agentProfileDetail }, ...unreadableResponses },
  },
  saveAgentProfile: {
    method: 'POST',
    path: '/api/agent-profiles/{name}',
    tag,
    summary: 'Save a profile of an agent',
    description: 'One of the same name is replaced; it keeps its id, and its revision becomes one more.',
    params: nameParams,
    body: agentProfile,
    responses: {
      201: mutationResponse,
      409: { description: 'There are as many profiles as there may be, or what is kept cannot be read.' },
    },
  },
  deleteAgentProfile: {
    method: 'DELETE',
    path: '/api/agent-profiles/{name}',
    tag,
    summary: 'Delete a profile of an agent',
    description: 'Done as well when there is none of the name.',
    params: nameParams,
    responses: { 200: mutationResponse, ...unreadableResponses },
  },
  renameAgentProfile: {
    method: 'POST',
    path: '/api/agent-profiles/{name}/rename',
    tag,
    summary: 'Rename a profile of an agent',
    params: nameParams,
    body: renameAgentProfileRequest,
    responses: {
      200: mutationResponse,
      409: { description: 'The new name is taken, or what is kept cannot be read.' },
    },
  },
  activateAgentProfile: {
    method: 'POST',
    path: '/api/agent-profiles/{profile_id}/activate',
    tag,
    summary: 'Make a profile of an agent the active one',
    description: 'It is named by its id. The settings stay as they are.',
    params: z.object({ profile_id: uuid }),
    responses: {
      200: { description: 'It is.', schema: activateAgentProfileResponse },
      ...unreadableResponses,
    },
  },
  materializeAgentProfile: {
    method: 'POST',
    path: '/api/agent-profiles/{name}/materialize',
    tag,
    summary: 'Tell what a conversation of this profile would be started with',
    description:
      'What it refers to and is not there is told in the answer, and is no error. Secrets are null.',
    params: nameParams,
    responses: {
      200: { description: 'The diagnosis.', schema: agentProfileDiagnostics },
      ...unreadableResponses,
    },
  },
} as const satisfies RouteTable
