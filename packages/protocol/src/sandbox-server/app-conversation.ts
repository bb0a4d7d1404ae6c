import * as z from 'zod'
import { secretSource } from '../agent-server/agents/agent.ts'
import { executionStatus, tags } from '../agent-server/conversations/conversation.ts'
import { extensionSource } from '../agent-server/extensions/extension.ts'
import { repositoryDecision } from '../agent-server/repositories/consent.ts'
import { acceptsText, partsOrText } from '../core/message.ts'
import { withContent } from '../core/message-content.ts'
import { pageQuery, queryFlag, queryInstant, queryText } from '../core/query.ts'
import {
  boundedText,
  component,
  jsonObject,
  nullAsUndefined,
  pageOf,
  timestamp,
  trueByDefault,
  uuid,
  withDefault,
} from '../core/schemas.ts'
import { secretName } from './account.ts'
import { sandboxStatus } from './sandbox.ts'

/** Ids are returned as 32 hex digits; dashes are accepted. */
const hexId = z.string().meta({ description: '32 hex digits.' })

export const conversationTrigger = z
  .enum([
    'resolver',
    'gui',
    'suggested_task',
    'openhands_api',
    'slack',
    'microagent_management',
    'jira',
    'jira_dc',
    'linear',
    'bitbucket',
    'automation',
  ])
  .meta({ id: 'ConversationTrigger' })

export const providerType = z
  .enum([
    'github',
    'gitlab',
    'bitbucket',
    'bitbucket_data_center',
    'forgejo',
    'azure_devops',
    'enterprise_sso',
  ])
  .meta({ id: 'ProviderType' })

/**
 * `owner/name` (of the provider), or without `git_provider` a URL that git can clone (`https://…`, `ssh://…`,
 * `file://…`). Never contains shell syntax.
 */
export const repository = z
  .string()
  .max(500)
  .regex(
    /^(?:[\w.-]+(?:\/[\w.-]+)+|(?:https?|ssh|git|file):\/\/[^\s;&|$`'"\\]+)$/,
    'A repository is owner/name, or an address that git can clone',
  )
  .refine((text) => !/(^|\/)\.\.(\/|$)/.test(text), 'A repository has no .. in it')

/** A legal name of a git reference. */
export const branch = z
  .string()
  .max(250)
  .regex(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: validators of OpenAPI documents do not know \p{Cc}
    /^(?!-)(?!.*(?:\.\.|@\{|\/\/|\.lock(?:\/|$)|\/\.))(?!\.)(?!\/)[^\s~^:?*[\\;&|$`'"\u0000-\u001f\u007f-\u009f]+(?<![/.])$/u,
    'This is no name of a branch',
  )

const initialMessage = component('AppInitialMessage', {
  role: z.enum(['user', 'system', 'assistant', 'tool']).default('user'),
  content: partsOrText,
  run: trueByDefault,
})

/** Secrets by name: a text, or a source of the agent server's wire. */
const startSecrets = z.record(z.string(), z.union([z.string(), secretSource]))

/** Variables that belong to the sandbox itself. */
const reservedVariables =
  /^(?:OPENVSCODE_SERVER_ROOT|OH_ENABLE_VNC|LOG_JSON|OH_CONVERSATIONS_PATH|OH_BASH_EVENTS_DIR|PYTHONUNBUFFERED|ENV_LOG_LEVEL|OH_WEBHOOKS_0_BASE_URL|OH_ALLOW_CORS_ORIGINS_0|WORKER_1|WORKER_2|LLM_.*|SLIPWAY_.*)$/i

/** Wire: AppConversationStartRequest. Null means absent; unknown members are ignored. */
export const appConversationStartRequest = z
  .object({
    sandbox_id: nullAsUndefined(z.string().min(1).max(200)).meta({
      description: 'Run in this sandbox; PAUSED ones are resumed.',
    }),
    sandbox_spec_id: nullAsUndefined(z.string()).meta({ description: 'Make the sandbox from this spec.' }),
    conversation_id: nullAsUndefined(uuid).meta({
      description: 'Id of the conversation. Of one whose sandbox is gone: give it a new sandbox.',
    }),
    initial_message: nullAsUndefined(initialMessage),
    system_message_suffix: nullAsUndefined(boundedText(0, 32_768)),
    processors: nullAsUndefined(z.array(jsonObject)),
    llm_model: nullAsUndefined(z.string().min(1).max(200)).meta({
      description: 'Instead of the model of the settings.',
    }),
    llm_profile: nullAsUndefined(z.string()).meta({ description: 'Name of a saved profile of the caller.' }),
    agent_profile_id: nullAsUndefined(z.string()),
    selected_repository: nullAsUndefined(repository),
    selected_branch: nullAsUndefined(branch),
    git_provider: nullAsUndefined(providerType),
    suggested_task: nullAsUndefined(jsonObject),
    title: nullAsUndefined(boundedText(1, 200)),
    trigger: nullAsUndefined(conversationTrigger),
    pr_number: withDefault(z.array(z.int()), []),
    parent_conversation_id: nullAsUndefined(uuid),
    agent_type: withDefault(z.enum(['default', 'plan']), 'default'),
    public: nullAsUndefined(z.boolean()),
    plugins: nullAsUndefined(z.array(extensionSource).max(50)),
    secrets: nullAsUndefined(startSecrets),
    secret_names: nullAsUndefined(z.array(secretName).max(1_000)).meta({
      description: 'The stored secrets that it gets, and that its sandbox may look up; all unless given.',
    }),
    disabled_skills: nullAsUndefined(z.array(z.string())),
    repository_scripts: nullAsUndefined(repositoryDecision).meta({
      description:
        'Decides about the setup script and the commit hook that the repository brings now; remembered where consent is needed. With deny its hooks and agents are not loaded either.',
    }),
    max_iterations: nullAsUndefined(z.int().min(1)),
    confirmation_mode: nullAsUndefined(z.boolean()),
    tags: nullAsUndefined(tags),
  })
  .superRefine((request, ctx) => {
    const addIssue = (path: string[], message: string) => ctx.addIssue({ code: 'custom', path, message })
    if (request.sandbox_id !== undefined && request.sandbox_spec_id !== undefined)
      addIssue(['sandbox_spec_id'], 'A sandbox that is there has its spec already')
    if (request.suggested_task !== undefined && request.initial_message !== undefined)
      addIssue(['suggested_task'], 'A suggested task makes the initial message itself')
    for (const name of Object.keys(request.secrets ?? {}))
      if (reservedVariables.test(name)) addIssue(['secrets', name], 'This name belongs to the sandbox')
  })
  .meta({ id: 'AppConversationStartRequest' })
export type AppConversationStartRequest = z.output<typeof appConversationStartRequest>

/** The members of the agent server's fork that apply to a copy of the files too. Null means absent. */
export const forkAppConversationRequest = component('ForkAppConversationRequest', {
  id: nullAsUndefined(uuid).meta({ description: 'Id of the new conversation.' }),
  title: nullAsUndefined(boundedText(1, 200)).meta({ description: 'That of the first one when absent.' }),
  tags: nullAsUndefined(tags),
})
export type ForkAppConversationRequest = z.output<typeof forkAppConversationRequest>

export const startTaskStatus = z
  .enum([
    'WORKING',
    'WAITING_FOR_SANDBOX',
    'PREPARING_REPOSITORY',
    'RUNNING_SETUP_SCRIPT',
    'SETTING_UP_GIT_HOOKS',
    'SETTING_UP_SKILLS',
    'STARTING_CONVERSATION',
    'READY',
    'ERROR',
  ])
  .meta({ id: 'AppConversationStartTaskStatus' })
export type StartTaskStatus = z.infer<typeof startTaskStatus>

/** A start of a conversation. `request` has its secrets redacted. Null members are present. */
export const appConversationStartTask = component('AppConversationStartTask', {
  id: hexId,
  created_by_user_id: z.string().nullable(),
  status: startTaskStatus,
  detail: z
    .string()
    .nullable()
    .meta({ description: 'Why it failed; on the way and when READY: what did not go as wished.' }),
  app_conversation_id: hexId.nullable(),
  sandbox_id: z.string().nullable(),
  agent_server_url: z.string().nullable(),
  request: jsonObject,
  created_at: timestamp,
  updated_at: timestamp,
})
export type AppConversationStartTask = z.infer<typeof appConversationStartTask>

/** Wire: AppConversation. Null members are present. */
export const appConversation = component('AppConversation', {
  id: hexId,
  created_by_user_id: z.string().nullable(),
  sandbox_id: z.string(),
  selected_repository: z.string().nullable(),
  selected_branch: z.string().nullable(),
  git_provider: providerType.nullable(),
  title: z.string().nullable(),
  trigger: conversationTrigger.nullable(),
  pr_number: z.array(z.int()),
  llm_model: z.string().nullable(),
  agent_kind: z.string(),
  metrics: jsonObject.nullable(),
  parent_conversation_id: hexId.nullable(),
  sub_conversation_ids: z.array(hexId),
  public: z.boolean().nullable(),
  tags: z.record(z.string(), z.string()),
  created_at: timestamp,
  updated_at: timestamp,
  sandbox_status: sandboxStatus,
  execution_status: executionStatus
    .nullable()
    .meta({ description: 'Null unless the sandbox runs and its agent server answers.' }),
  conversation_url: z.string().nullable(),
  session_api_key: z.string().nullable(),
  acp_server: z.string().nullable(),
  launched_agent_profile: jsonObject.nullable(),
})
export type AppConversation = z.infer<typeof appConversation>

export const appConversationPage = pageOf(appConversation).meta({ id: 'AppConversationPage' })

export const appConversationFilter = z.object({
  title__contains: queryText.meta({ description: 'Keep those whose title contains this, in any case.' }),
  created_at__gte: queryInstant.optional(),
  created_at__lt: queryInstant.optional(),
  updated_at__gte: queryInstant.optional(),
  updated_at__lt: queryInstant.optional(),
  sandbox_id__eq: queryText,
  include_sub_conversations: queryFlag.meta({
    description: 'Show conversations that work for another one too.',
  }),
})

export const appConversationSearchQuery = appConversationFilter.extend(pageQuery.shape).extend({
  sort_order: z
    .enum(['CREATED_AT', 'CREATED_AT_DESC', 'UPDATED_AT', 'UPDATED_AT_DESC', 'TITLE', 'TITLE_DESC'])
    .default('CREATED_AT_DESC'),
})

export const startTaskFilter = z.object({
  conversation_id__eq: z
    .preprocess((value) => (value === '' ? undefined : value), uuid.optional())
    .optional(),
  created_at__gte: queryInstant.optional(),
})

/** Members that are absent stay, null clears (wire 1.1). */
export const patchAppConversationRequest = z
  .object({
    title: boundedText(1, 200).nullish(),
    public: z.boolean().nullish(),
    selected_repository: repository.nullish(),
    selected_branch: branch.nullish(),
    git_provider: providerType.nullish(),
    tags: tags.optional(),
  })
  .superRefine((patch, ctx) => {
    if (patch.selected_repository !== null) return
    for (const member of ['selected_branch', 'git_provider'] as const)
      if (patch[member] !== null)
        ctx.addIssue({
          code: 'custom',
          path: [member],
          message: 'Clearing the repository clears this too: send null',
        })
  })
  .meta({ id: 'AppConversationUpdateRequest' })

/** A message to a conversation in a sandbox that runs. */
export const appSendMessageRequest = withContent(
  component('AppSendMessageRequest', {
    role: z.literal('user').default('user'),
    content: partsOrText
      .refine((parts) => parts.length > 0, 'The message is empty')
      .meta({ ...acceptsText, minItems: 1 }),
    run: trueByDefault,
  }),
)
