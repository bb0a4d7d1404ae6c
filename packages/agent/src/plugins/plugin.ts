import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type HookConfig, type McpServer, pluginManifest } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { SkillCollector } from '../skills/collector.ts'
import { loadSkillsBelow, readSkillText } from '../skills/directories.ts'
import { type LoadedSkill, normalizeText, toSingleLine } from '../skills/skill.ts'
import { listFolder } from '../skills/walk.ts'
import { parseCommand } from './command.ts'
import { type PluginContext, readHooks, readServers } from './hooks-and-servers.ts'
import { readFirstJson, readManifest } from './read-json.ts'
import { isGitFolder } from './source.ts'

/** Paths of a plugin's manifest; the first that exists is used. */
const manifestPaths = ['.claude-plugin/plugin.json', '.plugin/plugin.json', 'plugin.json'] as const
const maxFiles = 1_000
const maxEntries = 2_000
const maxFolders = 200
const maxDepth = 8
const maxDescription = 1024

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
 * is only an issue, a sentence that begins with a verb. Rejects only when aborted.
 */
export async function readPlugin(
  directory: string,
  signal: AbortSignal,
): Promise<Plugin | { readonly issue: string }> {
  const read = await readManifest(directory, manifestPaths, pluginManifest)
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

async function readSkills(parts: PluginContext, signal: AbortSignal): Promise<LoadedSkill[]> {
  const { root, members } = parts
  const collector = new SkillCollector([])
  const base = { directory: root, origin: 'plugin', within: root } as const
  for (const folder of resolveFolders(parts, 'skills', members.skills)) {
    await loadSkillsBelow(base, folder, collector, signal)
  }
  for (const folder of resolveFolders(parts, 'commands', members.commands)) {
    signal.throwIfAborted()
    await addCommands(parts, folder, collector)
  }
  const { skills, issues } = collector.result()
  parts.issues.push(...issues)
  return skills.map((skill) => ({ ...skill, content: substituteRoot(skill.content, root) }))
}

async function addCommands(parts: PluginContext, folder: string, collector: SkillCollector): Promise<void> {
  const { root, name } = parts
  const commandDirectory = join(root, folder)
  const real = await realpath(commandDirectory).catch(() => undefined)
  if (real === undefined || !isWithin(root, real)) return
  const { files } = await listFolder(real, maxEntries)
  for (const file of files.sort()) {
    if (!file.toLowerCase().endsWith('.md') || file.toLowerCase() === 'readme.md') continue
    const path = join(real, file)
    const text = await readSkillText({ directory: root, origin: 'plugin', within: root }, path, collector)
    if (text === undefined) continue
    const read = await parseCommand({
      text: normalizeText(text),
      file: path,
      plugin: name,
      name: basename(file, file.slice(-3)),
    })
    if ('issue' in read) collector.addIssue(`${folder}/${file}: ${read.issue}`)
    else collector.add(read.skill)
  }
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
  const queue: { readonly path: string; readonly depth: number }[] = [{ path: '', depth: 0 }]
  for (let folders = 0; queue.length > 0 && folders < maxFolders && found.length < maxFiles; folders++) {
    signal.throwIfAborted()
    const { path, depth } = queue.shift() ?? { path: '', depth: 0 }
    const { files, folders: inner } = await listFolder(join(root, path), maxEntries)
    found.push(...files.map((file) => join(path, file)))
    if (depth >= maxDepth) continue
    queue.push(
      ...inner
        .filter((name) => !isGitFolder(name))
        .sort()
        .map((name) => ({ path: join(path, name), depth: depth + 1 })),
    )
  }
  return found.sort().slice(0, maxFiles)
}

/** Replaces the variables for the plugin's folder. */
function substituteRoot(text: string, root: string): string {
  return text.replace(/\$\{(?:CLAUDE|OPENHANDS)_PLUGIN_ROOT\}/g, () => root)
}
