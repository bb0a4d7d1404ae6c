import { isRecord } from '@slipway/shared/json'
import * as z from 'zod'
import { acceptsText } from '../../core/message.ts'
import {
  component,
  jsonObject,
  looseComponent,
  nullAsUndefined,
  trueByDefault,
  withDefault,
} from '../../core/schemas.ts'
import { marketplaceRegistration } from '../extensions/extension.ts'
import { llm } from '../llm/llm.ts'
import { acpAgentMembers, acpUsageId } from './acp-agent.ts'

/** A tool that an agent may use: its registry name (`terminal`) and parameters of its own. */
export const toolSpec = component('ToolSpec', {
  name: z.string(),
  params: withDefault(jsonObject, {}),
})
export type ToolSpec = z.output<typeof toolSpec>

/** Confirmation policies (wire). Without an answer within `deadline_seconds` the actions are rejected. */
const deadlineSeconds = nullAsUndefined(z.number().positive())
export const confirmationPolicy = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('NeverConfirm') }),
    z.object({ kind: z.literal('AlwaysConfirm'), deadline_seconds: deadlineSeconds }),
    z.object({
      kind: z.literal('ConfirmRisky'),
      threshold: withDefault(z.enum(['LOW', 'MEDIUM', 'HIGH']), 'HIGH'),
      confirm_unknown: trueByDefault,
      deadline_seconds: deadlineSeconds,
    }),
  ])
  .meta({ id: 'ConfirmationPolicy' })
export type ConfirmationPolicy = z.output<typeof confirmationPolicy>

const singleAnalyzer = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('LLMSecurityAnalyzer') }),
  z.looseObject({ kind: z.literal('PatternSecurityAnalyzer') }),
  z.looseObject({ kind: z.literal('PolicyRailSecurityAnalyzer') }),
])
export const securityAnalyzer = z
  .discriminatedUnion('kind', [
    ...singleAnalyzer.options,
    z.object({
      kind: z.literal('EnsembleSecurityAnalyzer'),
      analyzers: z.array(singleAnalyzer).min(1),
      propagate_unknown: withDefault(z.boolean(), false),
    }),
  ])
  .meta({ id: 'SecurityAnalyzer' })
export type SecurityAnalyzer = z.output<typeof securityAnalyzer>

/** A condensation leaves less than half of `max_size`. */
export function fitsKeepFirst(condenser: {
  readonly keep_first: number
  readonly max_size: number
}): boolean {
  return condenser.keep_first < condenser.max_size / 2 - 1
}
export const keepFirstIssue = {
  message: 'keep_first must be less than max_size / 2 - 1',
  path: ['keep_first'],
}

const noOpCondenser = z.object({ kind: z.literal('NoOpCondenser') })
const summarizingCondenser = z
  .object({
    kind: z.literal('LLMSummarizingCondenser'),
    llm: nullAsUndefined(llm),
    max_size: withDefault(z.int().min(1), 240),
    max_tokens: nullAsUndefined(z.int().min(1)),
    keep_first: withDefault(z.int().min(0), 2),
    minimum_progress: withDefault(z.number().min(0).max(1), 0.1),
    hard_context_reset_max_retries: withDefault(z.int().min(0), 5),
    hard_context_reset_context_scaling: withDefault(z.number().gt(0).lt(1), 0.8),
  })
  .refine(fitsKeepFirst, keepFirstIssue)
/** Condensers; sizes in events and tokens. Without `llm` the agent's own model summarizes. */
export const condenser = z
  .discriminatedUnion('kind', [
    noOpCondenser,
    summarizingCondenser,
    z.object({
      kind: z.literal('PipelineCondenser'),
      condensers: z.array(z.discriminatedUnion('kind', [noOpCondenser, summarizingCondenser])),
    }),
  ])
  .meta({ id: 'Condenser' })
export type Condenser = z.output<typeof condenser>
export type SummarizingCondenser = z.output<typeof summarizingCondenser>

const criticMembers = {
  mode: withDefault(z.enum(['finish_and_message', 'all_actions']), 'finish_and_message'),
  iterative_refinement: nullAsUndefined(
    z.object({
      success_threshold: withDefault(z.number().min(0).max(1), 0.6),
      max_iterations: withDefault(z.int().min(1), 3),
    }),
  ),
}
export const critic = z
  .discriminatedUnion('kind', [
    z.looseObject({ kind: z.literal('PassCritic'), ...criticMembers }),
    z.looseObject({ kind: z.literal('AgentFinishedCritic'), ...criticMembers }),
    z.looseObject({ kind: z.literal('EmptyPatchCritic'), ...criticMembers }),
    z.looseObject({
      kind: z.literal('APIBasedCritic'),
      server_url: z.string(),
      api_key: nullAsUndefined(z.string()),
      model_name: nullAsUndefined(z.string()),
      timeout: withDefault(z.number().positive(), 300),
      ...criticMembers,
    }),
  ])
  .meta({ id: 'Critic' })
export type Critic = z.output<typeof critic>

/** One MCP server: a command with stdio, or a URL. */
export const mcpServer = z
  .looseObject({
    command: nullAsUndefined(z.string()),
    args: nullAsUndefined(z.array(z.string())),
    env: nullAsUndefined(z.record(z.string(), z.string())),
    cwd: nullAsUndefined(z.string()),
    url: nullAsUndefined(z.string()),
    headers: nullAsUndefined(z.record(z.string(), z.string())),
    auth: nullAsUndefined(z.unknown()),
    transport: nullAsUndefined(z.string()),
    timeout: nullAsUndefined(z.number().positive()),
    disabled: nullAsUndefined(z.boolean()),
    required: nullAsUndefined(z.boolean()).meta({
      description: 'A run fails when the server cannot be reached; otherwise it continues without its tools.',
    }),
    read_only: nullAsUndefined(z.boolean()).meta({
      description:
        'Whether the tools of the server change nothing, whatever they say themselves: then their calls run at the same time.',
    }),
  })
  .refine(({ command, url }) => (command === undefined) !== (url === undefined), {
    message: 'Exactly one of command and url is required',
  })
  .meta({ id: 'MCPServer' })
export type McpServer = z.output<typeof mcpServer>

/** Servers by name; also accepts the older form with an outer `mcpServers`. */
export const mcpServers = z.preprocess(
  (value) => {
    if (value === null || value === undefined) return {}
    if (typeof value === 'object' && 'mcpServers' in value) return value.mcpServers
    return value
  },
  z.record(z.string(), mcpServer),
)
/** The same; absent, there are none. */
export const mcpConfig = mcpServers.prefault({})

/** A secret: its value, or a URL that returns it. A string is a value. */
export const secretSource = z
  .preprocess(
    (value) => {
      if (typeof value === 'string') return { kind: 'StaticSecret', value }
      if (!isRecord(value) || 'kind' in value) return value
      return { kind: 'url' in value ? 'LookupSecret' : 'StaticSecret', ...value }
    },
    z.discriminatedUnion('kind', [
      z.object({
        kind: z.literal('StaticSecret'),
        value: nullAsUndefined(z.string()),
        description: nullAsUndefined(z.string()),
      }),
      z.object({
        kind: z.literal('LookupSecret'),
        url: z.string(),
        headers: withDefault(z.record(z.string(), z.string()), {}),
        description: nullAsUndefined(z.string()),
      }),
    ]),
  )
  .meta({ id: 'SecretSource', ...acceptsText })
export type SecretSource = z.output<typeof secretSource>

const hookDefinition = z.strictObject({
  type: withDefault(z.enum(['command', 'prompt', 'agent']), 'command'),
  name: nullAsUndefined(z.string()),
  command: withDefault(z.string(), ''),
  prompt: nullAsUndefined(z.string()),
  system_prompt: nullAsUndefined(z.string()),
  tools: withDefault(z.array(z.string()), []),
  max_iterations: withDefault(z.int().min(1), 3),
  timeout: withDefault(z.number().positive(), 60).meta({ description: 'Seconds.' }),
  async: withDefault(z.boolean(), false),
  async_: nullAsUndefined(z.boolean()),
  on_error: nullAsUndefined(z.enum(['allow', 'block'])).meta({
    description:
      'What a hook of pre_tool_use or user_prompt_submit decides when it cannot run, exceeds its timeout, or ends with another exit code than 0 and 2. Without it: allow.',
  }),
})
const hookMatchers = z
  .array(z.strictObject({ matcher: z.string().default('*'), hooks: z.array(hookDefinition).default([]) }))
  .default([])
export const hookEvents = [
  'pre_tool_use',
  'post_tool_use',
  'user_prompt_submit',
  'session_start',
  'session_end',
  'stop',
] as const
export type HookEvent = (typeof hookEvents)[number]

/** Hooks by event. Also accepts names in Pascal case and an outer `hooks`. */
export const hookConfig = z
  .preprocess(
    normalizeHookConfig,
    z.strictObject({
      pre_tool_use: hookMatchers,
      post_tool_use: hookMatchers,
      user_prompt_submit: hookMatchers,
      session_start: hookMatchers,
      session_end: hookMatchers,
      stop: hookMatchers,
    }),
  )
  .meta({ id: 'HookConfig' })
export type HookConfig = z.output<typeof hookConfig>

function normalizeHookConfig(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  if ('hooks' in value && typeof value.hooks === 'object') return normalizeHookConfig(value.hooks)
  const entries = Object.entries(value).map(
    ([name, matchers]) => [name.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase(), matchers] as const,
  )
  // With both spellings of an event one would be lost: the other one is refused.
  return new Set(entries.map(([name]) => name)).size < entries.length ? value : Object.fromEntries(entries)
}

const trigger = z.discriminatedUnion('type', [
  z.object({ type: z.literal('keyword'), keywords: z.array(z.string()) }),
  z.object({ type: z.literal('task'), triggers: z.array(z.string()) }),
  z.object({ type: z.literal('path'), paths: z.array(z.string()) }),
])

/** A skill. Without a trigger, and not in AgentSkills form, it is always active. */
export const skill = looseComponent('Skill', {
  name: z.string(),
  content: z.string(),
  trigger: nullAsUndefined(trigger),
  source: nullAsUndefined(z.string()),
  description: nullAsUndefined(z.string()),
  is_agentskills_format: withDefault(z.boolean(), false),
  disable_model_invocation: withDefault(z.boolean(), false),
})
export type Skill = z.output<typeof skill>

export const agentContext = looseComponent('AgentContext', {
  skills: withDefault(z.array(skill), []),
  system_message_suffix: nullAsUndefined(z.string()),
  user_message_suffix: nullAsUndefined(z.string()),
  load_user_skills: withDefault(z.boolean(), false),
  load_public_skills: withDefault(z.boolean(), false),
  marketplace_path: nullAsUndefined(z.string()),
  registered_marketplaces: withDefault(z.array(marketplaceRegistration).max(50), []),
  load_project_skills: withDefault(z.boolean(), false),
  disabled_skills: withDefault(z.array(z.string()), []),
  secrets: nullAsUndefined(z.record(z.string(), secretSource)),
  current_datetime: nullAsUndefined(z.string()),
})
export type AgentContext = z.output<typeof agentContext>

const ownAgent = looseComponent('Agent', {
  kind: z.literal('Agent').optional(),
  llm,
  tools: withDefault(z.array(toolSpec), []),
  mcp_config: mcpConfig,
  filter_tools_regex: nullAsUndefined(z.string()),
  include_default_tools: withDefault(z.array(z.string()), ['FinishTool', 'ThinkTool']),
  agent_context: nullAsUndefined(agentContext),
  system_prompt: nullAsUndefined(z.string()),
  system_prompt_filename: withDefault(z.string(), 'system_prompt.j2'),
  system_prompt_kwargs: withDefault(jsonObject, {}),
  condenser: nullAsUndefined(condenser),
  critic: nullAsUndefined(critic),
  tool_concurrency_limit: withDefault(z.int().min(1), 1),
})

const { llm: _, tools: __, include_default_tools: ___, ...commonMembers } = ownAgent.shape
/**
 * An external agent: a program that speaks the Agent Client Protocol and asks models on its own. Times are
 * seconds. `llm` only names its model in the usage.
 */
export const acpAgent = looseComponent('ACPAgent', {
  ...commonMembers,
  kind: z.literal('ACPAgent'),
  llm: withDefault(llm, llm.parse({ model: acpUsageId, usage_id: acpUsageId })),
  tools: withDefault(z.array(toolSpec), []),
  include_default_tools: withDefault(z.array(z.string()), []),
  ...acpAgentMembers,
})
export type AcpAgent = z.output<typeof acpAgent>

/** The agent of a conversation (wire: agent object). Unknown members stay. */
export const agent = z.discriminatedUnion('kind', [ownAgent, acpAgent])
export type Agent = z.output<typeof agent>

/** Whether an agent is an external program. */
export function isAcpAgent(value: Agent): value is AcpAgent {
  return value.kind === 'ACPAgent'
}
