import {
  type Agent,
  type AgentContext,
  type AgentDefinition,
  agentContext,
  type ConfirmationPolicy,
  condenser,
  type HookConfig,
  hookConfig,
  type Llm,
  type SecurityAnalyzer,
  type Skill,
  type ToolSpec,
  type UsageLimits,
  workspaceFolder,
} from '@slipway/protocol'
import { instructionsSkill } from '../../skills/load.ts'
import { isAlwaysOn, type LoadedSkill } from '../../skills/skill.ts'
import { findTool } from '../../tools/registry.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import { taskPolicy } from './policy.ts'

export interface TaskParent {
  readonly id: string
  readonly settings: ResolvedSettings
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  readonly hooks: HookConfig | undefined
  /** What is left for a task; undefined without limits. */
  readonly limits?: UsageLimits | undefined
  readonly findProfile: ((name: string) => Promise<Llm | undefined>) | undefined
  /** The skills that a context asks for. */
  skills(context: AgentContext): Promise<readonly LoadedSkill[]>
}

/** Why an agent cannot work here; undefined when it can. */
export function agentIssue({ name, tools }: AgentDefinition): string | undefined {
  const unknown = tools.filter((tool) => findTool(tool) === undefined)
  return unknown.length === 0
    ? undefined
    : `The agent ${name} names tools that this server does not have: ${unknown.join(', ')}`
}

/**
 * The settings of a task's conversation, or why there are none. From its parent: workspace, secrets, tool
 * hooks, always-on skills and at least its confirmation; everything else from the definition.
 */
export async function taskSettings(
  parent: TaskParent,
  definition: AgentDefinition,
  maxTurns: number | undefined,
): Promise<{ readonly settings: ResolvedSettings } | { readonly issue: string }> {
  const { settings: own } = parent
  const issue = agentIssue(definition)
  if (issue !== undefined) return { issue }
  const llm = await taskModel(parent, definition.model)
  if (llm === undefined)
    return {
      issue: `The agent ${definition.name} names an LLM profile that is missing: ${definition.model}`,
    }
  const { policy, analyzer } = taskPolicy(parent, definition.permission_mode)
  const steps = [definition.max_iteration_per_run ?? own.max_iterations, maxTurns ?? Number.POSITIVE_INFINITY]
  const settings: ResolvedSettings = {
    ...own,
    ...parentOnlyMembers,
    parent_conversation_id: parent.id,
    agent: await taskAgent(parent, definition, llm),
    confirmation_policy: policy,
    security_analyzer: analyzer ?? undefined,
    max_iterations: Math.min(...steps),
    limits: parent.limits && { run: { ...parent.limits, steps: undefined }, conversation: undefined },
    secrets: { ...own.agent.agent_context?.secrets, ...own.secrets },
    hook_config: taskHooks(parent.hooks, definition.hooks),
  }
  return { settings }
}

/** Settings of the parent that do not apply to its tasks. */
const parentOnlyMembers = {
  conversation_id: undefined,
  worktree: false,
  initial_message: undefined,
  secrets_encrypted: false,
  client_tools: undefined,
  agent_launch_additions: undefined,
  plugins: undefined,
  tags: undefined,
  autotitle: false,
  title_llm_profile: undefined,
  response_schema: undefined,
} satisfies Partial<ResolvedSettings>

async function taskAgent(parent: TaskParent, definition: AgentDefinition, llm: Llm): Promise<Agent> {
  const { agent } = parent.settings
  return {
    ...agent,
    llm,
    tools: definition.tools.map((name) => taskToolSpec(name, agent.tools)),
    mcp_config: taskServers(definition),
    filter_tools_regex: undefined,
    include_default_tools: ['FinishTool', 'ThinkTool'],
    agent_context: await taskContext(parent, definition),
    system_prompt: undefined,
    system_prompt_filename: 'system_prompt.j2',
    condenser: definition.condenser ?? condenser.parse({ kind: 'LLMSummarizingCondenser' }),
    critic: undefined,
  }
}

/** Servers of a repository are allowed with its files, so they start there. */
function taskServers({ level, mcp_config = {} }: AgentDefinition): Agent['mcp_config'] {
  if (level !== 'project') return mcp_config
  const servers = Object.entries(mcp_config)
  return Object.fromEntries(
    servers.map(([name, server]) => [
      name,
      server.url === undefined ? { ...server, cwd: server.cwd ?? workspaceFolder } : server,
    ]),
  )
}

/** The deltas of a task have no listener. */
async function taskModel({ settings, findProfile }: TaskParent, model: string): Promise<Llm | undefined> {
  const llm = model === 'inherit' ? settings.agent.llm : await findProfile?.(model)
  return llm && { ...llm, stream: false }
}

/** A tool has the parameters that it has in the parent. */
function taskToolSpec(name: string, known: readonly ToolSpec[]): ToolSpec {
  const open = findTool(name)
  return { name, params: known.find((spec) => findTool(spec.name) === open)?.params ?? {} }
}

/** The parent's always-on skills and those that the definition names; disables all others. */
async function taskContext(
  parent: TaskParent,
  { skills, system_prompt }: AgentDefinition,
): Promise<AgentContext> {
  const own = parent.settings.agent.agent_context ?? agentContext.parse({})
  const namesSkills = skills.length > 0
  const context: AgentContext = {
    ...own,
    load_project_skills: own.load_project_skills || namesSkills,
    load_user_skills: own.load_user_skills || namesSkills,
    system_message_suffix: system_prompt === '' ? undefined : system_prompt,
    user_message_suffix: undefined,
    secrets: undefined,
    disabled_skills: [],
  }
  const isIncluded = (skill: LoadedSkill) =>
    skills.includes(skill.name) ||
    (isAlwaysOn(skill) && parentHasOrigin(skill, own) && !own.disabled_skills.includes(skill.name))
  const all = await parent.skills(context)
  // The child loads no plugins, so it gets their skills here.
  const pluginSkills = all
    .filter((skill) => skill.origin === 'plugin' && skills.includes(skill.name))
    .map(toContextSkill)
  return {
    ...context,
    skills: [...own.skills, ...pluginSkills],
    disabled_skills: all.filter((skill) => !isIncluded(skill)).map(({ name }) => name),
  }
}

function toContextSkill({ name, content, description, source }: LoadedSkill): Skill {
  const plain = { is_agentskills_format: false, disable_model_invocation: false, trigger: undefined }
  return { name, content, description, source, ...plain }
}

function parentHasOrigin(
  { name, origin }: LoadedSkill,
  { load_project_skills, load_user_skills }: AgentContext,
): boolean {
  if (origin === 'project') return load_project_skills || name === instructionsSkill
  return origin === 'user' ? load_user_skills : true
}

/** Tool hooks of the parent apply to its tasks; its other hooks concern the conversation with the user. */
function taskHooks(parent = hookConfig.parse({}), own = hookConfig.parse({})): HookConfig {
  return {
    ...own,
    pre_tool_use: [...parent.pre_tool_use, ...own.pre_tool_use],
    post_tool_use: [...parent.post_tool_use, ...own.post_tool_use],
  }
}
