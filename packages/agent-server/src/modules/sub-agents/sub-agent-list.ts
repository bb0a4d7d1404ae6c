import { findAgents } from '@slipway/agent'
import type { AgentDefinition, LogFunction, SubAgentInfo } from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'

interface SubAgentQuery {
  readonly project: string | undefined
  /** The user's home directory; undefined leaves the user's agents out. */
  readonly homeDirectory: string | undefined
  readonly isBuiltin: boolean
}

/** Agents of the project, the user and the server; the first of a name counts. Invalid files are logged. */
export async function listSubAgents(query: SubAgentQuery, log: LogFunction): Promise<SubAgentInfo[]> {
  const { agents, issues } = await findAgents(query)
  for (const fault of issues) log('warn', 'an agent was skipped', { fault })
  return agents.map(toSubAgentInfo)
}

function toSubAgentInfo(agent: AgentDefinition): SubAgentInfo {
  const redacted = redact(agent, redactedText) as AgentDefinition // a copy of it
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
