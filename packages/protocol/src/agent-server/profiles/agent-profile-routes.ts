import * as z from 'zod'
import { ok, unreadableResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { profileName } from '../llm/profile-name.ts'
import {
  agentProfile,
  agentProfileDiagnostics,
  agentProfileSummary,
  materializeRequest,
} from './agent-profile.ts'

const nameParams = z.object({ name: profileName })
const mutationResponse = {
  description: 'What was done.',
  schema: component('AgentProfileMutationResponse', {
    name: z.string(),
    message: z.string(),
  }),
}

export const agentProfileRoutes = defineRoutes('agent profiles', {
  listAgentProfiles: route.get('/api/agent-profiles', {
    summary: 'List the profiles of agents',
    description:
      'The first list makes a profile with the name default, of the active LLM profile or of the model of the settings.',
    /** In order of name. */
    responses: {
      ...ok(
        'All of them.',
        component('AgentProfileList', {
          profiles: z.array(agentProfileSummary),
          active_agent_profile_id: z.string().nullable(),
        }),
      ),
      ...unreadableResponses,
    },
  }),
  getAgentProfile: route.get('/api/agent-profiles/{name}', {
    summary: 'Get a profile of an agent',
    params: nameParams,
    responses: {
      ...ok('The profile.', component('AgentProfileDetail', { name: z.string(), profile: agentProfile })),
      ...unreadableResponses,
    },
  }),
  saveAgentProfile: route.post('/api/agent-profiles/{name}', {
    summary: 'Save a profile of an agent',
    description: 'One of the same name is replaced; it keeps its id, and its revision becomes one more.',
    params: nameParams,
    body: agentProfile,
    responses: {
      201: mutationResponse,
      409: { description: 'There are as many profiles as there may be, or what is kept cannot be read.' },
    },
  }),
  deleteAgentProfile: route.delete('/api/agent-profiles/{name}', {
    summary: 'Delete a profile of an agent',
    description: 'Done as well when there is none of the name.',
    params: nameParams,
    responses: { 200: mutationResponse, ...unreadableResponses },
  }),
  renameAgentProfile: route.post('/api/agent-profiles/{name}/rename', {
    summary: 'Rename a profile of an agent',
    params: nameParams,
    body: component('RenameAgentProfileRequest', { new_name: profileName }),
    responses: {
      200: mutationResponse,
      409: { description: 'The new name is taken, or what is kept cannot be read.' },
    },
  }),
  activateAgentProfile: route.post('/api/agent-profiles/{profile_id}/activate', {
    summary: 'Make a profile of an agent the active one',
    description: 'It is named by its id. The settings stay as they are.',
    params: z.object({ profile_id: z.string().min(1).max(128) }),
    responses: {
      ...ok(
        'It is.',
        component('ActivateAgentProfileResponse', {
          id: z.string(),
          message: z.string(),
          agent_settings_applied: z.boolean(),
        }),
      ),
      ...unreadableResponses,
    },
  }),
  materializeAgentProfile: route.post('/api/agent-profiles/{name}/materialize', {
    summary: 'Tell what a conversation of this profile would be started with',
    description:
      'The answer names references to what is missing, which are no error. Secrets are stars. A profile in the body is a draft of any name; it is not saved.',
    params: nameParams,
    body: materializeRequest.prefault({}),
    responses: { ...ok('The diagnosis.', agentProfileDiagnostics), ...unreadableResponses },
  }),
})
