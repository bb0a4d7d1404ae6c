import { realpath } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { type LoadedSkills, SkillCollector } from './collector.ts'
import { parseSkill } from './parse.ts'
import type { SkillOrigin } from './skill.ts'
import { readSmallFile } from './small-file.ts'
import { findResources, listFolder, type SkillFile, type SkillRoot, SkillWalker } from './walk.ts'

const maxFileBytes = 256 * 1024

/** Folders of skills below a workspace or a home directory; the first wins when names clash. */
const skillDirectories = ['.agents/skills', '.openhands/skills', '.openhands/microagents'] as const
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
  const base: SkillRoot = { directory: root, origin, within: root }
  await loadFromDirectories(base, collectionDirectories, collector, signal)
  if (collector.result().skills.length > 0) return collector.result()
  const { folders } = await listFolder(root, maxFolders)
  for (const folder of folders.sort()) {
    signal.throwIfAborted()
    await loadSkillMd(base, join(root, folder), collector)
  }
  return collector.result()
}

/** The skill of one folder: none without a valid `SKILL.md`, and then an issue says why. */
export async function loadSkillFolder(directory: string, origin: SkillOrigin): Promise<LoadedSkills> {
  const collector = new SkillCollector([])
  const root = await realpath(directory).catch(() => directory)
  if (!(await loadSkillMd({ directory: root, origin, within: root }, root, collector)))
    collector.addIssue('There is no SKILL.md in it')
  return collector.result()
}

/** The skills below one folder of a base. */
export async function loadSkillsBelow(
  base: SkillRoot,
  folder: string,
  collector: SkillCollector,
  signal: AbortSignal,
): Promise<void> {
  await loadFromDirectories(base, [folder], collector, signal, false)
}

/** False without a `SKILL.md`. */
async function loadSkillMd(base: SkillRoot, folder: string, collector: SkillCollector): Promise<boolean> {
  const { files } = await listFolder(folder, maxFolders)
  const file = files.find((name) => name.toLowerCase() === 'skill.md')
  if (file === undefined) return false
  await loadSkillFile(
    base,
    { path: join(folder, file), name: basename(folder), isAgentSkill: true },
    collector,
  )
  return true
}

/** The skills of a workspace or a home directory. */
export async function loadSkillDirectories(
  base: SkillRoot,
  collector: SkillCollector,
  signal: AbortSignal,
): Promise<void> {
  await loadFromDirectories(base, skillDirectories, collector, signal)
}

/** In folders named `microagents`, files of nested folders are skills too, where `hasLegacyFolders`. */
async function loadFromDirectories(
  base: SkillRoot,
  folders: readonly string[],
  collector: SkillCollector,
  signal: AbortSignal,
  hasLegacyFolders = true,
): Promise<void> {
  const walk = new SkillWalker(base, collector, signal)
  for (const folder of folders) {
    const allowsNested = hasLegacyFolders && folder.endsWith('microagents')
    for await (const file of walk.skillFiles(join(base.directory, folder), allowsNested)) {
      if (collector.isFull) return
      await loadSkillFile(base, file, collector)
    }
  }
}

async function loadSkillFile(base: SkillRoot, from: SkillFile, collector: SkillCollector): Promise<void> {
  const { path, name, isAgentSkill } = from
  const { directory, origin } = base
  const source = relative(directory, path)
  const text = await readSkillText(base, path, collector)
  if (text === undefined) return
  const resources = isAgentSkill ? await findResources(dirname(path)) : undefined
  const parsed = await parseSkill({ text, name, isAgentSkill, origin, source, file: path, resources })
  if ('issue' in parsed) {
    collector.addIssue(`${source}: ${parsed.issue}`)
    return
  }
  if (parsed.warning !== undefined) collector.addIssue(`${source}: ${parsed.warning}`)
  collector.add(parsed.skill)
}

/** The text of a skill file, truncated when too large; undefined when it cannot be read. */
export async function readSkillText(
  base: SkillRoot,
  path: string,
  collector: SkillCollector,
): Promise<string | undefined> {
  const source = relative(base.directory, path)
  const file = await readSmallFile(path, { maxBytes: maxFileBytes, within: base.within })
  if (file === undefined) return undefined
  if ('issue' in file) {
    collector.addIssue(`${source}: ${file.issue}`)
    return undefined
  }
  if (!file.isTruncated) return file.text
  collector.addIssue(`${source}: is larger than 256 KiB; the rest is left out`)
  return `${file.text}\n[The rest of this file is left out.]`
}
