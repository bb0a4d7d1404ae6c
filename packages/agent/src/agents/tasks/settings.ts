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
} from '@slipway/protocol'
import type { Settings } from '../../conversation/state/resolved-settings.ts'
import { isAlwaysOn, type LoadedSkill } from '../../skills/skill.ts'
import { findTool } from '../../tools/registry.ts'
import { taskPolicy } from './policy.ts'

/** Whoever gives a task, as it is now. */
export interface Giver {
  readonly id: string
  readonly settings: Settings
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  /** The hooks that it works with. */
  readonly hooks: HookConfig | undefined
  readonly profile: ((name: string) => Promise<Llm | undefined>) | undefined
  /** The skills that a context asks for. */
  skills(context: AgentContext): Promise<readonly LoadedSkill[]>
}

/** Why an agent cannot work here, in a sentence; undefined when it can. */
export function faultOf({ name, tools }: AgentDefinition): string | undefined {
  const unknown = tools.filter((tool) => findTool(tool) === undefined)
  return unknown.length === 0
    ? undefined
    : `The agent ${name} names tools that this server does not have: ${unknown.join(', ')}`
}

/**
 * What the conversation of a task is started with, or why it cannot be. From whoever gives the task it has the workspace,
 * the secrets, the hooks that watch over tools, what is always told, and at least its confirmation; from the definition its
 * model, tools, prompt, skills, servers and limits. Tasks of its own it can give only when the definition names the tool.
 */
export async function taskSettings(
  giver: Giver,
  definition: AgentDefinition,
  maxTurns: number | undefined,
): Promise<{ readonly settings: Settings } | { readonly fault: string }> {
  const { settings: own } = giver
  const fault = faultOf(definition)
  if (fault !== undefined) return { fault }
  const llm = await modelOf(giver, definition.model)
  if (llm === undefined)
    return {
      fault: `The agent ${definition.name} names an LLM profile that is not there: ${definition.model}`,
    }
  const { policy, analyzer } = taskPolicy(giver, definition.permission_mode)
  const steps = [definition.max_iteration_per_run ?? own.max_iterations, maxTurns ?? Number.POSITIVE_INFINITY]
  const settings: Settings = {
    ...own,
    ...ofTheUser,
    parent_conversation_id: giver.id,
    agent: await agentOf(giver, definition, llm),
    confirmation_policy: policy,
    security_analyzer: analyzer ?? undefined,
    max_iterations: Math.min(...steps),
    secrets: { ...own.agent.agent_context?.secrets, ...own.secrets },
    hook_config: hooksOf(giver.hooks, definition.hooks),
  }
  return { settings }
}

/** What is about one conversation, or about the talk with its user, is not about its tasks. */
const ofTheUser = {
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
} satisfies Partial<Settings>

async function agentOf(giver: Giver, definition: AgentDefinition, llm: Llm): Promise<Agent> {
  const { agent } = giver.settings
  return {
    ...agent,
    llm,
    tools: definition.tools.map((name) => specOf(name, agent.tools)),
    mcp_config: definition.mcp_config ?? {},
    filter_tools_regex: undefined,
    include_default_tools: ['FinishTool', 'ThinkTool'],
    agent_context: await contextOf(giver, definition),
    system_prompt: undefined,
    system_prompt_filename: 'system_prompt.j2',
    condenser: definition.condenser ?? condenser.parse({ kind: 'LLMSummarizingCondenser' }),
    critic: undefined,
  }
}

/** Nobody watches the pieces of its answers. */
async function modelOf({ settings, profile }: Giver, model: string): Promise<Llm | undefined> {
  const llm = model === 'inherit' ? settings.agent.llm : await profile?.(model)
  return llm && { ...llm, stream: false }
}

/** A tool works as it does for whoever gives the task. */
function specOf(name: string, known: readonly ToolSpec[]): ToolSpec {
  const open = findTool(name)
  return { name, params: known.find((spec) => findTool(spec.name) === open)?.params ?? {} }
}

/**
 * What is always told there is told here too, and the skills that the definition names. `disabled_skills` says so to whoever
 * loads them: all others that the same places hold.
 */
async function contextOf(giver: Giver, { skills, system_prompt }: AgentDefinition): Promise<AgentContext> {
  const own = giver.settings.agent.agent_context ?? agentContext.parse({})
  const isAsked = skills.length > 0
  const context: AgentContext = {
    ...own,
    load_project_skills: own.load_project_skills || isAsked,
    load_user_skills: own.load_user_skills || isAsked,
    system_message_suffix: system_prompt === '' ? undefined : system_prompt,
    user_message_suffix: undefined,
    secrets: undefined,
    disabled_skills: [],
  }
  const isTold = (skill: LoadedSkill) =>
    skills.includes(skill.name) ||
    (isAlwaysOn(skill) && isOwn(skill, own) && !own.disabled_skills.includes(skill.name))
  const all = await giver.skills(context)
  // The child loads no plugins: what it is told of theirs is given to it.
  const given = all.filter((skill) => skill.origin === 'plugin' && skills.includes(skill.name)).map(asGiven)
  return {
    ...context,
    skills: [...own.skills, ...given],
    disabled_skills: all.filter((skill) => !isTold(skill)).map(({ name }) => name),
  }
}

function asGiven({ name, content, description, source }: LoadedSkill): Skill {
  const plain = { is_agentskills_format: false, disable_model_invocation: false, trigger: undefined }
  return { name, content, description, source, ...plain }
}

/** Whether whoever gives the task has a skill of this origin. */
function isOwn({ origin }: LoadedSkill, { load_project_skills, load_user_skills }: AgentContext): boolean {
  if (origin === 'project') return load_project_skills
  return origin === 'user' ? load_user_skills : true
}

/** Hooks that watch over tools watch over these too; the others are about the conversation with the user. */
function hooksOf(given: HookConfig | undefined, own: HookConfig | undefined): HookConfig {
  const none = hookConfig.parse({})
  const base = own ?? none
  return {
    ...base,
    pre_tool_use: [...(given ?? none).pre_tool_use, ...base.pre_tool_use],
    post_tool_use: [...(given ?? none).post_tool_use, ...base.post_tool_use],
  }
}
