import { findTool } from '@slipway/agent'
import {
  type AgentProfileDiagnostics,
  type KeptAgentProfile,
  type Llm,
  type OpenHandsProfile,
  redact,
} from '@slipway/protocol'

type Json = Record<string, unknown>

/** What a profile refers to, as far as it is there. */
export interface Referred {
  /** Undefined when there is no LLM profile of the name; a text says why one cannot be read. */
  readonly llm: Llm | { readonly fault: string } | undefined
  /** The agent settings, in clear. */
  readonly settings: Readonly<Json>
  /** Names of the skills that every conversation of the user has. */
  readonly skills: readonly string[]
}

/** The settings of a conversation that a profile stands for, and what is missing for them. `settings` holds secrets. */
export interface Resolved {
  readonly settings: Json | undefined
  readonly mcpServers: readonly string[]
  readonly danglingMcpServers: readonly string[]
  readonly errors: readonly string[]
}

/** Follows the references of a profile. Where its MCP servers or its model are missing there are no settings. */
export function resolvedProfile(profile: KeptAgentProfile, referred: Referred): Resolved {
  const configured = members(referred.settings.mcp_config)
  const wanted = profile.mcp_server_refs ?? Object.keys(configured)
  const mcpServers = [...new Set(wanted)].filter((name) => Object.hasOwn(configured, name))
  const danglingMcpServers = [...new Set(wanted)].filter((name) => !Object.hasOwn(configured, name))
  const errors = [
    ...modelErrors(profile, referred.llm),
    ...danglingMcpServers.map((name) => `The settings have no MCP server '${name}'.`),
  ]
  if (profile.agent_kind === 'acp' || !isModel(referred.llm) || danglingMcpServers.length > 0)
    return { settings: undefined, mcpServers, danglingMcpServers, errors }
  const mcp_config = Object.fromEntries(mcpServers.map((name) => [name, configured[name]]))
  const settings = settingsOf(profile, referred.llm, { mcp_config, base: referred.settings })
  return { settings, mcpServers, danglingMcpServers, errors }
}

/** The same, as it is told to a client: without secrets. */
export function diagnosed(profile: KeptAgentProfile, referred: Referred): AgentProfileDiagnostics {
  const { settings, mcpServers, danglingMcpServers, errors } = resolvedProfile(profile, referred)
  const isOpenHands = profile.agent_kind === 'openhands'
  const disabled = isOpenHands ? profile.disabled_skills : []
  const { llm } = referred
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
    disabled_skills: disabled,
    resolved_skills: isOpenHands ? referred.skills.filter((name) => !disabled.includes(name)) : [],
    acp_api_key_secret_name: null,
    acp_base_url_secret_name: null,
    acp_file_secret_names: [],
    resolved_settings: settings === undefined ? null : members(redact(plain(settings))),
  }
}

function modelErrors(profile: KeptAgentProfile, llm: Referred['llm']): string[] {
  if (profile.agent_kind === 'acp') return ['This server runs no agents of kind acp.']
  const unknown = (profile.tools ?? []).filter(({ name }) => findTool(name) === undefined)
  const tools = unknown.map(({ name }) => `This server has no tool '${name}'.`)
  if (llm === undefined) return [`There is no LLM profile '${profile.llm_profile_ref}'.`, ...tools]
  return 'fault' in llm && typeof llm.fault === 'string' ? [llm.fault, ...tools] : tools
}

function isModel(llm: Referred['llm']): llm is Llm {
  return llm !== undefined && 'model' in llm
}

function settingsOf(
  profile: OpenHandsProfile,
  llm: Llm,
  { mcp_config, base }: { readonly mcp_config: Json; readonly base: Readonly<Json> },
): Json {
  const { agent, tools, condenser, verification } = profile
  const { enable_sub_agents, enable_switch_llm_tool, tool_concurrency_limit } = profile
  const { critic_api_key } = members(base.verification)
  return {
    agent_kind: 'openhands',
    agent,
    llm,
    tools,
    enable_sub_agents,
    enable_switch_llm_tool,
    tool_concurrency_limit,
    mcp_config,
    agent_context: {
      system_message_suffix: profile.system_message_suffix,
      disabled_skills: profile.disabled_skills,
      load_user_skills: true,
      load_project_skills: true,
      load_public_skills: members(base.agent_context).load_public_skills === true,
    },
    condenser,
    verification: typeof critic_api_key === 'string' ? { ...verification, critic_api_key } : verification,
  }
}

function members(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

/** Without what JSON does not have. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}
