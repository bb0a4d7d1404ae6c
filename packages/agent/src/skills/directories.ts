import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { extensionName } from '@slipway/protocol'
import { type LoadedSkills, SkillCollector } from './collector.ts'
import { SkillReader } from './reader.ts'
import type { SkillOrigin } from './skill.ts'
import { listFolder } from './walk.ts'

/** Folders of skills below a workspace or a home directory; the first wins when names clash. */
export const skillDirectories = ['.agents/skills', '.openhands/skills', '.openhands/microagents'] as const
/** Folders of skills in a skill repository. */
const collectionDirectories = ['skills', ...skillDirectories, 'microagents'] as const
const maxFolders = 2_000

/**
 * The skills of a skill repository: those of its folder `skills` and of the folders of a project; without
 * any, the folders with a `SKILL.md` directly below it. Bounded as in `loadSkills`; rejects only when
 * aborted.
 */
export async function loadCollection(
  directory: string,
  origin: SkillOrigin,
  signal: AbortSignal,
): Promise<LoadedSkills> {
  const collector = new SkillCollector([])
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return collector.result()
  const reader = new SkillReader({ directory: root, origin, within: root }, collector, signal)
  await reader.readFolders(collectionDirectories)
  if (collector.result().skills.length > 0) return collector.result()
  const { folders } = await listFolder(root, maxFolders)
  for (const folder of folders.sort()) {
    signal.throwIfAborted()
    await readSkillMd(reader, join(root, folder))
  }
  return collector.result()
}

/** The skill of one folder: none without a valid `SKILL.md`, and then an issue says why. */
export async function loadSkillFolder(directory: string, origin: SkillOrigin): Promise<LoadedSkills> {
  const collector = new SkillCollector([])
  const root = await realpath(directory).catch(() => directory)
  const reader = new SkillReader({ directory: root, origin, within: root }, collector)
  if (!(await readSkillMd(reader, root))) collector.addIssue('There is no SKILL.md in it')
  return collector.result()
}

/** False without a `SKILL.md`. */
async function readSkillMd(reader: SkillReader, folder: string): Promise<boolean> {
  const { files } = await listFolder(folder, maxFolders)
  const file = files.find((name) => name.toLowerCase() === 'skill.md')
  if (file === undefined) return false
  await reader.readFile({ path: join(folder, file), name: basename(folder), isAgentSkill: true })
  return true
}

/**
 * Name, version and description of a folder with a `SKILL.md`; an issue when it is invalid or cannot be
 * installed by its name.
 */
export async function describeSkill(
  directory: string,
): Promise<
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly issue: string }
> {
  const { skills, issues } = await loadSkillFolder(directory, 'installed')
  const [skill] = skills
  if (skill === undefined) return { issue: `cannot be read: ${issues.join('; ')}` }
  const { name, description = '', version = '1.0.0' } = skill
  if (!extensionName.safeParse(name).success) return { issue: 'has a name that nothing can be installed by' }
  return { name, description, version }
}
