import { resolve } from 'node:path'
import {
  findAcpProvider,
  findTool,
  parseSource,
  preferredFileTool,
  type ResolvedSettings,
  toolNames,
  withAcpModel,
} from '@slipway/agent'
import {
  type Agent,
  acpAgentSettings,
  agent as agentSchema,
  agentSettings,
  invalidInput,
  isAcpAgent,
  parseOrThrow,
  readOutputSchema,
  type StartConversationRequest,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

/** Tools of an agent whose settings name none (wire 8.5). */
export const defaultTools: readonly string[] = ['terminal', 'file_editor', 'task_tracker']

const fileTools: readonly unknown[] = ['file_editor', 'apply_patch', 'auto']

const subAgentToolSet = 'task_tool_set'

const routingTool = 'ClassifyAndSwitchLLMTool'

const routingSettings = agentSettings.pick({ active_meta_profile: true, meta_profile: true })

/**
 * The start settings of a request, the agent resolved and the working directory absolute; `place` is the
 * member that defines the agent. A Problem `invalid` names what this server cannot do.
 */
export function buildStartSettings(request: Omit<StartConversationRequest, 'agent_profile_id'>): {
  readonly settings: ResolvedSettings
  readonly place: 'agent' | 'agent_settings'
} {
  const { agent: requestAgent, agent_settings, ...rest } = request
  const agent = requestAgent ?? agentFromSettings(agent_settings ?? {})
  const place = requestAgent === undefined ? 'agent_settings' : 'agent'
  assertAgentUsable(agent, place)
  if (isAcpAgent(agent)) assertFitsExternalAgent(rest)
  if (rest.response_schema !== undefined) {
    const schema = readOutputSchema(rest.response_schema)
    if ('issue' in schema) throw invalidInput(['body', 'response_schema'], schema.issue)
  }
  const clientTools = (rest.client_tools ?? []).map(({ name }) => name)
  for (const [index, name] of clientTools.entries()) {
    const place = ['body', 'client_tools', index, 'name']
    if (findTool(name) !== undefined) throw invalidInput(place, `The server has a tool '${name}' of its own`)
    if (clientTools.indexOf(name) < index) throw invalidInput(place, `Duplicate client tool name '${name}'`)
  }
  for (const [index, plugin] of (rest.plugins ?? []).entries()) {
    const source = parseSource(plugin)
    if ('issue' in source) throw invalidInput(['body', 'plugins', index, source.member], source.issue)
  }
  const working_dir = resolve(rest.workspace.working_dir)
  const workspace = { ...rest.workspace, working_dir, kind: 'LocalWorkspace' }
  return { settings: { ...rest, agent: isAcpAgent(agent) ? withAcpModel(agent) : agent, workspace }, place }
}

/** An external agent has tools, its own final answer, and its own plan mode. */
function assertFitsExternalAgent({
  client_tools = [],
  response_schema,
  plan_mode,
}: Partial<ResolvedSettings>): void {
  const issue = 'An external agent has none'
  if (client_tools.length > 0) throw invalidInput(['body', 'client_tools'], issue)
  if (response_schema !== undefined) throw invalidInput(['body', 'response_schema'], issue)
  if (plan_mode === true) throw invalidInput(['body', 'plan_mode'], issue)
}

function assertAgentUsable(agent: Agent, place: string): void {
  if (isAcpAgent(agent) && agent.tools.length > 0)
    throw invalidInput(['body', place, 'tools'], 'An external agent has its own tools')
  if (isAcpAgent(agent) && agent.acp_model?.trim() === '')
    throw invalidInput(['body', place, 'acp_model'], 'It is blank')
  for (const [index, { name }] of agent.tools.entries()) {
    if (findTool(name) !== undefined) continue
    const issue = `Unknown tool '${name}'. Known tools: ${toolNames().join(', ')}`
    throw invalidInput(['body', place, 'tools', index, 'name'], issue)
  }
  for (const [index, name] of agent.include_default_tools.entries()) {
    if (findTool(name) !== undefined) continue
    throw invalidInput(['body', place, 'include_default_tools', index], `Unknown tool '${name}'`)
  }
  if (agent.filter_tools_regex === undefined) return
  try {
    new RegExp(agent.filter_tools_regex)
  } catch {
    throw invalidInput(['body', place, 'filter_tools_regex'], 'It is not a regular expression')
  }
}

function agentFromSettings(settings: Readonly<Record<string, unknown>>): Agent {
  if (settings.agent_kind === 'acp') return buildAcpAgent(settings, ['body', 'agent_settings'])
  const { llm, tools, mcp_config, agent_context, tool_concurrency_limit } = settings
  const agent = {
    kind: 'Agent',
    llm,
    tools: withRouting(tools ?? defaultToolSpecs(settings), settings),
    mcp_config,
    agent_context,
    tool_concurrency_limit: tool_concurrency_limit ?? undefined,
    condenser: condenserFromSettings(settings.condenser),
    critic: criticFromSettings(settings.verification),
  }
  return parseOrThrow(agentSchema, agent, ['body', 'agent_settings'], 'The settings describe no agent')
}

/** The external agent of settings; a Problem `invalid` with the places after `place`. */
export function buildAcpAgent(settings: Readonly<Record<string, unknown>>, place: readonly string[]): Agent {
  const { acp_server, acp_command } = parseOrThrow(acpAgentSettings, settings, place)
  const command = acp_command?.length ? acp_command : findAcpProvider(acp_server)?.command
  if (command === undefined)
    throw invalidInput([...place, 'acp_command'], 'An agent of another program needs its command')
  const { agent_kind: _, schema_version: __, llm: ___, ...members } = settings
  const agent = { ...members, kind: 'ACPAgent', acp_server, acp_command: command }
  return parseOrThrow(agentSchema, agent, place, 'The settings describe no agent')
}

/** Includes the sub-agent tools where the server has them; `file_tool` names the tool that changes files. */
function defaultToolSpecs(settings: Readonly<Record<string, unknown>>): readonly { readonly name: string }[] {
  const { llm, enable_sub_agents, file_tool: fileTool = 'file_editor' } = settings
  if (fileTool !== null && !fileTools.includes(fileTool))
    throw invalidInput(
      ['body', 'agent_settings', 'file_tool'],
      "Input should be 'file_editor', 'apply_patch' or 'auto'",
      'enum',
    )
  const model = isRecord(llm) && typeof llm.model === 'string' ? llm.model : ''
  const chosen = fileTool === 'auto' ? preferredFileTool(model) : String(fileTool ?? 'file_editor')
  const hasSubAgents = enable_sub_agents === true && findTool(subAgentToolSet) !== undefined
  const names = defaultTools.map((name) => (name === 'file_editor' ? chosen : name))
  return [...names, ...(hasSubAgents ? [subAgentToolSet] : [])].map((name) => ({ name }))
}

/** The tools, with the one that chooses a model where the settings switch it on. */
function withRouting(tools: unknown, settings: Readonly<Record<string, unknown>>): unknown {
  const { enable_classify_and_switch_llm_tool: isOn, active_meta_profile, meta_profile } = settings
  if (isOn !== true || !Array.isArray(tools)) return tools
  const place = ['body', 'agent_settings']
  const rule = parseOrThrow(routingSettings, { active_meta_profile, meta_profile }, place)
  if (rule.active_meta_profile === null && rule.meta_profile === null) return tools
  const others = tools.filter((tool) => !isRecord(tool) || tool.name !== routingTool)
  return [...others, { name: routingTool, params: rule }]
}

function condenserFromSettings(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return { kind: 'LLMSummarizingCondenser' }
  const { condenser_kind, enabled, ...members }: Record<string, unknown> = { ...value }
  if (enabled === false || condenser_kind === 'no_op') return { kind: 'NoOpCondenser' }
  return { ...members, kind: 'LLMSummarizingCondenser' }
}

function criticFromSettings(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  const verification: Record<string, unknown> = { ...value }
  const { critic_enabled, critic_server_url, critic_api_key, critic_model_name, critic_mode } = verification
  if (critic_enabled !== true || typeof critic_server_url !== 'string') return undefined
  const refinement = {
    success_threshold: verification.critic_threshold ?? undefined,
    max_iterations: verification.max_refinement_iterations ?? undefined,
  }
  return {
    kind: 'APIBasedCritic',
    server_url: critic_server_url,
    api_key: critic_api_key,
    model_name: critic_model_name,
    mode: critic_mode ?? undefined,
    iterative_refinement: verification.enable_iterative_refinement === true ? refinement : undefined,
  }
}
