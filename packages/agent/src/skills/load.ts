import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { type AgentContext, agentContext } from '@slipway/protocol'
import { type LoadedSkills, SkillCollector } from './collector.ts'
import { loadSkillDirectories, readSkillText } from './directories.ts'
import { type LoadedSkill, normalizeText, skillFromRequest } from './skill.ts'
import { listFolder, type SkillRoot } from './walk.ts'

const maxRootEntries = 50_000

/** Files at the top of a workspace that are always told: the name in lower case, and the name of the skill. */
const rootSkillFiles: Readonly<Record<string, string>> = {
  'agents.md': 'agents',
  '.cursorrules': 'cursorrules',
  'claude.md': 'claude',
  'gemini.md': 'gemini',
}

export interface LoadSkillsOptions {
  /** The workspace. */
  readonly directory: string
  /** Where the skills of the user are; without it there are none. */
  readonly homeDirectory?: string | undefined
  readonly context: AgentContext | undefined
  readonly additions?: SkillAdditions | undefined
}

/** Skills that neither the workspace nor the home directory holds. They are there whatever the context asks for. */
export interface SkillAdditions {
  /** Of plugins that were loaded for this conversation. */
  readonly plugins: readonly LoadedSkill[]
  /** Of what is installed on the server. */
  readonly installed: readonly LoadedSkill[]
  /** Of the public collection and of marketplaces. */
  readonly others: readonly LoadedSkill[]
  /** `load_public_skills` was heeded: there is a collection. */
  readonly hasPublic: boolean
}

/**
 * The skills of a conversation: those of its agent context, of its plugins, of the project, what is installed, the user's, and
 * those of collections; the first of a name wins, and the order is the same each time. Of the context's `disabled_skills` none
 * is loaded, wherever it is from. Files are what somebody else wrote: they are bounded (256 KiB each, 500 skills), those of the
 * workspace must be in it, links followed, and a bad one is a fault and nothing else. Rejects only when aborted.
 */
export async function loadSkills(options: LoadSkillsOptions, signal: AbortSignal): Promise<LoadedSkills> {
  const { directory, homeDirectory, additions } = options
  const context = options.context ?? agentContext.parse({})
  const collector = new SkillCollector(context.disabled_skills)
  for (const skill of context.skills) {
    if (collector.has(skill.name))
      collector.addIssue(`${skill.name}: the request has two skills of this name; the first is kept`)
    collector.add(skillFromRequest(skill))
  }
  for (const skill of additions?.plugins ?? []) collector.add(skill)
  if (context.load_project_skills) await loadProjectSkills(directory, collector, signal)
  for (const skill of additions?.installed ?? []) collector.add(skill)
  if (context.load_user_skills && homeDirectory !== undefined)
    await loadSkillDirectories(
      { directory: homeDirectory, origin: 'user', within: undefined },
      collector,
      signal,
    )
  for (const skill of additions?.others ?? []) collector.add(skill)
  if (context.load_public_skills && additions?.hasPublic !== true)
    collector.addIssue('load_public_skills: this server has no catalogue of public skills; none were loaded')
  return collector.result()
}

async function loadProjectSkills(
  directory: string,
  collector: SkillCollector,
  signal: AbortSignal,
): Promise<void> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return
  const base: SkillRoot = { directory: root, origin: 'project', within: root }
  const { files, others } = await listFolder(root, maxRootEntries)
  const names = [...files, ...others].sort()
  for (const [lower, name] of Object.entries(rootSkillFiles)) {
    signal.throwIfAborted()
    const file = names.find((one) => one.toLowerCase() === lower)
    if (file !== undefined) await loadRootSkill(base, { file, name }, collector)
  }
  await loadSkillDirectories(base, collector, signal)
}

async function loadRootSkill(
  base: SkillRoot,
  { file, name }: { readonly file: string; readonly name: string },
  collector: SkillCollector,
): Promise<void> {
  const path = join(base.directory, file)
  const content = normalizeText((await readSkillText(base, path, collector)) ?? '').trim()
  if (content === '' || collector.hasContent(content)) return
  collector.add({
    name,
    content,
    description: undefined,
    keywords: [],
    commands: [],
    paths: [],
    inputs: [],
    allowedTools: [],
    isAgentSkill: false,
    isModelInvocable: true,
    origin: base.origin,
    source: file,
    file: path,
    resources: undefined,
  })
}
