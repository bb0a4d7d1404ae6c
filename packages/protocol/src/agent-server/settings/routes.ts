import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import {
  createMcpServerRequest,
  mcpServerName,
  patchMcpServerRequest,
  saveSecretRequest,
  secretItem,
  secretList,
  secretName,
  settingsResponse,
  settingsSchema,
  updateSettingsRequest,
} from './settings.ts'

const settingsResult = { description: 'The settings as they are now.', schema: settingsResponse }
const unreadableResponses = {
  409: { description: 'What is stored is damaged, or was sealed with another key.' },
}
const newServerParams = z.object({ settings_key: mcpServerName })
/** One that came in with a diff may have any name. */
const serverParams = z.object({ settings_key: z.string() })
const secretParams = z.object({ name: secretName })
const formResponse = { description: 'The sections of the form.', schema: settingsSchema }

export const settingsRoutes = {
  getSettings: {
    method: 'GET',
    path: '/api/settings',
    tag: 'settings',
    summary: 'Get the settings',
    description:
      'Every member is there, with its default where nothing was set. Secrets are stars; the header X-Expose-Secrets asks for them as opaque tokens that this server takes back (encrypted, true) or as they are (plaintext).',
    responses: {
      200: { ...settingsResult },
      400: { description: 'The value of X-Expose-Secrets is none of these.' },
      ...unreadableResponses,
    },
  },
  updateSettings: {
    method: 'PATCH',
    path: '/api/settings',
    tag: 'settings',
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
  },
  getAgentSettingsSchema: {
    method: 'GET',
    path: '/api/settings/agent-schema',
    tag: 'settings',
    summary: 'Describe a form for the settings of agents',
    responses: { 200: formResponse },
  },
  getConversationSettingsSchema: {
    method: 'GET',
    path: '/api/settings/conversation-schema',
    tag: 'settings',
    summary: 'Describe a form for the settings of conversations',
    responses: { 200: formResponse },
  },
  createMcpServer: {
    method: 'POST',
    path: '/api/settings/mcp/{settings_key}',
    tag: 'settings',
    summary: 'Add an MCP server to the settings',
    params: newServerParams,
    body: createMcpServerRequest,
    responses: {
      201: settingsResult,
      409: { description: 'There is one of this name, or the settings cannot be read.' },
    },
  },
  updateMcpServer: {
    method: 'PATCH',
    path: '/api/settings/mcp/{settings_key}',
    tag: 'settings',
    summary: 'Change an MCP server of the settings',
    description: 'A merge patch. A command in the place of an address, or the other way round, begins anew.',
    params: serverParams,
    body: patchMcpServerRequest,
    responses: { 200: settingsResult, ...unreadableResponses },
  },
  deleteMcpServer: {
    method: 'DELETE',
    path: '/api/settings/mcp/{settings_key}',
    tag: 'settings',
    summary: 'Take an MCP server out of the settings',
    params: serverParams,
    responses: { 200: settingsResult, ...unreadableResponses },
  },
  listSecrets: {
    method: 'GET',
    path: '/api/settings/secrets',
    tag: 'settings',
    summary: 'List the secrets',
    description: 'Names and descriptions, never values.',
    responses: { 200: { description: 'All of them, by name.', schema: secretList }, ...unreadableResponses },
  },
  saveSecret: {
    method: 'PUT',
    path: '/api/settings/secrets',
    tag: 'settings',
    summary: 'Save a secret',
    description: 'One of the same name is replaced.',
    body: saveSecretRequest,
    responses: {
      200: { description: 'It is saved.', schema: secretItem },
      409: { description: 'There are as many as there may be, or the stored ones cannot be read.' },
    },
  },
  getSecretValue: {
    method: 'GET',
    path: '/api/settings/secrets/{name}',
    tag: 'settings',
    summary: 'Get the value of a secret',
    audit: true,
    params: secretParams,
    responses: { 200: { description: 'The value.', contentType: 'text/plain' }, ...unreadableResponses },
  },
  deleteSecret: {
    method: 'DELETE',
    path: '/api/settings/secrets/{name}',
    tag: 'settings',
    summary: 'Delete a secret',
    params: secretParams,
    responses: {
      200: {
        description: 'It is deleted.',
        schema: z.object({ deleted: z.boolean() }).meta({ id: 'Deleted' }),
      },
      ...unreadableResponses,
    },
  },
} as const satisfies RouteTable
