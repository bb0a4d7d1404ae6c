import { type AgentDefinition, type AgentLevel, agentDefinition, faultsOf } from '@slipway/protocol'
import { readFrontMatter } from '../skills/front-matter.ts'
import { clean } from '../skills/skill.ts'

/** What an agent is read from. */
export interface AgentText {
  readonly text: string
  /** The name when the front matter gives none: the file's without its extension. */
  readonly name: string
  readonly level: AgentLevel
  /** For people: the path of its file. */
  readonly source: string | undefined
}

/** Members of front matter that are members of an agent; everything else is metadata. */
const members = new Set([
  'name',
  'description',
  'model',
  'color',
  'tools',
  'skills',
  'when_to_use_examples',
  'hooks',
  'permission_mode',
  'max_iteration_per_run',
  'max_budget_per_run',
  'mcp_config',
  'profile_store_dir',
  'condenser',
])
/** Other spellings of `mcp_config` that are about. */
const serverNames = ['mcp_servers', 'mcpServers']
const example = /<example>([\s\S]*?)<\/example>/g

/**
 * Reads an agent from the text of its file (wire 6.13): YAML front matter, and below it the system prompt. Lists may be
 * texts with commas. Never throws: what is wrong is a sentence that begins with a verb.
 */
export async function parseAgent(
  from: AgentText,
): Promise<{ readonly agent: AgentDefinition } | { readonly fault: string }> {
  const matter = await readFrontMatter(clean(from.text))
  if ('fault' in matter) return matter
  const value = { ...candidate(matter.members, from), system_prompt: matter.body.trim() }
  const result = agentDefinition.safeParse(value)
  if (result.success) return { agent: result.data }
  const [first] = faultsOf(result.error, [], value)
  return { fault: `has a bad member ${first?.loc.join('.')}: ${first?.msg}` }
}

function candidate(
  given: Readonly<Record<string, unknown>>,
  { name, level, source }: AgentText,
): Record<string, unknown> {
  const entries = Object.entries(given).map(([key, value]) => [key.replaceAll('-', '_'), value] as const)
  const own = Object.fromEntries(entries.filter(([key]) => members.has(key)))
  const others = entries.filter(
    ([key]) => !members.has(key) && key !== 'metadata' && !serverNames.includes(key),
  )
  const servers = entries.find(([key]) => serverNames.includes(key))?.[1]
  const { description, when_to_use_examples: examples } = own
  return {
    ...own,
    name: own.name ?? name,
    level,
    source,
    tools: listOf(own.tools),
    skills: listOf(own.skills),
    when_to_use_examples: typeof examples === 'string' ? [examples] : (examples ?? examplesIn(description)),
    mcp_config: own.mcp_config ?? servers,
    metadata: { ...Object.fromEntries(others), ...objectOf(given.metadata) },
  }
}

/** `terminal, grep` or a list. */
function listOf(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

/** Some agents bring their examples in their description. */
function examplesIn(description: unknown): string[] {
  if (typeof description !== 'string') return []
  return [...description.matchAll(example)].map(([, text = '']) => text.trim()).filter((text) => text !== '')
}

function objectOf(value: unknown): object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}
