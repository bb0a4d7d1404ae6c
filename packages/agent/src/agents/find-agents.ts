import { realpath } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import type { AgentDefinition, AgentLevel } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { readSmallFile } from '../skills/small-file.ts'
import { listFolder } from '../skills/walk.ts'
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
  const found = new AgentCollector()
  if (isTruncated) found.issues.push(`${directory}: has too many entries; not all were read`)
  for (const name of [...files, ...others].filter(isAgentFile).sort()) {
    found.addAll(await readAgent(join(directory, name), { level, within: root }))
  }
  return found
}

/** The agents of project, home directory, plugins and server; the first of a name wins. Never rejects. */
export async function findAgents(from: FindAgentsOptions): Promise<FoundAgents> {
  const found = new AgentCollector()
  const { project, homeDirectory, plugins = [], isBuiltin = false } = from
  const places = [
    { base: project, level: 'project', within: project },
    { base: homeDirectory, level: 'user', within: '/' },
  ] as const
  for (const { base, level, within = '/' } of places) {
    for (const directory of base === undefined ? [] : agentDirectories)
      found.addAll(await readAgentDefinitions(join(base ?? '', directory), { level, within }))
  }
  for (const plugin of plugins)
    found.addAll(await readAgentDefinitions(join(plugin, 'agents'), { level: 'plugin', within: plugin }))
  if (isBuiltin) found.addAll({ agents: await builtinAgents(), issues: [] })
  return found
}

let builtinCache: Promise<readonly AgentDefinition[]> | undefined

export function builtinAgents(): Promise<readonly AgentDefinition[]> {
  builtinCache ??= Promise.all(
    builtinNames.map(async (name) => {
      const path = join(import.meta.dirname, 'builtin', `${name}.md`)
      const [agent] = (await readAgent(path, { level: 'builtin', within: '/' })).agents
      if (agent === undefined) throw new Error(`the agent ${name} of this server cannot be read`)
      return { ...agent, source: undefined }
    }),
  )
  return builtinCache
}

class AgentCollector implements FoundAgents {
  readonly #agents = new Map<string, AgentDefinition>()
  readonly issues: string[] = []

  get agents(): readonly AgentDefinition[] {
    return [...this.#agents.values()]
  }

  addAll({ agents, issues }: FoundAgents): void {
    for (const agent of agents) this.#add(agent)
    this.issues.push(...issues)
  }

  #add(agent: AgentDefinition): void {
    if (this.#agents.has(agent.name)) return
    if (this.#agents.size < maxAgents) this.#agents.set(agent.name, agent)
    else this.issues.push(`${agent.name}: there are more than ${maxAgents} agents; it is left out`)
  }
}

async function readAgent(
  path: string,
  { level, within }: { readonly level: AgentLevel; readonly within: string },
): Promise<FoundAgents> {
  const file = await readSmallFile(path, { maxBytes, within })
  if (file === undefined) return { agents: [], issues: [] }
  const failed = (issue: string) => ({ agents: [], issues: [`${path}: ${issue}`] })
  if ('issue' in file) return failed(file.issue)
  if (file.isTruncated) return failed('is larger than 256 KiB')
  const name = basename(path, extname(path))
  const parsed = await parseAgent({ text: file.text, name, level, source: path })
  return 'issue' in parsed ? failed(parsed.issue) : { agents: [parsed.agent], issues: [] }
}

function isAgentFile(name: string): boolean {
  const lower = name.toLowerCase()
  return lower.endsWith('.md') && lower !== 'readme.md'
}
