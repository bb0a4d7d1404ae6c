import type { CallInput } from '@slipway/client'
import type { AppConversationStartRequest, Llm, UserSettings } from '@slipway/protocol'
import { definedMembers, isRecord } from '@slipway/shared/json'
import type { AccountSecrets } from '../accounts/accounts.ts'
import type { SharedSettings } from '../organizations/organizations.ts'
import type { ConversationMarketplace } from './marketplaces.ts'
import { suggestedTaskMessage } from './suggested-task.ts'

type CreateConversationBody = CallInput<'createConversation'>['body']
type Agent = NonNullable<CreateConversationBody['agent']>

const toolsByAgentType = {
  default: ['terminal', 'file_editor', 'task_tracker'],
  plan: ['glob', 'grep', 'planning_file_editor'],
}

export interface ConversationSettings {
  readonly id: string
  readonly request: AppConversationStartRequest
  readonly model: Llm
  readonly settings: UserSettings
  readonly shared: Pick<SharedSettings, 'mcpServers'>
  readonly secrets: AccountSecrets
  readonly marketplaces: readonly ConversationMarketplace[]
  readonly workingDir: string
  /** In the same sandbox. */
  readonly parent: string | undefined
}

/** The request to the agent server, with secrets in clear. */
export function createConversationBody(start: ConversationSettings): CreateConversationBody {
  const { id, request, workingDir, parent } = start
  const settings = start.settings.conversation_settings
  const initial_message = initialMessage(request)
  const { tags, plugins } = request
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
    ...definedMembers({ parent_conversation_id: parent, initial_message, tags, plugins }),
    ...(request.repository_scripts === 'deny' && { repository_consent: 'deny' as const }),
    autotitle: request.title === undefined,
  }
}

function agentConfig({ request, model, settings, shared, marketplaces }: ConversationSettings): Agent {
  const { agent_type, system_message_suffix } = request
  const disabled_skills = [
    ...new Set([...(settings.disabled_skills ?? []), ...(request.disabled_skills ?? [])]),
  ]
  return {
    kind: 'Agent',
    llm: { ...model, usage_id: 'agent' },
    tools: toolsByAgentType[agent_type].map((name) => ({ name })),
    mcp_config: { ...shared.mcpServers, ...ownServers(settings.agent_settings.mcp_config) },
    system_prompt_kwargs: {},
    ...(agent_type === 'plan' ? { system_prompt_filename: 'system_prompt_planning.j2' } : {}),
    agent_context: {
      load_project_skills: true,
      load_user_skills: true,
      disabled_skills,
      registered_marketplaces: [...marketplaces],
      ...(system_message_suffix === undefined ? {} : { system_message_suffix }),
    },
    condenser: condenserConfig(toRecord(settings.agent_settings.condenser)),
  }
}

/** Also of the older form. */
function ownServers(config: unknown): Readonly<Record<string, unknown>> {
  const servers = toRecord(config)
  return 'mcpServers' in servers ? toRecord(servers.mcpServers) : servers
}

/** The condenser of the settings (`{enabled, condenser_kind, ...}`) in the form of the agent server. */
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

/** Wire 8.5: confirmation is for risky actions when there is an analyzer, otherwise for all. */
function confirmationConfig(
  isOn: boolean,
  analyzer: 'llm' | 'none' | null,
): Pick<CreateConversationBody, 'confirmation_policy' | 'security_analyzer'> {
  const kind = !isOn ? 'NeverConfirm' : analyzer === 'llm' ? 'ConfirmRisky' : 'AlwaysConfirm'
  return {
    confirmation_policy: { kind },
    ...(analyzer === 'llm' ? { security_analyzer: { kind: 'LLMSecurityAnalyzer' } } : {}),
  }
}

/** Always a message of the user, whatever the role of the request; undefined without content. */
export function initialMessage(
  request: AppConversationStartRequest,
): CreateConversationBody['initial_message'] {
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
  return isRecord(value) ? value : {}
}
