import { type AgentDefinition, type AgentLevel, agentDefinition, validationIssues } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { type FrontMatterBudget, parseFrontMatter } from '../skills/front-matter.ts'
import { normalizeText } from '../skills/skill.ts'

interface AgentFile {
  readonly text: string
  /** The name when the front matter gives none: the file's without its extension. */
  readonly name: string
  readonly level: AgentLevel
  /** The path of the file, for messages. */
  readonly source: string | undefined
}

/** Front matter members of an agent; all others are metadata. */
const members = new Set(Object.keys(agentDefinition.shape)).difference(
  new Set(['level', 'source', 'system_prompt', 'metadata']),
)
/** Other spellings of `mcp_config`. */
const mcpConfigAliases = ['mcp_servers', 'mcpServers']
const example = /<example>([\s\S]*?)<\/example>/g

/** Reads an agent from the text of its file (wire 6.13). An issue is a sentence that begins with a verb. */
export async function parseAgent(
  from: AgentFile,
  budget: FrontMatterBudget,
): Promise<{ readonly agent: AgentDefinition } | { readonly issue: string }> {
  const matter = await parseFrontMatter(normalizeText(from.text), budget)
  if ('issue' in matter) return matter
  const value = { ...candidate(matter.members, from), system_prompt: matter.body.trim() }
  const result = agentDefinition.safeParse(value)
  if (result.success) return { agent: result.data }
  const [first] = validationIssues(result.error, [], value)
  return { issue: `has a bad member ${first?.loc.join('.')}: ${first?.msg}` }
}

function candidate(
  frontMatter: Readonly<Record<string, unknown>>,
  { name, level, source }: AgentFile,
): Record<string, unknown> {
  const entries = Object.entries(frontMatter).map(
    ([key, value]) => [key.replaceAll('-', '_'), value] as const,
  )
  const own = Object.fromEntries(entries.filter(([key]) => members.has(key)))
  const others = entries.filter(
    ([key]) => !members.has(key) && key !== 'metadata' && !mcpConfigAliases.includes(key),
  )
  const servers = entries.find(([key]) => mcpConfigAliases.includes(key))?.[1]
  const { description, when_to_use_examples: examples } = own
  return {
    ...own,
    name: own.name ?? name,
    level,
    source,
    tools: parseList(own.tools),
    skills: parseList(own.skills),
    when_to_use_examples:
      typeof examples === 'string' ? [examples] : (examples ?? extractExamples(description)),
    mcp_config: own.mcp_config ?? servers,
    metadata: {
      ...Object.fromEntries(others),
      ...(isRecord(frontMatter.metadata) ? frontMatter.metadata : {}),
    },
  }
}

/** `terminal, grep` or a list. */
function parseList(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
}

/** Some descriptions contain the examples. */
function extractExamples(description: unknown): string[] {
  if (typeof description !== 'string') return []
  return [...description.matchAll(example)].map(([, text = '']) => text.trim()).filter((text) => text !== '')
}
