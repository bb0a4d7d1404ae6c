import * as z from 'zod'
import { emptyAsUndefined } from '../../core/query.ts'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, jsonObject, strictComponent } from '../../core/schemas.ts'
import { readOnlyFile } from '../llm/read-only-file.ts'
import {
  createMcpServerRequest,
  mcpServerName,
  saveSecretRequest,
  secretItem,
  secretName,
  settingsSchema,
  updateSettingsRequest,
} from './settings.ts'

const settingsResult = {
  description: 'The settings as they are now.',
  schema: component('SettingsResponse', {
    agent_settings: jsonObject,
    conversation_settings: jsonObject,
    llm_api_key_is_set: z.boolean(),
    active_profile: z.string().nullable(),
    active_agent_profile_id: z.string().nullable(),
    active_meta_profile: z.string().nullable(),
    misc_settings: jsonObject,
    read_only_file: readOnlyFile,
  }),
}
const unreadableResponses = {
  409: { description: 'What is stored is damaged, or was sealed with another key.' },
}
const newServerParams = z.object({ settings_key: mcpServerName })
/** One that came in with a diff may have any name. */
const serverParams = z.object({ settings_key: z.string() })
const secretParams = z.object({ name: secretName })
const formResponse = { description: 'The sections of the form.', schema: settingsSchema }
/** Both servers have them. */
export const agentSettingsForm = {
  summary: 'Describe a form for the settings of agents',
  responses: { 200: formResponse },
}
export const conversationSettingsForm = {
  summary: 'Describe a form for the settings of conversations',
  responses: { 200: formResponse },
}

export const settingsRoutes = defineRoutes('settings', {
  getSettings: route.get('/api/settings', {
    headers: { 'X-Expose-Secrets': 'encrypted, true or plaintext.' },
    summary: 'Get the settings',
    description:
      'Every member is there, with its default where nothing was set. Secrets are stars; the header X-Expose-Secrets asks for them as opaque tokens that this server takes back (encrypted, true) or as they are (plaintext).',
    responses: {
      200: { ...settingsResult },
      400: { description: 'The value of X-Expose-Secrets is none of these.' },
      ...unreadableResponses,
    },
  }),
  updateSettings: route.patch('/api/settings', {
    summary: 'Change the settings',
    description:
      'All of it or nothing. What is sent back as it was shown, stars included, stays as it is. An active profile without a diff of the model brings its model into the settings.',
    body: updateSettingsRequest,
    responses: {
      200: settingsResult,
      400: { description: 'Nothing was given.' },
      404: { description: 'There is no such profile.' },
      ...unreadableResponses,
    },
  }),
  getAgentSettingsSchema: route.get('/api/settings/agent-schema', agentSettingsForm),
  getConversationSettingsSchema: route.get('/api/settings/conversation-schema', conversationSettingsForm),
  createMcpServer: route.post('/api/settings/mcp/{settings_key}', {
    summary: 'Add an MCP server to the settings',
    params: newServerParams,
    body: createMcpServerRequest,
    responses: {
      201: settingsResult,
      409: { description: 'There is one of this name, or the settings cannot be read.' },
    },
  }),
  updateMcpServer: route.patch('/api/settings/mcp/{settings_key}', {
    summary: 'Change an MCP server of the settings',
    description: 'A merge patch. A command in the place of an address, or the other way round, begins again.',
    params: serverParams,
    /** A partial update; null removes a member. The merged result is validated. */
    body: strictComponent(
      'MCPServerPatch',
      Object.fromEntries(
        Object.keys(createMcpServerRequest.shape).map((name) => [name, z.unknown().optional()]),
      ),
    ),
    responses: { 200: settingsResult, ...unreadableResponses },
  }),
  deleteMcpServer: route.delete('/api/settings/mcp/{settings_key}', {
    summary: 'Take an MCP server out of the settings',
    params: serverParams,
    responses: { 200: settingsResult, ...unreadableResponses },
  }),
  listSecrets: route.get('/api/settings/secrets', {
    summary: 'List the secrets',
    description: 'Names and descriptions, never values.',
    query: z.object({
      agent_profile_id: emptyAsUndefined(z.string().max(128)).meta({
        description: 'Only those that this agent profile names in `secret_refs`.',
      }),
    }),
    responses: {
      ...ok('All of them, by name.', component('SecretsListResponse', { secrets: z.array(secretItem) })),
      ...unreadableResponses,
    },
  }),
  saveSecret: route.put('/api/settings/secrets', {
    summary: 'Save a secret',
    description: 'One of the same name is replaced.',
    body: saveSecretRequest,
    responses: {
      200: { description: 'It is saved.', schema: secretItem },
      409: { description: 'There are as many as there may be, or the stored ones cannot be read.' },
    },
  }),
  getSecretValue: route.get('/api/settings/secrets/{name}', {
    summary: 'Get the value of a secret',
    audit: true,
    params: secretParams,
    responses: { 200: { description: 'The value.', contentType: 'text/plain' }, ...unreadableResponses },
  }),
  deleteSecret: route.delete('/api/settings/secrets/{name}', {
    summary: 'Delete a secret',
    params: secretParams,
    responses: {
      ...ok('It is deleted.', component('Deleted', { deleted: z.boolean() })),
      ...unreadableResponses,
    },
  }),
})
