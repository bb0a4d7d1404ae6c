import { type Agent, agentContext, type Skill } from '@slipway/protocol'
import { isAlwaysOn, type LoadedSkill } from '../skills/skill.ts'
import { mergeServers } from './extensions.ts'
import type { Plugin } from './plugin.ts'

/** Total length of skill contents; skills above it are shown without content. */
const maxContentChars = 64 * 1024

/** An agent with the MCP servers and skills of its plugins. The caller redacts secrets. */
export function addPluginsToAgent(agent: Agent, plugins: readonly Plugin[]): Agent {
  const context = agent.agent_context ?? agentContext.parse({})
  const names = new Set(context.skills.map(({ name }) => name))
  let remainingChars = maxContentChars
  const skills: Skill[] = []
  for (const skill of plugins.flatMap((plugin) => plugin.skills)) {
    if (names.has(skill.name)) continue
    names.add(skill.name)
    const content = skill.content.length > remainingChars ? '' : skill.content
    remainingChars -= content.length
    skills.push(toRequestSkill(skill, content))
  }
  return {
    ...agent,
    kind: 'Agent',
    mcp_config: mergeServers(agent.mcp_config, plugins),
    agent_context: { ...context, skills: [...context.skills, ...skills] },
  }
}

function toRequestSkill(skill: LoadedSkill, content: string): Skill {
  const { name, file, description, isAgentSkill, isModelInvocable } = skill
  return {
    name,
    content,
    trigger: toTrigger(skill),
    source: file,
    description,
    is_agentskills_format: isAgentSkill,
    disable_model_invocation: !isModelInvocable,
  }
}

function toTrigger(skill: LoadedSkill): Skill['trigger'] {
  const { keywords, commands, paths } = skill
  if (isAlwaysOn(skill)) return undefined
  if (commands.length > 0) return { type: 'task', triggers: [...commands] }
  if (keywords.length > 0) return { type: 'keyword', keywords: [...keywords] }
  return paths.length > 0 ? { type: 'path', paths: [...paths] } : undefined
}
