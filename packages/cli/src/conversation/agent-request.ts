import type { CallInput } from '@slipway/client'
import type { ModelConfig } from '../context/config.ts'

type Create = CallInput<'createConversation'>['body']
type Agent = NonNullable<Create['agent']>

/** A model that is named. */
export type NamedModel = ModelConfig & { readonly name: string }

/** The settings of a model, for a request; the key in clear. */
export function llmOf({ name, baseUrl, apiKey }: NamedModel): Agent['llm'] {
  return {
    model: name,
    usage_id: 'agent',
    ...(baseUrl === undefined ? {} : { base_url: baseUrl }),
    ...(apiKey === undefined ? {} : { api_key: apiKey.open() }),
  }
}

/** The agent that the command line runs: shell, files and a list of tasks, told of the project's own instructions. */
export function agentOf(llm: Agent['llm']): Agent {
  return {
    kind: 'Agent',
    llm,
    tools: ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name })),
    mcp_config: {},
    system_prompt_kwargs: {},
    agent_context: { load_project_skills: true },
    condenser: { kind: 'LLMSummarizingCondenser' },
  }
}

/** Asks before what the model or the rules hold for risky; `isAlways`: before every action. */
export function cautionOf(isAlways: boolean) {
  return {
    confirmation_policy: isAlways
      ? { kind: 'AlwaysConfirm' as const }
      : { kind: 'ConfirmRisky' as const, threshold: 'HIGH' as const, confirm_unknown: false },
    security_analyzer: {
      kind: 'EnsembleSecurityAnalyzer' as const,
      analyzers: [{ kind: 'LLMSecurityAnalyzer' as const }, { kind: 'PatternSecurityAnalyzer' as const }],
    },
  }
}
