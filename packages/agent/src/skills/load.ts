import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { type AgentContext, agentContext } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { type LoadedSkills, SkillCollector } from './collector.ts'
import { skillDirectories } from './directories.ts'
import { namesOther, readInstructions, repositoryFoldersAbove } from './instruction-files.ts'
import { SkillReader } from './reader.ts'
import { createSkill, type LoadedSkill, normalizeText, skillFromRequest } from './skill.ts'
import { listFolder } from './walk.ts'

const maxRootEntries = 50_000

/** The name of the skill that the root AGENTS.md is. */
export const instructionsSkill = 'agents'
/** Files of instructions that are loaded without a setting. */
const instructionSkills: readonly string[] = [instructionsSkill, 'claude']
/** Root files of a workspace that are always-on skills: file name in lower case -> skill name. */
const rootSkillFiles: Readonly<Record<string, string>> = {
  'agents.md': instructionsSkill,
  '.cursorrules': 'cursorrules',
  'claude.md': 'claude',
  'gemini.md': 'gemini',
}

interface LoadSkillsOptions {
  /** The workspace. */
  readonly directory: string
  /** Where the user's skills are, if any. */
  readonly homeDirectory?: string | undefined
  readonly context: AgentContext | undefined
  readonly additions?: SkillAdditions | undefined
  /**
   * Load the instructions of the project (AGENTS.md and CLAUDE.md) also when the context asks for no skills
   * of it, and those of the folders above that belong to its repository.
   */
  readonly hasInstructions?: boolean
  /** No folder above a workspace is read that is in one of these. */
  readonly reserved?: readonly string[] | undefined
}

/** Skills from outside the workspace and the home directory; they are loaded whatever the context says. */
export interface SkillAdditions {
  /** Of the plugins of this conversation. */
  readonly plugins: readonly LoadedSkill[]
  /** Installed on the server. */
  readonly installed: readonly LoadedSkill[]
  /** Of the public collection and of marketplaces. */
  readonly others: readonly LoadedSkill[]
  /** Whether `load_public_skills` found a collection. */
  readonly hasPublic: boolean
}

/**
 * The skills of a conversation in a fixed order: of its agent context, its plugins, the project, installed
 * ones, the user's, and those of collections; the first of a name wins. The context's `disabled_skills` are
 * never loaded. Files are untrusted: they are bounded (256 KiB each, 500 skills), files of the workspace must
 * resolve to paths in it, and an invalid file only adds an issue. Rejects only when aborted.
 */
export async function loadSkills(options: LoadSkillsOptions, signal: AbortSignal): Promise<LoadedSkills> {
  const { directory, homeDirectory, additions } = options
  const context = options.context ?? agentContext.parse({})
  const collector = new SkillCollector(context.disabled_skills)
  for (const skill of context.skills) {
    if (collector.has(skill.name))
      collector.addIssue(`${skill.name}: the request has two skills of this name; the first is used`)
    collector.add(skillFromRequest(skill))
  }
  for (const skill of additions?.plugins ?? []) collector.add(skill)
  const isOnlyInstructions = !context.load_project_skills
  if (options.hasInstructions && !context.disabled_skills.includes(instructionsSkill))
    await loadOuterInstructions(directory, collector, options.reserved)
  if (context.load_project_skills || options.hasInstructions)
    await loadProjectSkills(directory, collector, { isOnlyInstructions, signal })
  for (const skill of additions?.installed ?? []) collector.add(skill)
  if (context.load_user_skills && homeDirectory !== undefined) {
    const root = { directory: homeDirectory, origin: 'user', within: undefined } as const
    await new SkillReader(root, collector, signal).readFolders(skillDirectories)
  }
  for (const skill of additions?.others ?? []) collector.add(skill)
  if (context.load_public_skills && additions?.hasPublic !== true)
    collector.addIssue('load_public_skills: this server has no catalogue of public skills; none were loaded')
  return collector.result()
}

/** What a repository says above a workspace that is a folder of it; the outermost first. */
async function loadOuterInstructions(
  directory: string,
  collector: SkillCollector,
  reserved: readonly string[] = [],
): Promise<void> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined || reserved.some((place) => isWithin(place, root))) return
  const folders = await repositoryFoldersAbove(root)
  for (const folder of folders)
    for (const { file, text, isTruncated } of await readInstructions(folder, folders[0] ?? folder)) {
      const source = relative(root, file)
      const content = `${normalizeText(text)}${isTruncated ? '\n[The rest of this file is left out.]' : ''}`
      // Without its path as a file: tools may not read there.
      if (!collector.hasContent(content))
        collector.add(createSkill({ name: source, content, origin: 'project', source }))
    }
}

async function loadProjectSkills(
  directory: string,
  collector: SkillCollector,
  { isOnlyInstructions, signal }: { readonly isOnlyInstructions: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return
  const reader = new SkillReader({ directory: root, origin: 'project', within: root }, collector, signal)
  const { files, others } = await listFolder(root, maxRootEntries)
  const names = [...files, ...others].sort()
  for (const [lower, skillName] of Object.entries(rootSkillFiles)) {
    signal.throwIfAborted()
    if (isOnlyInstructions && !instructionSkills.includes(skillName)) continue
    const file = names.find((one) => one.toLowerCase() === lower)
    if (file === undefined) continue
    const path = join(root, file)
    const content = normalizeText((await reader.readText(path)) ?? '').trim()
    if (content === '' || namesOther(content) || collector.hasContent(content)) continue
    collector.add(createSkill({ name: skillName, content, origin: 'project', source: file, file: path }))
  }
  if (!isOnlyInstructions) await reader.readFolders(skillDirectories)
}
