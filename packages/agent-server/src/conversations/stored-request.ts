import { resolve } from 'node:path'
import { findTool, readSource, type Settings, toolNames } from '@slipway/agent'
import {
  type Agent,
  agent as agentSchema,
  invalid,
  type SecretSource,
  type StartConversationRequest,
  secretTexts,
  startConversationRequest,
  validated,
  type Wire,
} from '@slipway/protocol'
import { masked } from '../secrets/expose-secrets.ts'

/** Where a conversation and its agent come from. */
export interface Origin {
  readonly forked_from_conversation_id?: string
  readonly forked_from_event_id?: string
  /** The task that it does for another conversation, and how deep in tasks of tasks it is. */
  readonly task?: { readonly id: string; readonly subagent: string; readonly depth: number }
  /** Which members and kinds its events have; `seed` unless given. */
  readonly wire?: Wire
  /** The profile that the agent was made from, as it was then. */
  readonly launched_agent_profile?: { readonly agent_profile_id: string; readonly revision: number }
}

/**
 * What a create request says, as far as it is kept in clear: of secrets only their names and descriptions. It is read for each
 * conversation of a list, so what no list shows is not in it.
 */
export type KeptRequest = Partial<Omit<Settings, 'secrets' | 'initial_message' | 'agent_definitions'>> &
  Origin & {
    readonly secret_sources?: Readonly<Record<string, Record<string, unknown>>>
    readonly has_initial_message?: boolean
  }

/** The tools of an agent that is given by its settings and names none (wire 8.5). */
const defaultTools = ['terminal', 'file_editor', 'task_tracker']
const subAgents = 'task_tool_set'

/**
 * What a conversation is started with: the request with its agent resolved and its working directory absolute; `place` is the member
 * that the agent comes from. A Problem `invalid` names what this server cannot do.
 */
export function settingsOf(request: Omit<StartConversationRequest, 'agent_profile_id'>): {
  readonly settings: Settings
  readonly place: 'agent' | 'agent_settings'
} {
  const { agent: given, agent_settings, ...rest } = request
  const agent = given ?? agentOf(agent_settings ?? {})
  const place = given === undefined ? 'agent_settings' : 'agent'
  mustBeUsable(agent, place)
  for (const [index, { name }] of (rest.client_tools ?? []).entries()) {
    if (findTool(name) === undefined) continue
    throw invalid(['body', 'client_tools', index, 'name'], `The server has a tool '${name}' of its own`)
  }
  for (const [index, plugin] of (rest.plugins ?? []).entries()) {
    const source = readSource(plugin)
    if ('fault' in source) throw invalid(['body', 'plugins', index, source.member], source.fault)
  }
  const working_dir = resolve(rest.workspace.working_dir)
  const workspace = { ...rest.workspace, working_dir, kind: 'LocalWorkspace' }
  return { settings: { ...rest, agent, workspace }, place }
}

function mustBeUsable(agent: Agent, place: string): void {
  for (const [index, { name }] of agent.tools.entries()) {
    if (findTool(name) !== undefined) continue
    const known = toolNames().join(', ')
    throw invalid(['body', place, 'tools', index, 'name'], `Unknown tool '${name}'. Known tools: ${known}`)
  }
  for (const [index, name] of agent.include_default_tools.entries()) {
    if (findTool(name) !== undefined) continue
    throw invalid(['body', place, 'include_default_tools', index], `Unknown tool '${name}'`)
  }
  if (agent.filter_tools_regex === undefined) return
  try {
    new RegExp(agent.filter_tools_regex)
  } catch {
    throw invalid(['body', place, 'filter_tools_regex'], 'It is not a regular expression')
  }
}

/** The agent that settings describe (wire 8.5). */
function agentOf(settings: Readonly<Record<string, unknown>>): Agent {
  if (settings.agent_kind === 'acp') {
    throw invalid(['body', 'agent_settings', 'agent_kind'], 'This server runs no agents of kind acp')
  }
  const { llm, tools, mcp_config, agent_context, tool_concurrency_limit } = settings
  const agent = {
    kind: 'Agent',
    llm,
    tools: tools ?? toolsOf(settings.enable_sub_agents === true),
    mcp_config,
    agent_context,
    tool_concurrency_limit: tool_concurrency_limit ?? undefined,
    condenser: condenserOf(settings.condenser),
    critic: criticOf(settings.verification),
  }
  return validated(agentSchema, agent, ['body', 'agent_settings'], 'The settings describe no agent')
}

/** What delegates to agents of its own is there where the server has it. */
function toolsOf(hasSubAgents: boolean): readonly { readonly name: string }[] {
  const names =
    hasSubAgents && findTool(subAgents) !== undefined ? [...defaultTools, subAgents] : defaultTools
  return names.map((name) => ({ name }))
}

function condenserOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return { kind: 'LLMSummarizingCondenser' }
  const { condenser_kind, enabled, ...members }: Record<string, unknown> = { ...value }
  if (enabled === false || condenser_kind === 'no_op') return { kind: 'NoOpCondenser' }
  return { ...members, kind: 'LLMSummarizingCondenser' }
}

function criticOf(value: unknown): unknown {
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

/** The settings as they are kept in clear: what could be a secret is null or hidden, wherever it stands. */
export function keptRequest(settings: Settings, origin: Origin = {}): KeptRequest {
  const { initial_message, agent_definitions: _, agent, ...rest } = settings
  const { agent_context: context } = agent
  const small = context === undefined ? agent : { ...agent, agent_context: { ...context, skills: [] } }
  const kept = hidden({ ...rest, agent: small } as Settings, settings, origin) // what is left out is optional
  return initial_message === undefined ? kept : { ...kept, has_initial_message: true }
}

/** The skills that the agent was given, as they may be shown. */
export function shownSkills(settings: Settings): unknown {
  return hidden(settings, settings, {}).agent?.agent_context?.skills
}

/** `settings`, or a part of them, without what is a secret of the `whole`. */
function hidden(settings: Settings, whole: Settings, origin: Origin): KeptRequest {
  const { secrets = {}, client_tools, ...rest } = settings
  // What these answer has the shape of what they were given, with null for what they hide.
  const kept = withoutValues(masked(rest, null), valuesOf(whole)) as KeptRequest
  // A schema describes values and holds none: a parameter that is called `token` is no secret.
  return { ...withSources(kept, settings), client_tools, secret_sources: sourcesOf(secrets), ...origin }
}

/** The secrets of the agent's context are shown like those of the conversation. */
function withSources(kept: KeptRequest, { agent }: Settings): KeptRequest {
  const secrets = agent.agent_context?.secrets
  const context = kept.agent?.agent_context
  if (secrets === undefined || kept.agent === undefined || context === undefined) return kept
  const shown = { ...context, secrets: sourcesOf(secrets) }
  return { ...kept, agent: { ...kept.agent, agent_context: shown } as Agent } // null where values stood
}

/** Shorter ones would be words of other texts too. */
const minLength = 8
/** Names whose texts are words of the contract. */
const wordNames = ['kind', 'type', 'role', 'name', 'model', 'usage_id']

function valuesOf({ secrets = {}, ...rest }: Settings): RegExp | undefined {
  const sources = [...Object.values(secrets), ...Object.values(rest.agent.agent_context?.secrets ?? {})]
  const given = sources.map((source) => (source.kind === 'StaticSecret' ? source.value : undefined))
  const named = secretTexts(rest).flatMap(({ text, isNamed }) => (isNamed || /\d/.test(text) ? [text] : []))
  const all = [...new Set([...given, ...named])].filter((value) => value !== undefined)
  const values = all.filter((value) => value.length >= minLength).sort((a, b) => b.length - a.length)
  return values.length === 0 ? undefined : new RegExp(values.map(RegExp.escape).join('|'), 'g')
}

function withoutValues(value: unknown, values: RegExp | undefined): unknown {
  if (typeof value === 'string') {
    return values === undefined ? value : value.replace(values, '<secret-hidden>')
  }
  if (Array.isArray(value)) return value.map((item) => withoutValues(item, values))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === 'string' && wordNames.includes(name) ? member : withoutValues(member, values),
    ]),
  )
}

function sourcesOf(secrets: Readonly<Record<string, SecretSource>>) {
  return Object.fromEntries(
    Object.entries(secrets).map(([name, source]) => {
      const description = source.description ?? null
      return [
        name,
        source.kind === 'StaticSecret'
          ? { description, value: null, kind: source.kind }
          : { description, url: withoutQuery(source.url), headers: {}, kind: source.kind },
      ]
    }),
  )
}

/** An address without what could be a key in it. */
function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//')
}

/** The settings as they were written, in the present shape. */
export function readSettings(text: string): Settings {
  return parsed(JSON.parse(text))
}

/** The settings as they were kept in clear: without what is hidden there. */
export function readKept(text: string): Settings {
  return parsed(withoutNulls(JSON.parse(text)))
}

function parsed(value: unknown): Settings {
  const { agent, agent_settings: _, agent_profile_id: __, ...rest } = startConversationRequest.parse(value)
  if (agent === undefined) throw new Error('kept settings have no agent')
  return { ...rest, agent }
}

/** Without the members that are null, at any depth. */
export function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]))
}

/** Which members and kinds the events of a conversation have. */
export function wireOf({ request }: { readonly request: string | null }): Wire {
  const kept: KeptRequest = JSON.parse(request ?? '{}')
  return kept.wire ?? 'seed'
}
