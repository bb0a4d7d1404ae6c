import * as z from 'zod'
import { profileName } from '../agent-server/llm/profile-name.ts'
import { profileMutation, renameProfileRequest } from '../agent-server/profiles/llm-profile.ts'
import { pageQuery, queryFlag, queryInstant, queryText } from '../core/query.ts'
import { healthStatus, ok, successResponses } from '../core/responses.ts'
import { auditTargetTypes, defineRoutes, route } from '../core/route.ts'
import {
  boundedText,
  component,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  pageOf,
  strictComponent,
  timestamp,
  uuid,
  withDefault,
} from '../core/schemas.ts'
import {
  apiKeyInfo,
  auditRecord,
  createApiKeyRequest,
  currentApiKey,
  dailyLimit,
  messageResponse,
  newApiKey,
  organization,
  orgQuota,
  quotaStatus,
  saveUserProfileRequest,
  secretName,
  secretSummary,
  setQuotaRequest,
  setUserQuotaRequest,
  user,
  userQuota,
  webClientConfig,
} from './account.ts'
import { providerType } from './app-conversation.ts'
import { ownedSandbox, sandboxId } from './sandbox.ts'

const messageResponses = { 200: { description: 'What was done.', schema: messageResponse } }
const profileParams = z.object({ name: profileName })
const profileMutationResponse = { description: 'What was done.', schema: profileMutation }
const userParams = z.object({ user_id: z.string().min(1).max(100) })
const organizationParams = z.object({ org_id: uuid })
const organizationMemberParams = z.object({ org_id: uuid, user_id: z.string().min(1).max(100) })
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
      params: z.object({ key_id: z.string().min(1).max(100) }),
      responses: successResponses,
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

const auditFilter = {
  caller: queryText.meta({ description: 'Keep only what this caller did: user:ID, sandbox:ID.' }),
  action: queryText.meta({ description: 'Keep only this operation, such as deleteUser.' }),
  target_type: queryText.meta({
    description: `Keep only what was about one of ${auditTargetTypes.join(', ')}.`,
  }),
  target: queryText.meta({ description: 'Keep only what was about this id or name.' }),
  from: queryInstant.optional().meta({ description: 'Keep only what came at this time or later.' }),
  to: queryInstant.optional().meta({ description: 'Keep only what came before this time.' }),
  text: queryText.meta({
    description: 'Keep only entries with this in the operation, the route or an id, in any case.',
  }),
  refused: queryFlag.meta({ description: 'Keep only what was refused or failed.' }),
}

const adminRoutes = defineRoutes(
  'admin',
  {
    setOrgQuota: route.put('/api/admin/quota/orgs/{org_id}/quota', {
      summary: 'Set the daily limit of the users of an organisation',
      audit: { target: 'quota', id: 'org_id' },
      params: organizationParams,
      body: setQuotaRequest,
      responses: ok('It is set.', orgQuota),
    }),
    setUserQuota: route.put('/api/admin/quota/users/{user_id}/quota', {
      summary: 'Set the limits of a user',
      audit: { target: 'quota', id: 'user_id' },
      params: userParams,
      body: setUserQuotaRequest,
      responses: ok('It is set.', userQuota),
    }),
    listUsers: route.get('/api/admin/users', {
      summary: 'List users in pages',
      query: pageQuery,
      responses: ok('One page.', pageOf(user).meta({ id: 'UserPage' })),
    }),
    createUser: route.post('/api/admin/users', {
      summary: 'Add a user',
      audit: { target: 'user' },
      body: strictComponent('CreateUserRequest', {
        name: nullAsUndefined(boundedText(1, 200)),
        email: nullAsUndefined(boundedText(3, 320)),
        org_id: nullAsUndefined(uuid),
        is_admin: withDefault(z.boolean(), false),
        daily_conversation_limit: dailyLimit.default(null),
      }).refine(({ name, email }) => name !== undefined || email !== undefined, {
        path: ['name'],
        message: 'A user needs a name or an email',
      }),
      responses: { 201: { description: 'The user.', schema: user } },
      example: { name: 'Ann', email: 'ann@example.org', daily_conversation_limit: 20 },
    }),
    patchUser: route.patch('/api/admin/users/{user_id}', {
      summary: 'Change a user',
      audit: { target: 'user', id: 'user_id' },
      params: userParams,
      /** Members that are absent stay, null clears. */
      body: component('UpdateUserRequest', {
        name: boundedText(1, 200).nullish(),
        email: boundedText(3, 320).nullish(),
        org_id: uuid.nullish(),
        is_admin: z.boolean().optional(),
        daily_conversation_limit: dailyLimit.optional(),
      }),
      responses: ok('The user.', user),
    }),
    deleteUser: route.delete('/api/admin/users/{user_id}', {
      summary: 'Remove a user and their keys',
      audit: { target: 'user', id: 'user_id' },
      description:
        'The keys stop working in any case, also when the answer is 409. The user stays while sandboxes or conversations of the user exist.',
      params: userParams,
      query: z.object({
        with_sandboxes: queryFlag.meta({
          description: 'Delete the sandboxes and the conversations of the user too.',
        }),
      }),
      responses: {
        ...successResponses,
        409: {
          description:
            'The user has sandboxes or conversations, which the answer names and counts, or is the one who asks.',
        },
      },
    }),
    createUserKey: route.post('/api/admin/users/{user_id}/keys', {
      summary: 'Make an API key for a user; it is shown in this answer only',
      audit: { target: 'key' },
      params: userParams,
      body: createApiKeyRequest.prefault({}),
      responses: { 201: { description: 'The key.', schema: newApiKey } },
    }),
    listOrganizations: route.get('/api/admin/organizations', {
      summary: 'List organisations in pages',
      query: pageQuery,
      responses: ok('One page.', pageOf(organization).meta({ id: 'OrganizationPage' })),
    }),
    createOrganization: route.post('/api/admin/organizations', {
      summary: 'Add an organisation',
      audit: { target: 'organization' },
      access: 'server',
      body: component('CreateOrganizationRequest', {
        name: boundedText(1, 200),
        daily_conversation_limit: dailyLimit.default(null),
      }),
      responses: { 201: { description: 'The organisation.', schema: organization } },
    }),
    joinOrganization: route.put('/api/admin/organizations/{org_id}/members/{user_id}', {
      summary: 'Make a user a member of an organisation',
      audit: { target: 'organization', id: 'org_id' },
      params: organizationMemberParams,
      responses: successResponses,
    }),
    leaveOrganization: route.delete('/api/admin/organizations/{org_id}/members/{user_id}', {
      summary: 'Take a user out of an organisation',
      audit: { target: 'organization', id: 'org_id' },
      params: organizationMemberParams,
      responses: successResponses,
    }),
    getUserQuota: route.get('/api/admin/quota/users/{user_id}/quota', {
      summary: 'The limits of a user, and what is used of them',
      params: userParams,
      responses: ok('Used and left.', quotaStatus),
    }),
    listAllSandboxes: route.get('/api/admin/sandboxes', {
      summary: 'List the sandboxes of all users in pages, the newest first',
      query: pageQuery.extend({ user_id: queryText.meta({ description: 'Only those of this user.' }) }),
      responses: ok('One page.', pageOf(ownedSandbox).meta({ id: 'OwnedSandboxPage' })),
    }),
    deleteAnySandbox: route.delete('/api/admin/sandboxes/{sandbox_id}', {
      summary: 'Delete a sandbox of any user and its files',
      audit: { target: 'sandbox', id: 'sandbox_id' },
      description: 'Its conversations stay readable.',
      params: z.object({ sandbox_id: sandboxId }),
      responses: successResponses,
    }),
    listAudit: route.get('/api/admin/audit', {
      summary: 'List who changed what, the newest first',
      description:
        'The requests of a year that changed something or showed a secret, and those that were refused. A line is written in the transaction of its change.',
      query: pageQuery.extend(auditFilter),
      responses: ok('One page.', pageOf(auditRecord).meta({ id: 'AuditPage' })),
    }),
    exportAudit: route.get('/api/admin/audit/export', {
      summary: 'Export who changed what, the newest first',
      description:
        'All lines that match, as JSON lines or CSV. In CSV, members are JSON, and a text that a spreadsheet would compute begins with an apostrophe.',
      query: z.object({
        ...auditFilter,
        format: withDefault(z.enum(['jsonl', 'csv']), 'jsonl'),
      }),
      responses: {
        200: { description: 'The lines.', contentType: ['application/x-ndjson', 'text/csv'] },
      },
    }),
  },
  { access: 'admin' },
)

const serviceRoutes = defineRoutes(
  'admin',
  {
    createServiceKey: route.post('/api/service/users/{user_id}/orgs/{org_id}/api-keys', {
      summary: 'Get an API key of a user for a service that works for users, such as a scheduler',
      audit: { target: 'key' },
      description:
        "With the service's own key of an administrator, also as X-Service-API-Key. The same key on each request of a day (UTC). It may read and write, ends two days later, and ends with the service's key, unless that is a key of the configuration.",
      params: z.object({ user_id: userParams.shape.user_id, org_id: z.string().min(1).max(100) }),
      body: component('CreateServiceKeyRequest', { name: boundedText(1, 200) }),
      responses: {
        201: {
          description: 'The key.',
          schema: component('ServiceKey', { key: z.string(), name: z.string(), expires_at: timestamp }),
        },
        403: { description: 'The user is not a member of the organisation.' },
      },
    }),
  },
  { access: 'admin' },
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
