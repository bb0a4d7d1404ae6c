import { findAgents } from '@slipway/agent'
import type { AgentDefinition, LogFunction, SubAgentInfo } from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'

/** The agents that tasks can be given to. Files are what somebody else wrote: bad ones are passed over and logged. */
export class SubAgentList {
  readonly #homeDirectory: string | undefined
  readonly #log: LogFunction

  constructor(options: { readonly home: string | undefined; readonly log: LogFunction }) {
    this.#homeDirectory = options.home
    this.#log = options.log
  }

  /** Those of the project first, then the user's, then those that come with the server; each name once. */
  async list(query: {
    readonly project: string | undefined
    readonly isUser: boolean
    readonly isBuiltin: boolean
  }): Promise<SubAgentInfo[]> {
    const { project, isUser, isBuiltin } = query
    const { agents, issues } = await findAgents({
      project,
      homeDirectory: isUser ? this.#homeDirectory : undefined,
      isBuiltin,
    })
    for (const fault of issues) this.#log('warn', 'an agent was passed over', { fault })
    return agents.map(toSubAgentInfo)
  }
}

function toSubAgentInfo(agent: AgentDefinition): SubAgentInfo {
  // What stands where a secret may stand is hidden, in servers as in hooks and models of condensers.
  const redacted = redact(agent, '**********') as AgentDefinition // a copy of it
  const mcp_config = redacted.mcp_config ?? null
  return {
    name: agent.name,
    description: agent.description,
    model: agent.model,
    color: agent.color ?? null,
    tools: agent.tools,
    skills: agent.skills,
    system_prompt: agent.system_prompt,
    source: agent.source ?? null,
    level: agent.level ?? null,
    is_builtin: agent.level === 'builtin',
    when_to_use_examples: agent.when_to_use_examples,
    hooks: redacted.hooks ?? null,
    permission_mode: agent.permission_mode ?? null,
    max_iteration_per_run: agent.max_iteration_per_run ?? null,
    max_budget_per_run: agent.max_budget_per_run ?? null,
    mcp_config,
    mcp_servers: mcp_config,
    profile_store_dir: agent.profile_store_dir ?? null,
    condenser: redacted.condenser ?? null,
    metadata: redacted.metadata,
  }
}
