import { resolve } from 'node:path'
import {
  type Conversation,
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
  acpState,
  agent as agentSchema,
  agentSettings,
  type HookConfig,
  invalidInput,
  isAcpAgent,
  type LaunchedProfile,
  parseOrThrow,
  readOutputSchema,
  type SecretSource,
  type StartConversationRequest,
  startConversationRequest,
  type WireVersion,
} from '@slipway/protocol'
import { isRecord, mapMembers } from '@slipway/shared/json'
import { findSecretTexts, minSecretLength, Redactor, textForms } from '@slipway/shared/redaction'
import type { ConversationRecord } from '@slipway/storage'
import { redactSecrets } from '../secrets/expose-secrets.ts'

/** Where a conversation and its agent come from. */
export interface ConversationOrigin {
  readonly forked_from_conversation_id?: string | undefined
  readonly forked_from_event_id?: string | undefined
  /** The task that it runs for another conversation, and its depth of nesting. */
  readonly task?: { readonly id: string; readonly subagent: string; readonly depth: number } | undefined
  /** Wire version of its events; `seed` unless passed. */
  readonly wire?: WireVersion | undefined
  /** The profile of the agent, at its revision then. */
  readonly launched_agent_profile?: LaunchedProfile | undefined
}

/**
 * The create request as stored in clear, with names and descriptions of secrets only. Lists parse it for each
 * conversation, so it has only the members that they show.
 */
export type StoredRequest = Partial<
  Omit<ResolvedSettings, 'secrets' | 'initial_message' | 'agent_definitions'>
> &
  ConversationOrigin & {
    readonly secret_sources?: Readonly<Record<string, Record<string, unknown>>>
    readonly has_initial_message?: boolean
  }

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

/** An external agent has tools and a final answer of its own. */
function assertFitsExternalAgent({ client_tools = [], response_schema }: Partial<ResolvedSettings>): void {
  const issue = 'An external agent has none'
  if (client_tools.length > 0) throw invalidInput(['body', 'client_tools'], issue)
  if (response_schema !== undefined) throw invalidInput(['body', 'response_schema'], issue)
}

function assertAgentUsable(agent: Agent, place: string): void {
  if (isAcpAgent(agent) && agent.tools.length > 0)
    throw invalidInput(['body', place, 'tools'], 'An external agent has tools of its own')
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

/** Settings as stored in clear: possible secrets are null or redacted at every depth. */
export function toStoredRequest(settings: ResolvedSettings, origin: ConversationOrigin = {}): StoredRequest {
  const { initial_message, agent_definitions: _, agent, ...rest } = settings
  const { agent_context: context } = agent
  const agentWithoutSkills =
    context === undefined ? agent : { ...agent, agent_context: { ...context, skills: [] } }
  const stored = redactSettings({ ...rest, agent: agentWithoutSkills } as ResolvedSettings, settings, origin) // what is left out is optional
  return initial_message === undefined ? stored : { ...stored, has_initial_message: true }
}

/** The request that began a conversation; empty for an imported one and for none. */
export function readStoredRequest(record: Pick<ConversationRecord, 'request'> | undefined): StoredRequest {
  return JSON.parse(record?.request ?? '{}')
}

/** Whether the conversation has plugins besides the server's. */
export function hasPlugins(record: ConversationRecord): boolean {
  const { plugins = [] } = readStoredRequest(record)
  return plugins.length > 0
}

/** The names of the secrets that the profile of the agent allows; undefined when it allows all. */
export function readSecretNames(record: ConversationRecord): readonly string[] | undefined {
  const { launched_agent_profile: profile } = readStoredRequest(record)
  return profile?.secret_refs ?? undefined
}

export function redactedSkills(settings: ResolvedSettings): readonly unknown[] | undefined {
  return redactSettings(settings, settings, {}).agent?.agent_context?.skills
}

/** What plugins added to the agent, as it is shown: without the secrets of the settings. */
export function displayPluginAdditions(
  settings: ResolvedSettings,
  { skills, hooks }: Conversation['pluginAdditions'],
): { readonly skills: readonly unknown[]; readonly hooks: HookConfig | undefined } {
  const shown = skills.map((skill) => {
    const keywords = [...skill.keywords, ...skill.commands]
    return {
      name: skill.name,
      content: skill.content,
      trigger: keywords.length === 0 ? null : { type: 'keyword', keywords },
      source: skill.file ?? skill.source ?? null,
      description: skill.description ?? null,
      is_agentskills_format: skill.isAgentSkill,
    }
  })
  const redacted = redactValues(redactSecrets({ skills: shown, hooks }, null), secretValues(settings))
  return redacted as { skills: readonly unknown[]; hooks: HookConfig | undefined } // the shape of its input
}

/** `settings`, or a part of them, without the secrets of the `whole`. */
function redactSettings(
  settings: ResolvedSettings,
  whole: ResolvedSettings,
  origin: ConversationOrigin,
): StoredRequest {
  const { secrets = {}, client_tools, agent_state, ...rest } = settings
  // The results have the shape of their input, with null for redacted values.
  const redacted = redactValues(redactSecrets(rest, null), secretValues(whole)) as StoredRequest
  // A schema describes values and holds none: a parameter that is called `token` is no secret.
  return {
    ...redactContextSecrets(redacted, settings),
    client_tools,
    agent_state,
    secret_sources: redactSecretSources(secrets),
    ...origin,
  }
}

/** The secrets of the agent's context are shown like those of the conversation. */
function redactContextSecrets(stored: StoredRequest, { agent }: ResolvedSettings): StoredRequest {
  const secrets = agent.agent_context?.secrets
  const context = stored.agent?.agent_context
  if (secrets === undefined || stored.agent === undefined || context === undefined) return stored
  const redactedContext = { ...context, secrets: redactSecretSources(secrets) }
  return { ...stored, agent: { ...stored.agent, agent_context: redactedContext } as Agent } // null where values stood
}

/** Replaces a value of a secret in other texts. */
const secretMark = '<secret-hidden>'
/** Names whose texts are words of the contract. */
const contractWordMembers = ['kind', 'type', 'role', 'name', 'model', 'usage_id']

function secretValues({ secrets = {}, ...rest }: ResolvedSettings): Redactor {
  const sources = [...Object.values(secrets), ...Object.values(rest.agent.agent_context?.secrets ?? {})]
  const staticValues = sources.map((source) => (source.kind === 'StaticSecret' ? source.value : undefined))
  const foundValues = findSecretTexts(rest).flatMap(({ text, isNamed }) =>
    isNamed || /\d/.test(text) ? [text] : [],
  )
  const redactor = new Redactor({ mark: secretMark, forms: textForms })
  for (const value of [...staticValues, ...foundValues])
    if (value !== undefined && value.length >= minSecretLength) redactor.add(value)
  return redactor
}

function redactValues(value: unknown, values: Redactor, name: string | number = ''): unknown {
  if (typeof value !== 'string')
    return mapMembers(value, (member, name) => redactValues(member, values, name))
  return contractWordMembers.includes(String(name)) ? value : values.redact(value)
}

function redactSecretSources(secrets: Readonly<Record<string, SecretSource>>) {
  return Object.fromEntries(
    Object.entries(secrets).map(([name, source]) => {
      const description = source.description ?? null
      return [
        name,
        source.kind === 'StaticSecret'
          ? { description, value: null, kind: source.kind }
          : { description, url: stripUrlSecrets(source.url), headers: {}, kind: source.kind },
      ]
    }),
  )
}

function stripUrlSecrets(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//')
}

/** Parses stored settings of any version. */
export function parseSettings(text: string): ResolvedSettings {
  return toSettings(JSON.parse(text))
}

/** Parses settings stored in clear; redacted members are left out. */
export function parseStoredRequest(text: string): ResolvedSettings {
  return toSettings(withoutNulls(JSON.parse(text)))
}

function toSettings(value: unknown): ResolvedSettings {
  const request = withoutEmptyMessage(value)
  const { agent, agent_settings: _, agent_profile_id: __, ...rest } = startConversationRequest.parse(request)
  if (agent === undefined) throw new Error('stored settings have no agent')
  const agent_state = acpState.safeParse(Object(value).agent_state).data
  return { ...rest, agent, ...(agent_state && { agent_state }) }
}

/** Earlier versions accepted a first message without content, which a request must not have. */
function withoutEmptyMessage(value: unknown): unknown {
  if (!isRecord(value) || !isRecord(value.initial_message)) return value
  const { content, extended_content } = value.initial_message
  const isEmpty = [content, extended_content].every((parts) => !Array.isArray(parts) || parts.length === 0)
  return isEmpty ? { ...value, initial_message: undefined } : value
}

/** Without the members that are null, at any depth. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]))
}

/** The wire version of the events of a conversation. */
export function readWireVersion(record: Pick<ConversationRecord, 'request'>): WireVersion {
  return readStoredRequest(record).wire ?? 'seed'
}
