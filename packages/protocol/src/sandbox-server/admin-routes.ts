import * as z from 'zod'
import { emptyAsUndefined, pageQuery, queryFlag, queryInstant, queryText } from '../core/query.ts'
import { ok, successResponses } from '../core/responses.ts'
import { auditTargetTypes, defineRoutes, route } from '../core/route.ts'
import {
  boundedText,
  component,
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
  dailyLimit,
  erasure,
  member,
  newApiKey,
  organization,
  organizationDetails,
  orgQuota,
  orgRole,
  quotaStatus,
  rotateApiKeyRequest,
  setQuotaRequest,
  setUserQuotaRequest,
  user,
  userQuota,
} from './account.ts'
import { sandboxSortOrder } from './operator.ts'
import { ownedSandbox, sandboxId, sandboxStatus } from './sandbox.ts'

const userParams = z.object({ user_id: z.string().min(1).max(100) })
const organizationParams = z.object({ org_id: uuid })
const organizationMemberParams = z.object({ org_id: uuid, user_id: z.string().min(1).max(100) })
export const keyParams = z.object({ key_id: z.string().min(1).max(100) })
const userKeyParams = keyParams.extend(userParams.shape)

/** Null: all. */
const allowedNames = z.array(boundedText(1, 200)).min(1).max(100).nullable()
const lastManager = { 409: { description: 'It would have no owner any more, or without owners no admin.' } }

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

/** What administrators may. */
export const adminRoutes = defineRoutes(
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
    eraseUser: route.post('/api/admin/users/{user_id}/erase', {
      summary: 'Delete all data of a user, and certify it',
      audit: { target: 'user', id: 'user_id' },
      description:
        'Keys, sandboxes with their files, conversations with their events, messages, secrets, profiles and settings. Lines of the audit stay under a pseudonym. Answers when all of it is gone and overwritten in the files of SQLite databases; a repeat continues an erasure that was interrupted, and answers the certificate of one that is complete, also by the pseudonym.',
      params: userParams,
      responses: {
        ...ok('The certificate.', erasure),
        409: { description: 'The user is the one who asks, or work of the user appears meanwhile.' },
      },
    }),
    createUserKey: route.post('/api/admin/users/{user_id}/keys', {
      summary: 'Make an API key for a user; it is shown in this answer only',
      audit: { target: 'key' },
      params: userParams,
      body: createApiKeyRequest.prefault({}),
      responses: { 201: { description: 'The key.', schema: newApiKey } },
    }),
    listUserKeys: route.get('/api/admin/users/{user_id}/keys', {
      summary: 'List the API keys of a user',
      params: userParams,
      responses: ok('All of them, the newest first.', z.array(apiKeyInfo)),
    }),
    deleteUserKey: route.delete('/api/admin/users/{user_id}/keys/{key_id}', {
      summary: 'Revoke an API key of a user',
      audit: { target: 'key', id: 'key_id' },
      params: userKeyParams,
      responses: successResponses,
    }),
    rotateUserKey: route.post('/api/admin/users/{user_id}/keys/{key_id}/rotate', {
      summary: 'Replace an API key of a user; the new one is shown in this answer only',
      audit: { target: 'key', id: 'key_id' },
      params: userKeyParams,
      body: rotateApiKeyRequest.prefault({}),
      responses: {
        201: { description: 'The new key.', schema: newApiKey },
        403: { description: 'The caller may not give what the key may, or its own key was made with it.' },
        409: { description: 'The key has ended, or there are too many.' },
      },
      example: { grace_seconds: 3600 },
    }),
    listOrganizations: route.get('/api/admin/organizations', {
      summary: 'List organisations in pages',
      access: 'organization',
      description: 'Of callers who are no administrators of the server: those that they are members of.',
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
    getOrganization: route.get('/api/admin/organizations/{org_id}', {
      summary: 'An organisation, and how much belongs to it',
      access: 'organization',
      description: 'For its members.',
      params: organizationParams,
      responses: ok('The organisation.', organizationDetails),
    }),
    updateOrganization: route.patch('/api/admin/organizations/{org_id}', {
      summary: 'Change an organisation',
      audit: { target: 'organization', id: 'org_id' },
      access: 'organization',
      description:
        'Members that are absent stay. For its owners and admins; the daily limit is for administrators of the server.',
      params: organizationParams,
      body: component('UpdateOrganizationRequest', {
        name: boundedText(1, 200).optional(),
        daily_conversation_limit: dailyLimit.optional(),
        allowed_models: allowedNames.optional(),
        allowed_specs: allowedNames.optional(),
      }),
      responses: ok('The organisation.', organization),
    }),
    deleteOrganization: route.delete('/api/admin/organizations/{org_id}', {
      summary: 'Remove an organisation, its memberships and the keys that are bound to it',
      audit: { target: 'organization', id: 'org_id' },
      access: 'server',
      params: organizationParams,
      responses: {
        ...successResponses,
        409: { description: 'Sandboxes or conversations belong to it; the answer counts them.' },
      },
    }),
    listMembers: route.get('/api/admin/organizations/{org_id}/members', {
      summary: 'List the members of an organisation in pages, the newest user first',
      access: 'organization',
      description: 'For its owners and admins.',
      params: organizationParams,
      query: pageQuery,
      responses: ok('One page.', pageOf(member).meta({ id: 'MemberPage' })),
    }),
    joinOrganization: route.put('/api/admin/organizations/{org_id}/members/{user_id}', {
      summary: 'Make a user a member of an organisation, or change the role of a member',
      audit: { target: 'organization', id: 'org_id' },
      access: 'organization',
      description: 'For its owners and admins. Owners alone make, lower and remove owners.',
      params: organizationMemberParams,
      body: component('JoinOrganizationRequest', {
        role: orgRole.optional().meta({
          description: 'Absent: a new member becomes `member`, another one keeps the role.',
        }),
      }).prefault({}),
      responses: { ...successResponses, ...lastManager },
    }),
    leaveOrganization: route.delete('/api/admin/organizations/{org_id}/members/{user_id}', {
      summary: 'Take a user out of an organisation',
      audit: { target: 'organization', id: 'org_id' },
      access: 'organization',
      description:
        'Also the keys of the user that are bound to it. For its owners and admins, and for a member who leaves.',
      params: organizationMemberParams,
      responses: { ...successResponses, ...lastManager },
    }),
    getUserQuota: route.get('/api/admin/quota/users/{user_id}/quota', {
      summary: 'The limits of a user, and what is used of them',
      params: userParams,
      responses: ok('Used and left.', quotaStatus),
    }),
    listAllSandboxes: route.get('/api/admin/sandboxes', {
      summary: 'List the sandboxes of all users in pages, the newest first unless asked otherwise',
      access: 'organization',
      description:
        'Owners and admins of an organisation name it (`org_id`). A page continues after the last row of the page before it: rows that come or go move no other. Orders by use or cost list a row again that moved meanwhile.',
      query: pageQuery.extend({
        user_id: queryText.meta({ description: 'Only those of this user.' }),
        org_id: queryText.meta({ description: 'Only those of this organisation.' }),
        status: emptyAsUndefined(sandboxStatus.optional()),
        text: queryText.meta({
          description:
            'Keep only those with this in the id, the spec, the detail or the name or email of the user.',
        }),
        sort_order: emptyAsUndefined(sandboxSortOrder.optional()),
      }),
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

export const serviceRoutes = defineRoutes(
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
