import * as z from 'zod'
import { profileName } from '../agent-server/llm/profile-name.ts'
import { profileMutation, renameProfileRequest } from '../agent-server/profiles/llm-profile.ts'
import { pageQuery, queryFlag, queryText } from '../core/query.ts'
import { healthStatus, ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import {
  boundedText,
  component,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  pageOf,
} from '../core/schemas.ts'
import {
  apiKeyInfo,
  createApiKeyRequest,
  currentApiKey,
  messageResponse,
  newApiKey,
  quotaStatus,
  rotateApiKeyRequest,
  saveUserProfileRequest,
  secretName,
  secretSummary,
  webClientConfig,
} from './account.ts'
import { adminRoutes, keyParams, serviceRoutes } from './admin-routes.ts'
import { providerType } from './app-conversation.ts'
import { sandboxId } from './sandbox.ts'

const messageResponses = { 200: { description: 'What was done.', schema: messageResponse } }
const profileParams = z.object({ name: profileName })
const profileMutationResponse = { description: 'What was done.', schema: profileMutation }
const secretParams = z.object({ name: z.string().min(1).max(200) })

const healthRoutes = defineRoutes('health', {
  alive: route.get('/alive', {
    summary: 'Is the process alive?',
    open: true,
    responses: ok('It is.', healthStatus),
  }),
  health: route.get('/health', {
    summary: 'Is the server healthy?',
    open: true,
    responses: { 200: { description: 'It is.', contentType: 'text/plain' } },
  }),
  ready: route.get('/ready', {
    summary: 'May requests be sent?',
    open: true,
    responses: {
      200: { description: 'Yes.', schema: healthStatus },
      503: { description: 'Not yet.', schema: healthStatus },
    },
  }),
  serverInfo: route.get('/server_info', {
    summary: 'What the server is and where its sandboxes run',
    open: true,
    responses: ok('About the server.', jsonObject),
  }),
})

const userRoutes = defineRoutes(
  'users',
  {
    webClientConfig: route.get('/api/v1/web-client/config', {
      summary: 'What a web client has to know before anybody has signed in',
      open: true,
      responses: ok('The configuration.', webClientConfig),
    }),
    me: route.get('/api/v1/users/me', {
      summary: 'Who is asking, with their settings',
      description:
        'Secrets are stars. With expose_secrets they are shown, when the session key of a running sandbox of the caller comes in X-Session-API-Key besides the API key.',
      query: z.object({ expose_secrets: queryFlag }),
      responses: ok(
        'The user.',
        looseComponent('Me', {
          id: z.string().nullable(),
          org_id: z.string().nullable(),
          org_name: z.string().nullable(),
          role: z.string(),
          permissions: z.array(z.string()),
        }),
      ),
    }),
  },
  { access: 'user' },
)

const settingsRoutes = defineRoutes(
  'settings',
  {
    getSettings: route.get('/api/v1/settings', {
      summary: 'Get the settings; secrets are null',
      responses: ok(
        'The settings.',
        looseComponent('Settings', {
          llm_api_key_set: z.boolean(),
          search_api_key_set: z.boolean(),
        }),
      ),
    }),
    changeSettings: route.post('/api/v1/settings', {
      summary: 'Change settings',
      audit: { target: 'settings' },
      /** A partial update: `_diff` members are merged (null deletes), others replace. */
      body: looseComponent('ChangeSettingsRequest', {
        agent_settings_diff: jsonObject.optional(),
        conversation_settings_diff: jsonObject.optional(),
      }),
      responses: {
        ...messageResponses,
        400: { description: 'The settings would not be valid: `error` and `detail` say why.' },
      },
    }),
    listUserProfiles: route.get('/api/v1/settings/profiles', {
      summary: 'List the saved models',
      responses: ok(
        'All of them.',
        z.object({
          profiles: z.array(
            component('UserProfileSummary', {
              name: z.string(),
              model: z.string().nullable(),
              base_url: z.string().nullable(),
              api_key_set: z.boolean(),
            }),
          ),
          active_profile: z.string().nullable(),
        }),
      ),
    }),
    getUserProfile: route.get('/api/v1/settings/profiles/{name}', {
      summary: 'Get a saved model; its secrets are null',
      params: profileParams,
      responses: ok(
        'The profile.',
        z.object({
          name: z.string(),
          config: jsonObject,
          api_key_set: z.boolean(),
        }),
      ),
    }),
    saveUserProfile: route.post('/api/v1/settings/profiles/{name}', {
      summary: 'Save a model under a name',
      audit: { target: 'profile', id: 'name' },
      description: 'Without llm the model of the settings is saved. One of the same name is replaced.',
      params: profileParams,
      body: saveUserProfileRequest.prefault({}),
      responses: {
        201: profileMutationResponse,
        409: { description: 'There are as many profiles as there may be.' },
      },
    }),
    deleteUserProfile: route.delete('/api/v1/settings/profiles/{name}', {
      summary: 'Delete a saved model',
      audit: { target: 'profile', id: 'name' },
      params: profileParams,
      responses: { 200: profileMutationResponse },
    }),
    activateUserProfile: route.post('/api/v1/settings/profiles/{name}/activate', {
      summary: 'Make a saved model that of new conversations',
      audit: { target: 'profile', id: 'name' },
      params: profileParams,
      responses: ok('It is.', profileMutation.extend({ model: z.string().nullable() })),
    }),
    renameUserProfile: route.post('/api/v1/settings/profiles/{name}/rename', {
      summary: 'Rename a saved model',
      audit: { target: 'profile', id: 'name' },
      params: profileParams,
      body: renameProfileRequest,
      responses: { 200: profileMutationResponse, 409: { description: 'The new name is taken.' } },
    }),
  },
  { access: 'user' },
)

const secretRoutes = defineRoutes(
  'secrets',
  {
    searchSecrets: route.get('/api/v1/secrets/search', {
      summary: 'List the names of secrets in pages',
      query: pageQuery.extend({ name__contains: queryText }),
      responses: ok('One page, in order of name.', pageOf(secretSummary)),
    }),
    createSecret: route.post('/api/v1/secrets', {
      summary: 'Set a secret; one of the same name is replaced',
      audit: { target: 'secret', id: 'name' },
      body: component('CreateSecretRequest', {
        name: secretName,
        description: nullAsUndefined(boundedText(0, 1000)),
        value: boundedText(1, 65_536),
      }),
      responses: { 201: { description: 'It is set.', schema: messageResponse } },
    }),
    renameSecret: route.put('/api/v1/secrets/{name}', {
      summary: 'Rename a secret or change its description',
      audit: { target: 'secret', id: 'name' },
      params: secretParams,
      body: component('RenameSecretRequest', {
        name: secretName,
        description: nullAsUndefined(boundedText(0, 1000)),
      }),
      responses: { ...messageResponses, 400: { description: 'The new name is taken.' } },
    }),
    deleteSecret: route.delete('/api/v1/secrets/{name}', {
      summary: 'Delete a secret',
      audit: { target: 'secret', id: 'name' },
      params: secretParams,
      responses: messageResponses,
    }),
    setGitProviders: route.post('/api/v1/secrets/git-providers', {
      summary: 'Set tokens of git providers',
      audit: { target: 'git_providers' },
      description: 'They are kept as they come; a provider is not asked whether it knows them.',
      /** Tokens of git providers; an absent or empty one leaves the stored one. */
      body: component('GitProvidersRequest', {
        provider_tokens: z.partialRecord(
          providerType,
          z.looseObject({ token: nullAsUndefined(z.string()), host: nullAsUndefined(z.string().max(300)) }),
        ),
      }),
      responses: messageResponses,
    }),
    deleteGitProviders: route.delete('/api/v1/secrets/git-providers', {
      summary: 'Delete the tokens of all git providers',
      audit: { target: 'git_providers' },
      responses: messageResponses,
    }),
  },
  { access: 'user' },
)

const sandboxSecretRoutes = defineRoutes(
  'sandbox secrets',
  {
    listSandboxSecrets: route.get('/api/v1/sandboxes/{sandbox_id}/settings/secrets', {
      summary: 'Names of the secrets that a sandbox may look up',
      description: 'With the session key of the sandbox in X-Session-API-Key.',
      params: z.object({ sandbox_id: sandboxId }),
      responses: ok('Their names.', z.object({ secrets: z.array(secretSummary) })),
    }),
    getSandboxSecret: route.get('/api/v1/sandboxes/{sandbox_id}/settings/secrets/{name}', {
      summary: 'The value of a secret, for the sandbox of its owner',
      audit: { target: 'secret', id: 'name' },
      params: z.object({ sandbox_id: sandboxId, name: z.string().min(1).max(200) }),
      responses: { 200: { description: 'The value.', contentType: 'text/plain' } },
    }),
  },
  { access: 'sandbox' },
)

const keyRoutes = defineRoutes(
  'keys',
  {
    listApiKeys: route.get('/api/keys', {
      summary: 'List API keys of the caller',
      responses: ok('All of them, the newest first.', z.array(apiKeyInfo)),
    }),
    createApiKey: route.post('/api/keys', {
      summary: 'Make an API key; it is shown in this answer only',
      audit: { target: 'key' },
      body: createApiKeyRequest.prefault({}),
      responses: { 201: { description: 'The key.', schema: newApiKey } },
      example: { name: 'dashboard', scopes: ['read'], expires_at: '2099-01-01T00:00:00Z' },
    }),
    currentApiKey: route.get('/api/keys/current', {
      summary: 'The key of this request',
      responses: ok('About it.', currentApiKey),
    }),
    deleteApiKey: route.delete('/api/keys/{key_id}', {
      summary: 'Revoke an API key',
      audit: { target: 'key', id: 'key_id' },
      params: keyParams,
      responses: successResponses,
    }),
    rotateApiKey: route.post('/api/keys/{key_id}/rotate', {
      summary: 'Replace an API key; the new one is shown in this answer only',
      audit: { target: 'key', id: 'key_id' },
      description:
        'The new key may do the same, and ends when the old one would have. The old key, and what was made with it, ends at once or after grace_seconds.',
      params: keyParams,
      body: rotateApiKeyRequest.prefault({}),
      responses: {
        201: { description: 'The new key.', schema: newApiKey },
        403: { description: 'The caller may not give what the key may, or its own key was made with it.' },
        409: { description: 'The key has ended, or there are too many.' },
      },
      example: { grace_seconds: 3600 },
    }),
  },
  { access: 'user' },
)

const quotaRoutes = defineRoutes(
  'quota',
  {
    quotaStatus: route.get('/api/quota/status', {
      summary: 'The limits of the caller, and what is used of them',
      responses: ok('Used and left.', quotaStatus),
    }),
  },
  { access: 'user' },
)

/** Users, keys, quotas, settings and secrets of the control plane, and its health. */
export const accountRoutes = {
  ...healthRoutes,
  ...userRoutes,
  ...settingsRoutes,
  ...secretRoutes,
  ...sandboxSecretRoutes,
  ...keyRoutes,
  ...quotaRoutes,
  ...adminRoutes,
  ...serviceRoutes,
}
