import * as z from 'zod'
import { llm } from '../agent-server/llm/llm.ts'
import {
  boundedText,
  dateTimeText,
  jsonObject,
  nullAsUndefined,
  pageOf,
  timestamp,
  trueByDefault,
  uuid,
  withDefault,
} from '../core/schemas.ts'
import { providerType } from './app-conversation.ts'

export const scope = z.enum(['read', 'write', 'admin']).meta({ id: 'Scope' })
export type Scope = z.infer<typeof scope>

/** Null inherits (user from organisation from server), -1 is unlimited, otherwise conversations of a UTC day. */
export const dailyLimit = z.union([z.literal(-1), z.int().min(1).max(1_000_000)]).nullable()

export const apiKeyInfo = z
  .object({
    id: z.string(),
    name: z.string().nullable(),
    org_id: z.string().nullable(),
    scopes: z.array(scope),
    created_at: timestamp,
    last_used_at: timestamp.nullable(),
    not_before: timestamp.nullable(),
    expires_at: timestamp.nullable(),
  })
  .meta({ id: 'ApiKey' })

/** The key itself is in this answer and in no other. */
export const newApiKey = apiKeyInfo.extend({ key: z.string() }).meta({ id: 'NewApiKey' })

export const createApiKeyRequest = z
  .object({
    name: nullAsUndefined(boundedText(1, 200)),
    org_id: nullAsUndefined(uuid),
    scopes: withDefault(z.array(scope).min(1), ['read', 'write']),
    not_before: nullAsUndefined(dateTimeText),
    expires_at: nullAsUndefined(dateTimeText),
  })
  .meta({ id: 'CreateApiKeyRequest' })

export const currentApiKey = z
  .object({
    id: z.string().nullable(),
    name: z.string().nullable(),
    org_id: z.string().nullable().meta({ description: 'The organisation that this request works in.' }),
    bound_org_id: z.string().nullable(),
    user_id: z.string().nullable(),
    auth_type: z.string(),
    scopes: z.array(scope),
  })
  .meta({ id: 'CurrentApiKey' })

export const user = z
  .object({
    id: z.string(),
    name: z.string().nullable(),
    email: z.string().nullable(),
    org_id: z.string().nullable(),
    is_admin: z.boolean(),
    daily_conversation_limit: z.int().nullable(),
    created_at: timestamp,
  })
  .meta({ id: 'User' })

export const userPage = pageOf(user).meta({ id: 'UserPage' })

export const createUserRequest = z
  .object({
    name: nullAsUndefined(boundedText(1, 200)),
    email: nullAsUndefined(boundedText(3, 320)),
    org_id: nullAsUndefined(uuid),
    is_admin: withDefault(z.boolean(), false),
    daily_conversation_limit: dailyLimit.default(null),
  })
  .meta({ id: 'CreateUserRequest' })

/** Members that are absent stay, null clears. */
export const patchUserRequest = z
  .object({
    name: boundedText(1, 200).nullish(),
    email: boundedText(3, 320).nullish(),
    org_id: uuid.nullish(),
    is_admin: z.boolean().optional(),
    daily_conversation_limit: dailyLimit.optional(),
  })
  .meta({ id: 'UpdateUserRequest' })

export const organization = z
  .object({
    id: z.string(),
    name: z.string(),
    daily_conversation_limit: z.int().nullable(),
    created_at: timestamp,
  })
  .meta({ id: 'Organization' })

export const organizationPage = pageOf(organization).meta({ id: 'OrganizationPage' })

export const createOrganizationRequest = z
  .object({ name: boundedText(1, 200), daily_conversation_limit: dailyLimit.default(null) })
  .meta({ id: 'CreateOrganizationRequest' })

export const quotaStatus = z
  .object({
    daily_limit: z.int().nullable().meta({ description: 'Null: unlimited.' }),
    used_today: z.int(),
    remaining: z.int().nullable(),
    reset_at: timestamp,
  })
  .meta({ id: 'QuotaStatus' })

export const setQuotaRequest = z
  .object({ daily_conversation_limit: dailyLimit })
  .meta({ id: 'SetDailyConversationLimitRequest' })

export const orgQuota = z
  .object({ org_id: z.string(), org_name: z.string(), daily_conversation_limit: z.int().nullable() })
  .meta({ id: 'OrganizationQuota' })

export const userQuota = z
  .object({ user_id: z.string(), daily_conversation_limit: z.int().nullable() })
  .meta({ id: 'UserQuota' })

/** How conversations of a user share sandboxes (wire 3.6). */
export const groupingStrategy = z
  .enum(['NO_GROUPING', 'GROUP_BY_NEWEST', 'LEAST_RECENTLY_USED', 'FEWEST_CONVERSATIONS', 'ADD_TO_ANY'])
  .meta({ id: 'SandboxGroupingStrategy' })

/**
 * What a user has set. Members that we do not know are kept as they are. `agent_settings.llm` is the model of new
 * conversations.
 */
export const userSettings = z
  .looseObject({
    language: z.string().nullable().optional(),
    git_user_name: z.string().nullable().optional(),
    git_user_email: z.string().nullable().optional(),
    git_full_clone: z.boolean().default(false),
    sandbox_grouping_strategy: groupingStrategy.default('NO_GROUPING'),
    default_sandbox_spec_id: z.string().nullable().optional(),
    disabled_skills: z.array(z.string()).nullable().optional(),
    agent_settings: z.looseObject({ llm: llm.partial().optional() }).prefault({}),
    conversation_settings: z
      .looseObject({
        max_iterations: z.int().min(1).default(500),
        confirmation_mode: z.boolean().default(false),
        security_analyzer: z.enum(['llm', 'none']).nullable().default(null),
      })
      .prefault({}),
  })
  .meta({ id: 'UserSettings' })
export type UserSettings = z.output<typeof userSettings>

/** A part of the settings: the `_diff` members are merged into what is there (null deletes), others replace it. */
export const changeSettingsRequest = z
  .looseObject({
    agent_settings_diff: jsonObject.optional(),
    conversation_settings_diff: jsonObject.optional(),
  })
  .meta({ id: 'ChangeSettingsRequest' })

export const userSettingsResponse = z
  .looseObject({ llm_api_key_set: z.boolean(), search_api_key_set: z.boolean() })
  .meta({ id: 'Settings' })

export const currentUser = z
  .looseObject({
    id: z.string().nullable(),
    org_id: z.string().nullable(),
    org_name: z.string().nullable(),
    role: z.string(),
    permissions: z.array(z.string()),
  })
  .meta({ id: 'Me' })

export const messageResponse = z.object({ message: z.string() }).meta({ id: 'MessageAnswer' })

export const saveUserProfileRequest = z
  .object({
    include_secrets: trueByDefault,
    llm: nullAsUndefined(llm),
    preserve_existing_api_key: withDefault(z.boolean(), false),
  })
  .meta({ id: 'SaveUserProfileRequest' })

export const userProfileSummary = z
  .object({
    name: z.string(),
    model: z.string().nullable(),
    base_url: z.string().nullable(),
    api_key_set: z.boolean(),
  })
  .meta({ id: 'UserProfileSummary' })

/** A name that can be a variable of a shell. */
export const secretName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'A name is 1 to 64 letters, digits and _, no digit first')
  .refine((name) => name !== 'search', 'This name is the address of the list')

export const secretSummary = z
  .object({ name: z.string(), description: z.string().nullable().optional() })
  .meta({ id: 'SecretSummary' })

export const createSecretRequest = z
  .object({
    name: secretName,
    description: nullAsUndefined(boundedText(0, 1000)),
    value: boundedText(1, 65_536),
  })
  .meta({ id: 'CreateSecretRequest' })

export const renameSecretRequest = z
  .object({ name: secretName, description: nullAsUndefined(boundedText(0, 1000)) })
  .meta({ id: 'RenameSecretRequest' })

/** Tokens that git and providers are asked with. A token that is left out or empty keeps the one that is there. */
export const gitProvidersRequest = z
  .object({
    provider_tokens: z.partialRecord(
      providerType,
      z.looseObject({ token: nullAsUndefined(z.string()), host: nullAsUndefined(z.string().max(300)) }),
    ),
  })
  .meta({ id: 'GitProvidersRequest' })

export const webClientConfig = z.looseObject({ app_mode: z.string() }).meta({ id: 'WebClientConfig' })
