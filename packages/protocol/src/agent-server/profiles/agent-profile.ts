import { isRecord } from '@slipway/shared/json'
import { findSecretTexts } from '@slipway/shared/redaction'
import * as z from 'zod'
import {
  component,
  jsonObject,
  nullByDefault,
  strictComponent,
  trueByDefault,
  withDefault,
} from '../../core/schemas.ts'
import { acpSeconds } from '../agents/acp-agent.ts'
import { fitsKeepFirst, keepFirstIssue, toolSpec } from '../agents/agent.ts'
import { profileName } from '../llm/profile-name.ts'
import { acpServer, condenserSettings, verificationSettings } from '../settings/settings.ts'

const longText = z.string().max(100_000)
const nameList = z.array(z.string().min(1).max(200)).max(1000)

const noSecretsMessage = 'A profile holds no secrets: it is shown as it is'

/** Whether no name in a value speaks of a secret, and no address has a password. */
function hasNoSecrets(value: unknown): boolean {
  return !findSecretTexts(value).some(({ isNamed }) => isNamed)
}

/** As in the settings (wire 8.5), and closed. */
const profileCondenser = z
  .strictObject(condenserSettings.shape)
  .refine(fitsKeepFirst, keepFirstIssue)
  .meta({ id: 'AgentProfileCondenser' })

const { critic_api_key: _, ...verification } = verificationSettings.shape
/** As in the settings (wire 8.5), and closed; the key of the critic's server is theirs alone. */
const profileVerification = strictComponent('AgentProfileVerification', {
  ...verification,
  critic_server_url: nullByDefault(z.string().max(2000).refine(hasNoSecrets, { message: noSecretsMessage })),
})

const identityMembers = {
  schema_version: withDefault(z.int().min(1).max(3), 3),
  id: z.string().nullish(),
  name: z.string().nullish(),
  revision: z.int().min(0).nullish(),
  mcp_server_refs: nullByDefault(nameList).meta({
    description: 'Which of the MCP servers of the settings are used; null: all of them.',
  }),
  secret_refs: nullByDefault(nameList).meta({
    description: 'Which of the secrets of a start request the conversation gets; null: all of them.',
  }),
}

/** An agent of this server. */
const openHandsProfile = strictComponent('OpenHandsAgentProfile', {
  ...identityMembers,
  agent_kind: z.literal('openhands'),
  llm_profile_ref: profileName.meta({ description: 'The LLM profile by name; it need not be there yet.' }),
  persona: nullByDefault(longText),
  meta_profile_ref: nullByDefault(profileName),
  enable_classify_and_switch_llm_tool: withDefault(z.boolean(), false),
  agent: withDefault(z.string().min(1).max(200), 'CodeActAgent'),
  tools: nullByDefault(z.array(toolSpec).max(200).refine(hasNoSecrets, { message: noSecretsMessage })).meta({
    description: 'Null: the default tools.',
  }),
  system_message_suffix: nullByDefault(longText),
  disabled_skills: withDefault(nameList, []),
  condenser: withDefault(profileCondenser, profileCondenser.parse({})),
  verification: withDefault(profileVerification, profileVerification.parse({})),
  enable_sub_agents: withDefault(z.boolean(), false),
  enable_switch_llm_tool: trueByDefault,
  tool_concurrency_limit: withDefault(z.int().min(1).max(100), 1),
})
export type OpenHandsProfile = z.output<typeof openHandsProfile>

/** An agent that is another program. Times are seconds. */
const acpProfile = strictComponent('ACPAgentProfile', {
  ...identityMembers,
  agent_kind: z.literal('acp'),
  acp_server: acpServer,
  acp_model: nullByDefault(z.string().max(200)),
  acp_effort: nullByDefault(z.string().max(200)),
  acp_session_mode: nullByDefault(z.string().max(200)),
  acp_prompt_timeout: withDefault(acpSeconds, 1800),
  acp_startup_timeout: withDefault(acpSeconds, 90),
  acp_command: nullByDefault(z.string().max(10_000)),
  acp_args: nullByDefault(z.array(z.string().max(10_000)).max(1000)),
})
export type AcpProfile = z.output<typeof acpProfile>

/**
 * An agent by references, without secrets, of this server unless it says otherwise. Unknown members are
 * refused. The server sets `id`, `revision` and `name`; in a request they are ignored.
 */
export const agentProfile = z
  .preprocess(
    (value) => (isRecord(value) && value.agent_kind == null ? { ...value, agent_kind: 'openhands' } : value),
    z.discriminatedUnion('agent_kind', [openHandsProfile, acpProfile]),
  )
  .meta({ id: 'AgentProfile' })
export type AgentProfile = z.output<typeof agentProfile>
/** A stored profile. */
export type StoredAgentProfile = AgentProfile & {
  readonly id: string
  readonly name: string
  readonly revision: number
}

export const agentProfileSummary = component('AgentProfileInfo', {
  id: z.string(),
  name: z.string(),
  agent_kind: z.enum(['openhands', 'acp']),
  revision: z.int(),
  llm_profile_ref: z.string().nullable(),
  mcp_server_refs: z.array(z.string()).nullable(),
})
export type AgentProfileSummary = z.infer<typeof agentProfileSummary>

/** A draft is diagnosed without being saved. */
export const materializeRequest = strictComponent('MaterializeAgentProfileRequest', {
  profile: agentProfile.optional(),
})

/** What a conversation of this profile would start with, and what is missing. Has no secrets. */
export const agentProfileDiagnostics = component('AgentProfileDiagnostics', {
  agent_kind: z.enum(['openhands', 'acp']),
  valid: z.boolean(),
  errors: z.array(z.string()),
  llm_profile_ref: z.string().nullable(),
  llm_profile_resolved: z.boolean(),
  llm_api_key_set: z.boolean(),
  mcp_server_refs: z.array(z.string()).nullable(),
  resolved_mcp_config_keys: z.array(z.string()),
  resolved_mcp_servers: z.array(z.string()),
  dangling_mcp_server_refs: z.array(z.string()),
  dangling_llm_profile_ref: z.string().nullable(),
  dangling_meta_profile_ref: z.string().nullable(),
  unusable_tools: z.array(z.string()),
  secret_refs: z.array(z.string()).nullable(),
  disabled_skills: z.array(z.string()),
  resolved_skills: z.array(z.string()),
  acp_api_key_secret_name: z.string().nullable(),
  acp_base_url_secret_name: z.string().nullable(),
  acp_file_secret_names: z.array(z.string()),
  resolved_settings: jsonObject.nullable(),
})
export type AgentProfileDiagnostics = z.infer<typeof agentProfileDiagnostics>
