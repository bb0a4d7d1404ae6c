import type { CallInput } from '@slipway/client'
import type { ModelConfig } from '../context/config.ts'
import { confirmationPolicies } from './confirmation-policies.ts'

type CreateRequest = CallInput<'createConversation'>['body']
type Agent = Exclude<NonNullable<CreateRequest['agent']>, { readonly kind: 'ACPAgent' }>

/** A model that is named. */
export type SelectedModel = ModelConfig & { readonly name: string }

/** The settings of a model, for a request; the key in clear. */
export function buildLlm({ name, baseUrl, apiKey }: SelectedModel): Agent['llm'] {
  return { model: name, usage_id: 'agent', base_url: baseUrl, api_key: apiKey?.reveal() }
}

/** The agent of the command line: shell, files, a task list, MCP servers, and the skills of the project. */
export function buildAgent(llm: Agent['llm'], mcpServers: Agent['mcp_config'] = {}): Agent {
  return {
    kind: 'Agent',
    llm,
    tools: ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name })),
    mcp_config: mcpServers,
    agent_context: { load_project_skills: true },
    condenser: { kind: 'LLMSummarizingCondenser' },
  }
}

/** Confirmation of risky actions; of every action with `isAlways`. */
export function buildConfirmationSettings(isAlways: boolean) {
  return {
    confirmation_policy: confirmationPolicies[isAlways ? 'always' : 'risky'],
    security_analyzer: {
      kind: 'EnsembleSecurityAnalyzer' as const,
      analyzers: [{ kind: 'LLMSecurityAnalyzer' as const }, { kind: 'PatternSecurityAnalyzer' as const }],
    },
  }
}
