import { isRecord, withoutMember } from '@slipway/shared/json'
import * as z from 'zod'
import { llm, strictLlm } from '../agent-server/llm/llm.ts'
import {
  boundedText,
  component,
  dateTimeText,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  nullByDefault,
  timestamp,
  trueByDefault,
  uuid,
  withDefault,
} from '../core/schemas.ts'
import { unlimited } from './unlimited.ts'

export const scope = z.enum(['read', 'write', 'admin', 'operate']).meta({ id: 'Scope' })
export type Scope = z.infer<typeof scope>

/** Conversations of a UTC day. Null inherits (user, organisation, server), -1 is unlimited, 0 is none. */
export const dailyLimit = z.union([z.literal(unlimited), z.int().min(0).max(1_000_000)]).nullable()

export const apiKeyInfo = component('ApiKey', {
  id: z.string(),
  name: z.string().nullable(),
  org_id: z.string().nullable(),
  scopes: z.array(scope),
  created_at: timestamp,
  last_used_at: timestamp.nullable(),
  not_before: timestamp.nullable(),
  expires_at: timestamp.nullable(),
})

/** The key itself is in this answer and in no other. */
export const newApiKey = apiKeyInfo.extend({ key: z.string() }).meta({ id: 'NewApiKey' })

const moment = dateTimeText.meta({ format: 'date-time' })

export const createApiKeyRequest = component('CreateApiKeyRequest', {
  name: nullAsUndefined(boundedText(1, 200)),
  org_id: nullAsUndefined(uuid),
  scopes: withDefault(z.array(scope).min(1), ['read', 'write']),
  not_before: nullAsUndefined(moment),
  expires_at: nullAsUndefined(moment),
})

export const rotateApiKeyRequest = component('RotateApiKeyRequest', {
  grace_seconds: withDefault(z.int().min(0).max(2_592_000), 0).meta({
    description: 'How long the old key stays valid, at most 30 days; 0: it ends at once.',
  }),
  key: nullAsUndefined(
    z.string().regex(/^sk-slipway-[\w-]{43}$/, 'A key is sk-slipway- and 32 random bytes in base64url'),
  ).meta({
    description:
      'The new key, of 32 random bytes that the caller has made: who has it is not locked out when the answer is lost. Absent: the server makes one.',
  }),
})

export const currentApiKey = component('CurrentApiKey', {
  id: z.string().nullable(),
  name: z.string().nullable(),
  org_id: z.string().nullable().meta({ description: 'The organisation that this request works in.' }),
  bound_org_id: z.string().nullable(),
  user_id: z.string().nullable(),
  auth_type: z.string(),
  scopes: z.array(scope),
})

export const user = component('User', {
  id: z.string(),
  name: z.string().nullable(),
  email: z.string().nullable(),
  org_id: z.string().nullable(),
  is_admin: z.boolean(),
  daily_conversation_limit: z.int().nullable(),
  created_at: timestamp,
})

export const orgRole = z.enum(['owner', 'admin', 'member']).meta({ id: 'OrganizationRole' })

export const member = user
  .extend({ role: orgRole.meta({ description: 'In this organisation.' }) })
  .meta({ id: 'Member' })

export const organization = component('Organization', {
  id: z.string(),
  name: z.string(),
  daily_conversation_limit: z.int().nullable(),
  allowed_models: z.array(z.string()).nullable().meta({
    description: 'Models that work in it may use, `*` for any text; null: all.',
  }),
  allowed_specs: z.array(z.string()).nullable().meta({
    description: 'Ids of the sandbox specs that work in it may use; null: all.',
  }),
  created_at: timestamp,
})

export const organizationDetails = organization
  .extend({
    is_exempt: z.boolean().meta({
      description: 'Named in `SLIPWAY_EXEMPT_ORGANIZATIONS`; a member is exempt with a key bound to it.',
    }),
    members: z.int(),
    sandboxes: z.int(),
    conversations: z.int(),
  })
  .meta({ id: 'OrganizationDetails' })

export const erasure = component('Erasure', {
  user: z.string().meta({ description: 'The pseudonym under which lines of the audit stay.' }),
  erased_at: timestamp,
  counts: z.record(z.string(), z.int()).meta({ description: 'What was deleted, by kind.' }),
  digest: z.string().meta({ description: 'SHA-256 of the above and of the ids of what was deleted.' }),
})
export type Erasure = z.infer<typeof erasure>

/** Of what a user stores or runs. Null inherits the server's limit, -1 is unlimited, 0 is nothing. */
const userLimit = z.union([z.literal(-1), z.int().min(0).max(1_000_000_000)]).nullable()

const usedOfLimit = z.object({
  limit: z.int().nullable().meta({ description: 'Null: unlimited.' }),
  used: z.int(),
})

export const quotaStatus = component('QuotaStatus', {
  daily_limit: z.int().nullable().meta({ description: 'Null: unlimited.' }),
  used_today: z.int(),
  remaining: z.int().nullable(),
  reset_at: timestamp,
  daily_limit_source: z.enum(['user', 'organization', 'exempt_organizations', 'server']).meta({
    description: 'Whose limit it is; `exempt_organizations`: of `SLIPWAY_EXEMPT_ORGANIZATIONS`.',
  }),
  org_id: z.string().nullable().meta({
    description: 'The organisation of the request: of the key, of `X-Org-Id`, or the first of the user.',
  }),
  unlimited_org_ids: z.array(z.string()).meta({
    description: 'Organisations of the user without a daily limit, where this request has one.',
  }),
  conversations: usedOfLimit.meta({ description: 'That are stored.' }),
  stored_bytes: usedOfLimit.meta({ description: 'Of the events of all conversations.' }),
  sandboxes: usedOfLimit.meta({ description: 'That run or start.' }),
})

export type QuotaStatus = z.infer<typeof quotaStatus>

export const setQuotaRequest = component('SetDailyConversationLimitRequest', {
  daily_conversation_limit: dailyLimit,
})

/** Absent members stay. */
export const setUserQuotaRequest = component('SetUserQuotaRequest', {
  daily_conversation_limit: dailyLimit.optional(),
  max_conversations: userLimit.optional(),
  max_stored_mb: userLimit.optional(),
  max_sandboxes: userLimit.optional(),
})

export const orgQuota = component('OrganizationQuota', {
  org_id: z.string(),
  org_name: z.string(),
  daily_conversation_limit: z.int().nullable(),
})

export const userQuota = component('UserQuota', {
  user_id: z.string(),
  daily_conversation_limit: z.int().nullable(),
  max_conversations: z.int().nullable(),
  max_stored_mb: z.int().nullable(),
  max_sandboxes: z.int().nullable(),
})

/** How conversations of a user share sandboxes (wire 3.6). */
export const groupingStrategy = z
  .enum(['NO_GROUPING', 'GROUP_BY_NEWEST', 'LEAST_RECENTLY_USED', 'FEWEST_CONVERSATIONS', 'ADD_TO_ANY'])
  .meta({ id: 'SandboxGroupingStrategy' })

/** `github:owner/name`, an address of git without a user, or a relative path. */
const marketplaceSource =
  /^(?!.*\.\.)(?:github:[\w.-]+\/[\w.-]+|(?:https?:\/\/|git@|ssh:\/\/|git:\/\/)[\w.-]+[:/][\w./-]+|\w[\w./-]*)$/
const insidePath = /^(?!\/|[\s\S]*\.\.|[\s\S]*:\/\/)/

/** A catalogue of plugins and skills that a user registers. */
export const userMarketplace = component('UserMarketplace', {
  name: z
    .string()
    .trim()
    .max(200)
    .regex(/^[a-zA-Z][\w-]*$/, 'A name is a letter and letters, digits, hyphens and underscores'),
  source: z
    .string()
    .trim()
    .max(2_000)
    .regex(
      marketplaceSource,
      'A source is github:owner/name, an address of git without a user, or a relative path',
    ),
  ref: nullByDefault(z.string().max(200)),
  repo_path: nullByDefault(z.string().max(1_000).regex(insidePath, 'It must be a folder in the repository')),
  auto_load: withDefault(z.boolean(), false),
  scope: z.preprocess(() => 'personal', z.literal('personal')),
})
export type UserMarketplace = z.output<typeof userMarketplace>

const haveOwnNames = (all: readonly { readonly name: string }[]) =>
  new Set(all.map(({ name }) => name)).size === all.length

/** The settings of a user; unknown members stay. `agent_settings.llm` is the model of new conversations. */
export const userSettings = looseComponent('UserSettings', {
  language: z.string().nullable().optional(),
  git_user_name: z.string().nullable().optional(),
  git_user_email: z.string().nullable().optional(),
  git_full_clone: z.boolean().default(false),
  sandbox_grouping_strategy: groupingStrategy.default('NO_GROUPING'),
  default_sandbox_spec_id: z.string().nullable().optional(),
  disabled_skills: z.array(z.string()).nullable().optional(),
  registered_marketplaces: withDefault(
    z.array(userMarketplace).max(50).refine(haveOwnNames, 'Two marketplaces have the same name'),
    [],
  ),
  agent_settings: z.looseObject({ llm: llm.partial().optional() }).prefault({}),
  conversation_settings: z
    .looseObject({
      max_iterations: z.int().min(1).default(500),
      confirmation_mode: z.boolean().default(false),
      security_analyzer: z.enum(['llm', 'none']).nullable().default(null),
    })
    .prefault({}),
})
export type UserSettings = z.output<typeof userSettings>

export const messageResponse = component('MessageAnswer', { message: z.string() })

/** Web clients send null in each model; a value is refused, because this server has no such connections. */
function withoutConnection(value: unknown): unknown {
  return isRecord(value) && value.provider_connection_id === null
    ? withoutMember(value, 'provider_connection_id')
    : value
}

export const saveUserProfileRequest = component('SaveUserProfileRequest', {
  include_secrets: trueByDefault,
  llm: nullAsUndefined(z.preprocess(withoutConnection, strictLlm)),
  preserve_existing_api_key: withDefault(z.boolean(), false),
})

/** A name that can be a variable of a shell. */
export const secretName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'A name is 1 to 64 letters, digits and _, no digit first')
  .refine((name) => name !== 'search', 'This name is the address of the list')
  .refine((name) => name !== '__proto__', 'No member of a request may have this name')

export const secretSummary = component('SecretSummary', {
  name: z.string(),
  description: z.string().nullable().optional(),
})

export const webClientConfig = looseComponent('WebClientConfig', { app_mode: z.string() })

export const auditRecord = component('AuditRecord', {
  id: z.string(),
  time: timestamp,
  action: z.string().meta({ description: 'The name of the operation.' }),
  method: z.string(),
  route: z.string().meta({ description: 'With braces for its parameters.' }),
  status: z.int().nullable().meta({
    description: 'Null: the server ended after the change and before the answer.',
  }),
  caller: z.string().nullable().meta({ description: 'user:ID or sandbox:ID; never a key.' }),
  org: z.string().nullable(),
  via: z.string().nullable().meta({ description: 'The id of the API key, which is no secret.' }),
  allowed_by: z
    .object({
      role: z.enum(['administrator', 'user', 'sandbox']),
      scope: scope.nullable(),
      org_id: z.string().nullable(),
    })
    .nullable()
    .meta({ description: 'By what right; null for what was not allowed, and for routes without a key.' }),
  target: z.object({ type: z.string(), id: z.string().nullable() }).meta({
    description: 'What it was about. The id of a secret and of a profile is its name.',
  }),
  before: jsonObject.nullable().meta({ description: 'The members that changed; secrets are stars.' }),
  after: jsonObject.nullable(),
  conversation: z.string().nullable(),
  sandbox: z.string().nullable(),
  request_id: z.string(),
})
