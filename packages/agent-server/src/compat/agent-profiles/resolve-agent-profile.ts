import { findAcpProvider, findTool, splitCommand } from '@slipway/agent'
import type {
  AcpProfile,
  AgentProfile,
  AgentProfileDiagnostics,
  Llm,
  MetaProfile,
  OpenHandsProfile,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'

type JsonObject = Record<string, unknown>

/** The existing targets of a profile's references. */
export interface ResolvedReferences {
  /** Undefined when there is no LLM profile of the name; an issue when it cannot be read. */
  readonly llm: Llm | { readonly issue: string } | undefined
  /** Undefined when there is none of the name. */
  readonly metaProfile?: MetaProfile | undefined
  /** The agent settings, secrets in clear. */
  readonly settings: Readonly<JsonObject>
  readonly skills: readonly string[]
}

/** Resolves the references of a profile: settings with secrets in clear, none when a reference is missing. */
export function resolveAgentProfile(profile: AgentProfile, references: ResolvedReferences) {
  const configured = toObject(references.settings.mcp_config)
  const serverNames = profile.mcp_server_refs ?? Object.keys(configured)
  const mcpServers = [...new Set(serverNames)].filter((name) => Object.hasOwn(configured, name))
  const danglingMcpServers = [...new Set(serverNames)].filter((name) => !Object.hasOwn(configured, name))
  const errors = [
    ...listProfileErrors(profile, references),
    ...(danglingMcpServers.length === 0
      ? []
      : [`MCP server(s) not configured: ${danglingMcpServers.join(', ')}`]),
  ]
  const isDangling = danglingMcpServers.length > 0 || danglingMetaProfile(profile, references) !== null
  const mcp_config = Object.fromEntries(mcpServers.map((name) => [name, configured[name]]))
  if (profile.agent_kind === 'acp') {
    const settings = errors.length > 0 ? undefined : buildAcpSettings(profile, mcp_config)
    return { settings, mcpServers, danglingMcpServers, errors }
  }
  if (!isModel(references.llm) || isDangling)
    return { settings: undefined, mcpServers, danglingMcpServers, errors }
  const settings = buildAgentSettings(profile, references.llm, { mcp_config, references })
  return { settings, mcpServers, danglingMcpServers, errors }
}

/** The result of `resolveAgentProfile` for clients, redacted. */
export function diagnoseAgentProfile(
  profile: AgentProfile,
  references: ResolvedReferences,
): AgentProfileDiagnostics {
  const { settings, mcpServers, danglingMcpServers, errors } = resolveAgentProfile(profile, references)
  const isOpenHands = profile.agent_kind === 'openhands'
  const disabled = isOpenHands ? profile.disabled_skills : []
  const { llm } = references
  return {
    agent_kind: profile.agent_kind,
    valid: errors.length === 0,
    errors: [...errors],
    llm_profile_ref: isOpenHands ? profile.llm_profile_ref : null,
    llm_profile_resolved: isOpenHands && isModel(llm),
    llm_api_key_set: isOpenHands && isModel(llm) && llm.api_key !== undefined,
    mcp_server_refs: profile.mcp_server_refs,
    resolved_mcp_config_keys: [...mcpServers],
    resolved_mcp_servers: [...mcpServers],
    dangling_mcp_server_refs: [...danglingMcpServers],
    dangling_llm_profile_ref: isOpenHands && llm === undefined ? profile.llm_profile_ref : null,
    dangling_meta_profile_ref: danglingMetaProfile(profile, references),
    unusable_tools: listUnusableTools(profile),
    secret_refs: profile.secret_refs,
    disabled_skills: disabled,
    resolved_skills: isOpenHands ? references.skills.filter((name) => !disabled.includes(name)) : [],
    ...acpSecretNames(isOpenHands ? undefined : profile.acp_server),
    resolved_settings:
      settings === undefined || errors.length > 0
        ? null
        : redact(toObject(JSON.parse(JSON.stringify(settings))), redactedText),
  }
}

function listProfileErrors(profile: AgentProfile, references: ResolvedReferences): string[] {
  const { llm } = references
  if (profile.agent_kind === 'acp') return listAcpErrors(profile)
  const unusable = listUnusableTools(profile)
  const metaProfile = danglingMetaProfile(profile, references)
  const toolErrors = [
    ...(unusable.length === 0 ? [] : [`Tool(s) this server cannot run: ${unusable.join(', ')}`]),
    ...(metaProfile === null ? [] : [`Meta-profile '${metaProfile}' not found`]),
  ]
  if (llm === undefined) return [`LLM profile '${profile.llm_profile_ref}' not found`, ...toolErrors]
  return 'issue' in llm && typeof llm.issue === 'string' ? [llm.issue, ...toolErrors] : toolErrors
}

/** The meta-profile that a profile switches on, where there is none of its name. */
export function danglingMetaProfile(
  profile: AgentProfile,
  { metaProfile }: Pick<ResolvedReferences, 'metaProfile'>,
): string | null {
  return metaProfile === undefined ? metaProfileName(profile) : null
}

/** The meta-profile that a profile switches on. */
export function metaProfileName(profile: AgentProfile): string | null {
  const isOn = profile.agent_kind === 'openhands' && profile.enable_classify_and_switch_llm_tool
  return isOn ? profile.meta_profile_ref : null
}

function listUnusableTools(profile: AgentProfile): string[] {
  if (profile.agent_kind === 'acp') return []
  return (profile.tools ?? []).map(({ name }) => name).filter((name) => findTool(name) === undefined)
}

/** The names of the secrets that such a program reads. */
function acpSecretNames(server: string | undefined) {
  const provider = findAcpProvider(server)
  return {
    acp_api_key_secret_name: provider?.apiKeySecret ?? null,
    acp_base_url_secret_name: provider?.baseUrlSecret ?? null,
    acp_file_secret_names: (provider?.fileSecrets ?? []).map(({ secret_name }) => secret_name),
  }
}

function listAcpErrors({ acp_server, acp_command }: AcpProfile): string[] {
  const words = splitCommand(acp_command ?? '')
  if (words === undefined) return ['A quote in acp_command is not closed']
  return words.length === 0 && findAcpProvider(acp_server) === undefined
    ? [`acp_command is required when acp_server='${acp_server}'`]
    : []
}

/** An external agent has its own skills and instructions. */
function buildAcpSettings(profile: AcpProfile, mcp_config: JsonObject): JsonObject {
  const { acp_server, acp_model, acp_effort, acp_session_mode } = profile
  const { acp_prompt_timeout, acp_startup_timeout } = profile
  return {
    agent_kind: 'acp',
    ...{ acp_server, acp_model, acp_effort, acp_session_mode, acp_prompt_timeout, acp_startup_timeout },
    acp_command: splitCommand(profile.acp_command ?? '') ?? [],
    acp_args: profile.acp_args ?? [],
    mcp_config,
  }
}

function isModel(llm: ResolvedReferences['llm']): llm is Llm {
  return llm !== undefined && 'model' in llm
}

function buildAgentSettings(
  profile: OpenHandsProfile,
  llm: Llm,
  options: { readonly mcp_config: JsonObject; readonly references: ResolvedReferences },
): JsonObject {
  const { mcp_config, references } = options
  const { settings: base, metaProfile } = references
  const { agent, tools, condenser, verification } = profile
  const { enable_sub_agents, enable_switch_llm_tool, tool_concurrency_limit } = profile
  const { critic_api_key } = toObject(base.verification)
  return {
    agent_kind: 'openhands',
    agent,
    llm,
    tools,
    enable_sub_agents,
    enable_switch_llm_tool,
    enable_classify_and_switch_llm_tool: metaProfile !== undefined,
    active_meta_profile: metaProfileName(profile),
    meta_profile: metaProfile ?? null,
    tool_concurrency_limit,
    mcp_config,
    agent_context: {
      system_message_suffix: profile.system_message_suffix,
      disabled_skills: profile.disabled_skills,
      load_user_skills: true,
      load_project_skills: true,
      load_public_skills: toObject(base.agent_context).load_public_skills === true,
    },
    condenser,
    verification: typeof critic_api_key === 'string' ? { ...verification, critic_api_key } : verification,
  }
}

function toObject(value: unknown): JsonObject {
  return isRecord(value) ? value : {}
}
