import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { faultsOf, type HookConfig, type McpServer, pluginManifest } from '@slipway/protocol'
import { Found } from '../skills/collector.ts'
import { loadSkillsBelow, readText } from '../skills/directories.ts'
import { clean, type LoadedSkill, oneLine } from '../skills/skill.ts'
import { isWithin } from '../skills/small-file.ts'
import { list } from '../skills/walk.ts'
import { readCommand } from './command.ts'
import { type PluginParts, readHooks, readServers } from './hooks-and-servers.ts'
import { readFirstJson } from './read-json.ts'
import { isGit } from './source.ts'

/** Where the manifest of a plugin is looked for; the first counts. */
export const manifestPlaces = ['.claude-plugin/plugin.json', '.plugin/plugin.json', 'plugin.json'] as const
const maxFiles = 1_000
const maxEntries = 2_000
const maxFolders = 200
const maxDepth = 8
const maxDescription = 1024

/** A plugin as it lies in a folder. All of it was written by somebody else; its texts are bounded. */
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
  /** What of it was passed over and why, a sentence each. */
  readonly faults: readonly string[]
}

/**
 * Reads the plugin of a folder. A part of it that is bad is left out and is among the faults; without a good manifest there is
 * no plugin, and the fault is a sentence that begins with a verb. Rejects only when aborted.
 */
export async function readPlugin(
  directory: string,
  signal: AbortSignal,
): Promise<Plugin | { readonly fault: string }> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return { fault: 'is not there' }
  const file = await readFirstJson(root, manifestPlaces)
  if (file === undefined) return { fault: 'has no plugin.json' }
  if ('fault' in file) return file
  const manifest = pluginManifest.safeParse(file.value)
  if (!manifest.success) return { fault: `${file.name}: ${firstFault(manifest.error, file.value)}` }
  const { name, version, description } = manifest.data
  const parts: PluginParts = { root, name, members: manifest.data, faults: [] }
  const skills = await readSkills(parts, signal)
  const hooks = await readHooks(parts)
  const servers = await readServers(parts)
  return {
    name,
    version: oneLine(version ?? '1.0.0', 200),
    description: oneLine(description ?? '', maxDescription),
    directory: root,
    skills,
    hooks,
    servers,
    files: await filesOf(root, signal),
    faults: parts.faults.map((fault) => `plugin ${name}: ${fault}`),
  }
}

/** Whether a folder has the manifest of a plugin, good or not. */
export async function hasManifest(directory: string): Promise<boolean> {
  const root = await realpath(directory).catch(() => undefined)
  return root !== undefined && (await readFirstJson(root, manifestPlaces)) !== undefined
}

async function readSkills(parts: PluginParts, signal: AbortSignal): Promise<LoadedSkill[]> {
  const { root, members } = parts
  const found = new Found([])
  const base = { directory: root, origin: 'plugin', within: root } as const
  for (const folder of foldersOf(parts, 'skills', members.skills)) {
    await loadSkillsBelow(base, folder, found, signal)
  }
  for (const folder of foldersOf(parts, 'commands', members.commands)) {
    signal.throwIfAborted()
    await addCommands(parts, folder, found)
  }
  const { skills, faults } = found.all()
  parts.faults.push(...faults)
  return skills.map((skill) => ({ ...skill, content: rooted(skill.content, root) }))
}

async function addCommands(parts: PluginParts, folder: string, found: Found): Promise<void> {
  const { root, name } = parts
  const place = join(root, folder)
  const real = await realpath(place).catch(() => undefined)
  if (real === undefined || !isWithin(real, root)) return
  const { files } = await list(real, maxEntries)
  for (const file of files.sort()) {
    if (!file.toLowerCase().endsWith('.md') || file.toLowerCase() === 'readme.md') continue
    const path = join(real, file)
    const text = await readText({ directory: root, origin: 'plugin', within: root }, path, found)
    if (text === undefined) continue
    const read = await readCommand({
      text: clean(text),
      file: path,
      plugin: name,
      name: basename(file, file.slice(-3)),
    })
    if ('fault' in read) found.fault(`${folder}/${file}: ${read.fault}`)
    else found.add(read.skill)
  }
}

/** The usual folder, and those that the manifest names. */
function foldersOf(parts: PluginParts, usual: string, named: unknown): string[] {
  const names = typeof named === 'string' ? [named] : Array.isArray(named) ? named : []
  const folders = names.slice(0, 20).flatMap((name) => {
    const folder = typeof name === 'string' ? join('.', name) : '..'
    if (!folder.startsWith('..') && !folder.startsWith('/')) return [folder.replace(/\/$/, '')]
    parts.faults.push(`its ${usual} name a folder that is not in it`)
    return []
  })
  return [...new Set([usual, ...folders])]
}

async function filesOf(root: string, signal: AbortSignal): Promise<string[]> {
  const found: string[] = []
  const waiting: { readonly path: string; readonly depth: number }[] = [{ path: '', depth: 0 }]
  for (let folders = 0; waiting.length > 0 && folders < maxFolders && found.length < maxFiles; folders++) {
    signal.throwIfAborted()
    const { path, depth } = waiting.shift() ?? { path: '', depth: 0 }
    const { files, folders: inner } = await list(join(root, path), maxEntries)
    found.push(...files.map((file) => join(path, file)))
    if (depth >= maxDepth) continue
    waiting.push(
      ...inner
        .filter((name) => !isGit(name))
        .sort()
        .map((name) => ({ path: join(path, name), depth: depth + 1 })),
    )
  }
  return found.sort().slice(0, maxFiles)
}

/** A text in which the plugin's folder is named. */
function rooted(text: string, root: string): string {
  return text.replace(/\$\{(?:CLAUDE|OPENHANDS)_PLUGIN_ROOT\}/g, () => root)
}

function firstFault(error: Parameters<typeof faultsOf>[0], value: unknown): string {
  const [fault] = faultsOf(error, [], value)
  return fault === undefined ? 'is no manifest' : `${fault.loc.join('.') || 'manifest'}: ${fault.msg}`
}
