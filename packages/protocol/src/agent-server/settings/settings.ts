import * as z from 'zod'
import {
  boundedText,
  component,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  nullByDefault,
  strictComponent,
  trueByDefault,
  uuid,
  withDefault,
} from '../../core/schemas.ts'
import { acpCommand, acpSeconds } from '../agents/acp-agent.ts'
import {
  agentContext,
  fitsKeepFirst,
  keepFirstIssue,
  mcpConfig,
  mcpServer,
  toolSpec,
} from '../agents/agent.ts'
import { llm, secretInput } from '../llm/llm.ts'
import { metaProfile } from '../llm/meta-profile.ts'
import { profileName } from '../llm/profile-name.ts'
import { mcpTransport } from '../mcp/mcp-rules.ts'

export const condenserSettings = z.looseObject({
  condenser_kind: withDefault(z.enum(['llm_summarizing', 'no_op']), 'llm_summarizing'),
  enabled: trueByDefault,
  max_size: withDefault(z.int().min(20), 240),
  max_tokens: nullByDefault(z.int().min(1)),
  keep_first: withDefault(z.int().min(0), 2),
  minimum_progress: withDefault(z.number().min(0).max(1), 0.1),
  hard_context_reset_max_retries: withDefault(z.int().min(0), 5),
  hard_context_reset_context_scaling: withDefault(z.number().gt(0).lt(1), 0.8),
})

export const verificationSettings = z.looseObject({
  critic_enabled: withDefault(z.boolean(), false),
  critic_mode: withDefault(z.enum(['finish_and_message', 'all_actions']), 'finish_and_message'),
  enable_iterative_refinement: withDefault(z.boolean(), false),
  critic_threshold: withDefault(z.number().min(0).max(1), 0.6),
  max_refinement_iterations: withDefault(z.int().min(1), 3),
  critic_server_url: nullByDefault(z.string()),
  critic_model_name: nullByDefault(z.string()),
  critic_api_key: secretInput,
})

const defaultLlm = { model: 'openai/gpt-5.5' }

/**
 * Agent settings of new conversations (wire 8.5, OpenHandsAgentSettings). Every member has a default; null
 * means absent. Unknown members stay. The kind that runs is `openhands`, which older clients call `llm`.
 */
export const agentSettings = looseComponent('OpenHandsAgentSettings', {
  schema_version: z.preprocess(() => 5, z.literal(5)),
  agent_kind: z
    .enum(['openhands', 'llm'], {
      error: () => "Input should be 'openhands' or 'acp'",
    })
    .nullish()
    .transform(() => 'openhands' as const)
    .meta({ default: 'openhands' }),
  agent: withDefault(z.string(), 'CodeActAgent'),
  llm: z.preprocess((value) => withDefaultModel(value), llm),
  tools: nullByDefault(z.array(toolSpec)),
  enable_sub_agents: withDefault(z.boolean(), false),
  enable_switch_llm_tool: trueByDefault,
  active_meta_profile: nullByDefault(profileName),
  enable_classify_and_switch_llm_tool: withDefault(z.boolean(), false),
  meta_profile: nullByDefault(metaProfile).meta({ description: 'A copy of the active one.' }),
  tool_concurrency_limit: withDefault(z.int().min(1), 1),
  mcp_config: mcpConfig,
  agent_context: z.preprocess((value) => value ?? {}, agentContext),
  condenser: z.preprocess((value) => value ?? {}, condenserSettings).refine(fitsKeepFirst, keepFirstIssue),
  verification: z.preprocess((value) => value ?? {}, verificationSettings),
})
export type AgentSettings = z.output<typeof agentSettings>

/** The programs that an agent of kind `acp` may be. */
export const acpServer = z.enum(['claude-code', 'codex', 'gemini-cli', 'custom'])

/**
 * Settings of an agent that is another program. Times are seconds. Unknown members stay.
 */
export const acpAgentSettings = looseComponent('ACPAgentSettings', {
  schema_version: z.preprocess(() => 5, z.literal(5)),
  agent_kind: z.literal('acp'),
  acp_server: withDefault(acpServer, 'claude-code'),
  acp_model: nullByDefault(z.string()),
  acp_effort: nullByDefault(z.string().max(200)),
  acp_session_mode: nullByDefault(z.string()),
  acp_prompt_timeout: withDefault(acpSeconds, 1800),
  acp_startup_timeout: withDefault(acpSeconds, 90),
  acp_command: nullByDefault(acpCommand).meta({ description: 'Null or empty: that of `acp_server`.' }),
  acp_args: nullByDefault(acpCommand),
  mcp_config: mcpConfig,
})

/** Settings without a model are those of the default one. */
function withDefaultModel(value: unknown): unknown {
  if (value === null || value === undefined) return defaultLlm
  if (typeof value !== 'object' || Array.isArray(value)) return value
  const model = 'model' in value ? value.model : undefined
  return model === null || model === undefined ? { ...value, ...defaultLlm } : value
}

/** Run settings of new conversations (wire 8.5). Unknown members stay; a create request takes precedence. */
export const conversationSettings = looseComponent('ConversationSettings', {
  schema_version: z.preprocess(() => 1, z.literal(1)),
  max_iterations: z.int().min(1).default(500),
  confirmation_mode: z.boolean().default(false),
  security_analyzer: z.enum(['llm', 'pattern', 'policy_rail', 'none']).nullable().default('llm'),
})
export type ConversationSettings = z.output<typeof conversationSettings>

/**
 * The stored settings of a user. `active_profile` is a name, `active_agent_profile_id` a UUID;
 * `misc_settings` belongs to the clients.
 */
export const storedSettings = z.object({
  agent_settings: jsonObject.default({}),
  conversation_settings: jsonObject.default({}),
  misc_settings: jsonObject.default({}),
  active_profile: nullAsUndefined(z.string()),
  active_agent_profile_id: nullAsUndefined(z.string()),
})
export type StoredSettings = z.output<typeof storedSettings>

/**
 * Diffs are merge patches (RFC 7396). Null restores a default of the agent settings; for a member of the
 * conversation or misc settings it is a value.
 */
export const updateSettingsRequest = component('SettingsUpdateRequest', {
  agent_settings_diff: nullAsUndefined(jsonObject),
  conversation_settings_diff: nullAsUndefined(jsonObject),
  misc_settings_diff: nullAsUndefined(jsonObject),
  active_profile: profileName.nullish().meta({ description: 'A profile whose model to take; null: none.' }),
  active_meta_profile: profileName
    .nullish()
    .meta({ description: 'A meta-profile, which becomes the active one; null: none.' }),
  active_agent_profile_id: uuid.nullish().meta({ description: 'The UUID of an agent profile; null: none.' }),
})
export type UpdateSettingsRequest = z.output<typeof updateSettingsRequest>

export const mcpServerName = z
  .string()
  .regex(
    /^[A-Za-z0-9][\w.-]{0,127}$/,
    'The name of an MCP server is 1 to 128 letters, digits, dots, underscores and hyphens, a letter or digit first',
  )
/** Unknown members are refused, because they are misspelled. */
export const createMcpServerRequest = strictComponent('MCPServerInput', {
  ...mcpServer.shape,
  transport: nullAsUndefined(mcpTransport),
  enabled: nullAsUndefined(z.boolean()),
  description: nullAsUndefined(z.string()),
  icon: nullAsUndefined(z.string()),
  keep_alive: nullAsUndefined(z.boolean()),
  sse_read_timeout: nullAsUndefined(z.number().positive()),
})

export type CreateMcpServerRequest = z.output<typeof createMcpServerRequest>

/** The name of a secret and of its variable: a letter, then up to 63 letters, digits and `_`. */
export const secretName = z
  .string()
  .regex(
    /^[A-Za-z][A-Za-z0-9_]{0,63}$/,
    'The name of a secret is a letter and up to 63 letters, digits and underscores',
  )

export const secretItem = component('SecretItemResponse', {
  name: z.string(),
  description: z.string().nullable(),
})

export const saveSecretRequest = component('SecretCreateRequest', {
  name: secretName,
  value: boundedText(1, 65_536)
    .refine((text) => !/^(?:\*+|<redacted>)$/.test(text), 'A mask is no value')
    // What no environment of a process could hold.
    .refine(
      (text) => text.isWellFormed() && !text.includes('\0'),
      'A value has no NUL and no half characters',
    ),
  description: nullAsUndefined(boundedText(0, 1_000)),
})

const fieldChoice = z.object({ value: z.union([z.boolean(), z.number(), z.string()]), label: z.string() })

/** One field of a form: its path in the settings (`llm.model`) and its display. */
export const settingsField = component('SettingsFieldSchema', {
  key: z.string(),
  label: z.string(),
  description: z.string().nullable(),
  section: z.string(),
  section_label: z.string(),
  value_type: z.enum(['string', 'integer', 'number', 'boolean', 'array', 'object']),
  default: z.unknown(),
  prominence: z.enum(['critical', 'major', 'minor']),
  depends_on: z.array(z.string()),
  secret: z.boolean(),
  choices: z.array(fieldChoice),
  required: z.boolean(),
  variant: z.string().nullable(),
})
export type SettingsField = z.infer<typeof settingsField>

/** A form for settings: sections and their fields. */
export const settingsSchema = component('SettingsSchema', {
  model_name: z.string(),
  sections: z.array(
    component('SettingsSectionSchema', {
      key: z.string(),
      label: z.string(),
      variant: z.string().nullable(),
      fields: z.array(settingsField),
    }),
  ),
})
export type SettingsSchema = z.infer<typeof settingsSchema>
