import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type HookConfig, type McpServer, marketplacePaths, pluginManifest } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { SkillCollector } from '../skills/collector.ts'
import { type FrontMatterBudget, parseFrontMatter } from '../skills/front-matter.ts'
import { SkillReader } from '../skills/reader.ts'
import {
  createSkill,
  type LoadedSkill,
  maxDescription,
  normalizeText,
  toSingleLine,
} from '../skills/skill.ts'
import { isMarkdownFile, listFolder } from '../skills/walk.ts'
import { type PluginContext, readHooks, readServers, substituteRootText } from './hooks-and-servers.ts'
import { readFirstJson, readManifest } from './read-json.ts'
import { isGitFolder } from './source.ts'

/** Paths of a plugin's manifest; the first that exists is used. */
const rootManifest = 'plugin.json'
const manifestPaths = ['.claude-plugin/plugin.json', '.plugin/plugin.json', rootManifest] as const
/** Folders that make a folder without a manifest a plugin, unless it is a marketplace. */
const partFolders: ReadonlySet<string> = new Set(['skills', 'commands', 'hooks'])
const maxFiles = 1_000
const maxEntries = 2_000
const maxFolders = 200
const maxDepth = 8

/** A plugin of a folder. It is untrusted; its texts are bounded. */
export interface Plugin {
  readonly name: string
  readonly version: string
  readonly description: string
  /** Real path. */
  readonly directory: string
  /** Its skills, and its commands as skills that a user starts by `/name`. */
  readonly skills: readonly LoadedSkill[]
  /** Commands of hooks have the plugin's folder in `CLAUDE_PLUGIN_ROOT`. */
  readonly hooks: HookConfig | undefined
  readonly servers: Readonly<Record<string, McpServer>>
  /** Relative to `directory`, without links, at most 1,000. */
  readonly files: readonly string[]
  /** What was skipped and why, a sentence each. */
  readonly issues: readonly string[]
}

/**
 * Reads the plugin of a folder. An invalid part is skipped and adds an issue. Without a valid manifest there
 * is only an issue, a sentence that begins with a verb. `takesBareFolder`: a folder without any manifest is a
 * plugin that it names, when it has a part of one. `needsSchema`: a manifest at the root without the schema of
 * agent-plugins.org is none, and belongs to something else. Rejects only when aborted.
 */
export async function readPlugin(
  directory: string,
  signal: AbortSignal,
  options: { readonly takesBareFolder?: boolean; readonly needsSchema?: boolean } = {},
): Promise<Plugin | { readonly issue: string }> {
  const { takesBareFolder = false, needsSchema = false } = options
  const found = await readManifest(directory, manifestPaths, pluginManifest)
  const isOther =
    needsSchema && !('issue' in found) && found.file === rootManifest && !isAgentPlugin(found.manifest)
  const bare = takesBareFolder ? await readBareFolder(directory, isOther) : undefined
  if (isOther && bare === undefined)
    return { issue: `has a ${rootManifest} without the $schema of agent-plugins.org` }
  const read = bare ?? found
  if ('issue' in read) return read
  const { root, manifest } = read
  const { name, version, description } = manifest
  const parts: PluginContext = { root, name, members: manifest, issues: [] }
  const skills = await readSkills(parts, signal)
  const hooks = await readHooks(parts)
  const servers = await readServers(parts)
  return {
    name,
    version: toSingleLine(version ?? '1.0.0', 200),
    description: toSingleLine(description ?? '', maxDescription),
    directory: root,
    skills,
    hooks,
    servers,
    files: await listFiles(root, signal),
    issues: parts.issues.map((issue) => `plugin ${name}: ${issue}`),
  }
}

/** Whether a folder has a plugin manifest, valid or not. */
export async function hasManifest(directory: string): Promise<boolean> {
  const root = await realpath(directory).catch(() => undefined)
  return root !== undefined && (await readFirstJson(root, manifestPaths)) !== undefined
}

async function readBareFolder(directory: string, hasOtherManifest: boolean) {
  const root = await realpath(directory).catch(() => undefined)
  const others = hasOtherManifest ? marketplacePaths : [...manifestPaths, ...marketplacePaths]
  if (root === undefined || (await readFirstJson(root, others)) !== undefined) return undefined
  const { files, folders } = await listFolder(root, maxEntries)
  const hasPart = folders.some((name) => partFolders.has(name)) || files.includes('.mcp.json')
  const { data } = pluginManifest.safeParse({ name: basename(root) })
  return hasPart && data !== undefined ? { root, manifest: data } : undefined
}

async function readSkills(parts: PluginContext, signal: AbortSignal): Promise<LoadedSkill[]> {
  const { root, members } = parts
  const collector = new SkillCollector([])
  const base = { directory: root, origin: 'plugin', within: root } as const
  for (const folder of resolveFolders(parts, 'skills', members.skills)) {
    await new SkillReader(base, collector, signal).readFolders([folder], false)
  }
  const commandFolders = resolveFolders(parts, 'commands', members.commands)
  if (isAgentPlugin(members)) commandFolders.push('dev.openhands/commands')
  for (const folder of commandFolders) {
    signal.throwIfAborted()
    await addCommands(parts, folder, collector, new SkillReader(base, collector))
  }
  const { skills, issues } = collector.result()
  parts.issues.push(...issues)
  return skills.map((skill) => ({ ...skill, content: substituteRootText(skill.content, root) }))
}

/** A manifest of agent-plugins.org: what belongs to one host is in its own folder. */
function isAgentPlugin({ $schema }: Readonly<Record<string, unknown>>): boolean {
  return typeof $schema === 'string' && $schema.startsWith('https://agent-plugins.org/')
}

async function addCommands(
  { root, name: plugin }: PluginContext,
  folder: string,
  collector: SkillCollector,
  reader: SkillReader,
): Promise<void> {
  const real = await realpath(join(root, folder)).catch(() => undefined)
  if (real === undefined || !isWithin(root, real)) return
  const { files } = await listFolder(real, maxEntries)
  for (const file of files.filter(isMarkdownFile).sort()) {
    const path = join(real, file)
    const text = await reader.readText(path)
    if (text === undefined) continue
    const name = basename(file, file.slice(-3))
    const read = await parseCommand(normalizeText(text), { name, plugin, path, budget: reader.frontMatter })
    if ('issue' in read) collector.addIssue(`${folder}/${file}: ${read.issue}`)
    else collector.add(read)
  }
}

/** A command as a skill that a user starts by `/name`, or by `/plugin:name` at the start of a message. */
async function parseCommand(
  text: string,
  from: {
    readonly name: string
    readonly plugin: string
    readonly path: string
    readonly budget: FrontMatterBudget
  },
): Promise<LoadedSkill | { readonly issue: string }> {
  const { name, plugin, path, budget } = from
  if (!/^[\w][\w.-]{0,63}$/.test(name)) return { issue: 'has a name that no command can have' }
  const matter = await parseFrontMatter(text, budget)
  if ('issue' in matter) return matter
  const { description, 'argument-hint': hint } = matter.members
  return createSkill({
    name: `${plugin}:${name}`,
    content: matter.body.trim(),
    description: typeof description === 'string' ? toSingleLine(description, maxDescription) : undefined,
    commands: [`/${name}`],
    inputs:
      typeof hint === 'string'
        ? [{ name: 'arguments', description: toSingleLine(hint, maxDescription) }]
        : [],
    isModelInvocable: false,
    origin: 'plugin',
    source: `${plugin}/commands/${name}.md`,
    file: path,
  })
}

/** The default folder, and those that the manifest names. */
function resolveFolders(parts: PluginContext, defaultFolder: string, configured: unknown): string[] {
  const names = typeof configured === 'string' ? [configured] : Array.isArray(configured) ? configured : []
  const folders = names.slice(0, 20).flatMap((name) => {
    const folder = typeof name === 'string' ? join('.', name) : '..'
    if (!folder.startsWith('..') && !folder.startsWith('/')) return [folder.replace(/\/$/, '')]
    parts.issues.push(`its ${defaultFolder} name a folder that is not in it`)
    return []
  })
  return [...new Set([defaultFolder, ...folders])]
}

async function listFiles(root: string, signal: AbortSignal): Promise<string[]> {
  const found: string[] = []
  const queue = [{ path: '', depth: 0 }]
  let remainingFolders = maxFolders
  for (const { path, depth } of queue) {
    if (remainingFolders-- === 0 || found.length >= maxFiles) break
    signal.throwIfAborted()
    const { files, folders } = await listFolder(join(root, path), maxEntries)
    found.push(...files.map((file) => join(path, file)))
    const inner = depth < maxDepth ? folders.filter((name) => !isGitFolder(name)).sort() : []
    queue.push(...inner.map((name) => ({ path: join(path, name), depth: depth + 1 })))
  }
  return found.sort().slice(0, maxFiles)
}
