import type { CallInput } from '@slipway/client'
import type { AppConversationStartRequest, Llm } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { suggestedTaskMessage } from './suggested-task.ts'

/** What a start needs of the settings of its owner. */
export interface StartSettings {
  readonly git_user_name?: string
  readonly git_user_email?: string
  readonly git_full_clone: boolean
  readonly max_iterations: number
  readonly confirmation_mode: boolean
  readonly security_analyzer: string | null
  readonly sandbox_grouping_strategy: string
  readonly default_sandbox_spec_id?: string
  readonly disabled_skills: readonly string[]
  readonly agent_settings: Readonly<Record<string, unknown>>
}

export type StartSecrets = Readonly<Record<string, { readonly value: Secret; readonly description?: string }>>

type CreateConversationBody = CallInput<'createConversation'>['body']
type Agent = NonNullable<CreateConversationBody['agent']>

const toolsByAgentType = {
  default: ['terminal', 'file_editor', 'task_tracker'],
  plan: ['glob', 'grep', 'planning_file_editor'],
}

/** What the agent server is asked for. Secrets are in clear in it. */
export function createConversationBody(start: {
  readonly id: string
  readonly request: AppConversationStartRequest
  readonly model: Llm
  readonly settings: StartSettings
  readonly secrets: StartSecrets
  readonly workingDir: string
  /** Of the same sandbox. */
  readonly parent: string | undefined
}): CreateConversationBody {
  const { id, request, settings, workingDir, parent } = start
  const initial_message = initialMessage(request)
  const secrets = {
    ...Object.fromEntries(
      Object.entries(start.secrets).map(([name, { value, description }]) => [
        name,
        { kind: 'StaticSecret' as const, value: value.reveal(), ...(description ? { description } : {}) },
      ]),
    ),
    ...request.secrets,
  }
  return {
    conversation_id: id,
    agent: agentConfig(start),
    workspace: { working_dir: workingDir, kind: 'LocalWorkspace' },
    ...confirmationConfig(
      request.confirmation_mode ?? settings.confirmation_mode,
      settings.security_analyzer,
    ),
    max_iterations: request.max_iterations ?? settings.max_iterations,
    secrets,
    ...(parent === undefined ? {} : { parent_conversation_id: parent }),
    ...(initial_message === undefined ? {} : { initial_message }),
    ...(request.tags === undefined ? {} : { tags: request.tags }),
    ...(request.plugins === undefined ? {} : { plugins: request.plugins }),
    autotitle: request.title === undefined,
  }
}

function agentConfig({
  request,
  model,
  settings,
}: {
  readonly request: AppConversationStartRequest
  readonly model: Llm
  readonly settings: StartSettings
}): Agent {
  const { agent_type, system_message_suffix } = request
  const disabled_skills = [...new Set([...settings.disabled_skills, ...(request.disabled_skills ?? [])])]
  return {
    kind: 'Agent',
    llm: { ...model, usage_id: 'agent' },
    tools: toolsByAgentType[agent_type].map((name) => ({ name })),
    mcp_config: toRecord(settings.agent_settings.mcp_config),
    system_prompt_kwargs: {},
    ...(agent_type === 'plan' ? { system_prompt_filename: 'system_prompt_planning.j2' } : {}),
    agent_context: {
      load_project_skills: true,
      load_user_skills: true,
      disabled_skills,
      ...(system_message_suffix === undefined ? {} : { system_message_suffix }),
    },
    condenser: condenserConfig(toRecord(settings.agent_settings.condenser)),
  }
}

/** The condenser of the settings (`{enabled, condenser_kind, max_size, ...}`), made of what the agent server knows of it. */
function condenserConfig(settings: Readonly<Record<string, unknown>>): Agent['condenser'] {
  const { enabled, condenser_kind, max_size, max_tokens, keep_first } = settings
  if (enabled === false || condenser_kind === 'no_op') return { kind: 'NoOpCondenser' }
  const size = typeof max_size === 'number' && Number.isInteger(max_size) && max_size >= 20 ? max_size : 240
  const first = typeof keep_first === 'number' && Number.isInteger(keep_first) ? keep_first : 2
  return {
    kind: 'LLMSummarizingCondenser',
    max_size: size,
    keep_first: first >= 0 && first < size / 2 - 1 ? first : 2,
    ...(typeof max_tokens === 'number' && Number.isInteger(max_tokens) && max_tokens > 0
      ? { max_tokens }
      : {}),
  }
}

/** Wire 8.5: asking is on with an analyzer: for what is risky; without one: always. */
function confirmationConfig(
  isOn: boolean,
  analyzer: string | null,
): Pick<CreateConversationBody, 'confirmation_policy' | 'security_analyzer'> {
  const analyzerKind =
    analyzer === null || !Object.hasOwn(analyzers, analyzer) ? undefined : analyzers[analyzer]
  const security_analyzer = analyzerKind === undefined ? {} : { security_analyzer: { kind: analyzerKind } }
  if (!isOn) return { confirmation_policy: { kind: 'NeverConfirm' }, ...security_analyzer }
  return analyzerKind === undefined
    ? { confirmation_policy: { kind: 'AlwaysConfirm' } }
    : { confirmation_policy: { kind: 'ConfirmRisky' }, ...security_analyzer }
}

const analyzers: Readonly<
  Record<string, 'LLMSecurityAnalyzer' | 'PatternSecurityAnalyzer' | 'PolicyRailSecurityAnalyzer'>
> = {
  llm: 'LLMSecurityAnalyzer',
  pattern: 'PatternSecurityAnalyzer',
  policy_rail: 'PolicyRailSecurityAnalyzer',
}

/** Only users begin: what a caller gives another role is said by the user. A message without content is none. */
function initialMessage(request: AppConversationStartRequest): CreateConversationBody['initial_message'] {
  const { initial_message, suggested_task } = request
  if (suggested_task !== undefined)
    return {
      role: 'user',
      content: [{ type: 'text', text: suggestedTaskMessage(suggested_task) }],
      run: true,
    }
  if (initial_message === undefined || initial_message.content.length === 0) return undefined
  return { role: 'user', content: initial_message.content, run: true }
}

function toRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {}
}
