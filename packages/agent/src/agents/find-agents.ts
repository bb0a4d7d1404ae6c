import { realpath } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import type { AgentDefinition, AgentLevel } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { FrontMatterBudget } from '../skills/front-matter.ts'
import { readSmallFile } from '../skills/small-file.ts'
import { isMarkdownFile, listFolder } from '../skills/walk.ts'
import { parseAgent } from './parse-agent.ts'

const maxBytes = 256 * 1024
const maxEntries = 2_000
const maxAgents = 200
/** Directories of agents in a workspace or home directory; the first wins when names clash. */
const agentDirectories = ['.agents/agents', '.openhands/agents'] as const
const builtinNames = ['general-purpose', 'code-explorer', 'bash-runner', 'web-researcher'] as const

export interface FindAgentsOptions {
  readonly project?: string | undefined
  readonly homeDirectory?: string | undefined
  readonly plugins?: readonly string[]
  readonly isBuiltin?: boolean
}

export interface FoundAgents {
  /** Each name once. */
  readonly agents: readonly AgentDefinition[]
  /** A sentence for each file that was skipped. */
  readonly issues: readonly string[]
}

/**
 * The agents of a directory: its Markdown files, without subdirectories, by name; empty when it is missing.
 * Links may not leave `within` (default: the directory). Skips and reports invalid files. Never rejects.
 */
export async function readAgentDefinitions(
  directory: string,
  options: { readonly level: AgentLevel; readonly within?: string } = { level: 'plugin' },
): Promise<FoundAgents> {
  const { level, within } = options
  const paths = [directory, within ?? directory]
  const [folder, root] = await Promise.all(paths.map((path) => realpath(path).catch(() => undefined)))
  if (folder === undefined || root === undefined) return { agents: [], issues: [] }
  if (!isWithin(root, folder)) return { agents: [], issues: [`${directory}: leads out of the workspace`] }
  const { files, others, isTruncated } = await listFolder(folder, maxEntries)
  const found: FoundAgents[] = []
  if (isTruncated)
    found.push({ agents: [], issues: [`${directory}: has too many entries; not all were read`] })
  const budget = new FrontMatterBudget()
  for (const name of [...files, ...others].filter(isMarkdownFile).sort()) {
    found.push(await readAgent(join(directory, name), { level, within: root, budget }))
  }
  return mergeFound(found)
}

/** The agents of project, home directory, plugins and server; the first of a name wins. Never rejects. */
export async function findAgents(from: FindAgentsOptions): Promise<FoundAgents> {
  const { project, homeDirectory, plugins = [], isBuiltin = false } = from
  const below = (base: string | undefined, level: AgentLevel, within = base) =>
    base === undefined ? [] : agentDirectories.map((name) => ({ path: join(base, name), level, within }))
  const places = [
    ...below(project, 'project'),
    ...below(homeDirectory, 'user', '/'),
    ...plugins.map((plugin) => ({ path: join(plugin, 'agents'), level: 'plugin', within: plugin }) as const),
  ]
  const found: FoundAgents[] = []
  for (const { path, level, within = '/' } of places)
    found.push(await readAgentDefinitions(path, { level, within }))
  if (isBuiltin) found.push({ agents: await builtinAgents(), issues: [] })
  return mergeFound(found)
}

let builtinCache: Promise<readonly AgentDefinition[]> | undefined

function builtinAgents(): Promise<readonly AgentDefinition[]> {
  builtinCache ??= Promise.all(
    builtinNames.map(async (name) => {
      const path = join(import.meta.dirname, 'builtin', `${name}.md`)
      const [agent] = (
        await readAgent(path, { level: 'builtin', within: '/', budget: new FrontMatterBudget() })
      ).agents
      if (agent === undefined) throw new Error(`the agent ${name} of this server cannot be read`)
      return { ...agent, source: undefined }
    }),
  )
  return builtinCache
}

/** The first agent of a name wins. */
function mergeFound(all: readonly FoundAgents[]): FoundAgents {
  const agents = new Map<string, AgentDefinition>()
  const issues = all.flatMap((found) => found.issues)
  for (const agent of all.flatMap((found) => found.agents)) {
    if (agents.has(agent.name)) continue
    if (agents.size < maxAgents) agents.set(agent.name, agent)
    else issues.push(`${agent.name}: there are more than ${maxAgents} agents; it is left out`)
  }
  return { agents: [...agents.values()], issues }
}

async function readAgent(
  path: string,
  options: { readonly level: AgentLevel; readonly within: string; readonly budget: FrontMatterBudget },
): Promise<FoundAgents> {
  const { level, within, budget } = options
  const file = await readSmallFile(path, { maxBytes, within })
  if (file === undefined) return { agents: [], issues: [] }
  const failed = (issue: string) => ({ agents: [], issues: [`${path}: ${issue}`] })
  if ('issue' in file) return failed(file.issue)
  if (file.isTruncated) return failed('is larger than 256 KiB')
  const name = basename(path, extname(path))
  const parsed = await parseAgent({ text: file.text, name, level, source: path }, budget)
  return 'issue' in parsed ? failed(parsed.issue) : { agents: [parsed.agent], issues: [] }
}
