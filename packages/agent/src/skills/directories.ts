import { realpath } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { Found, type LoadedSkills } from './collector.ts'
import { parseSkill } from './parse.ts'
import type { SkillOrigin } from './skill.ts'
import { readSmallFile } from './small-file.ts'
import { type Base, findResources, list, type SkillFile, Walk } from './walk.ts'

const maxFileBytes = 256 * 1024

const oldPlace = '.openhands/microagents'
/** Folders of skills, below a workspace or a home directory; the first wins when names clash. */
const places = ['.agents/skills', '.openhands/skills', oldPlace] as const
/** Folders of skills in a repository that is there for its skills. */
const collectionPlaces = ['skills', ...places, 'microagents'] as const
const maxFolders = 2_000

/**
 * The skills of a directory that is there for its skills: those of its folder `skills` and of the folders that a project has
 * them in; without any, the folders with a `SKILL.md` right below it. Bounded and never rejected, as in `loadSkills`.
 */
export async function loadCollection(
  directory: string,
  origin: SkillOrigin,
  signal: AbortSignal,
): Promise<LoadedSkills> {
  const found = new Found([])
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return found.all()
  const base: Base = { directory: root, origin, within: root }
  const isOld = (place: string) => place.endsWith('microagents')
  await loadBelow(base, { places: collectionPlaces, isOld }, found, signal)
  if (found.all().skills.length > 0) return found.all()
  const { folders } = await list(root, maxFolders)
  for (const folder of folders.sort()) {
    signal.throwIfAborted()
    await loadFolder(base, join(root, folder), found)
  }
  return found.all()
}

/** The skill of one folder: none when it has no good `SKILL.md`, and then why among the faults. */
export async function loadSkillFolder(directory: string, origin: SkillOrigin): Promise<LoadedSkills> {
  const found = new Found([])
  const root = await realpath(directory).catch(() => directory)
  if (!(await loadFolder({ directory: root, origin, within: root }, root, found)))
    found.fault('There is no SKILL.md in it')
  return found.all()
}

/** The skills below one folder of a base, whatever it is called. */
export async function loadSkillsBelow(
  base: Base,
  folder: string,
  found: Found,
  signal: AbortSignal,
): Promise<void> {
  await loadBelow(base, { places: [folder], isOld: () => false }, found, signal)
}

/** Whether there is a `SKILL.md`. */
async function loadFolder(base: Base, folder: string, found: Found): Promise<boolean> {
  const { files } = await list(folder, maxFolders)
  const file = files.find((name) => name.toLowerCase() === 'skill.md')
  if (file === undefined) return false
  await loadFile(base, { path: join(folder, file), name: basename(folder), isAgentSkill: true }, found)
  return true
}

/** The skills of a workspace or a home directory. */
export async function loadPlaces(base: Base, found: Found, signal: AbortSignal): Promise<void> {
  await loadBelow(base, { places, isOld: (place) => place === oldPlace }, found, signal)
}

async function loadBelow(
  base: Base,
  from: { readonly places: readonly string[]; readonly isOld: (place: string) => boolean },
  found: Found,
  signal: AbortSignal,
): Promise<void> {
  const walk = new Walk(base, found, signal)
  for (const place of from.places) {
    for await (const file of walk.files(join(base.directory, place), from.isOld(place))) {
      if (found.isFull) return
      await loadFile(base, file, found)
    }
  }
}

async function loadFile(base: Base, from: SkillFile, found: Found): Promise<void> {
  const { path, name, isAgentSkill } = from
  const { directory, origin } = base
  const source = relative(directory, path)
  const text = await readText(base, path, found)
  if (text === undefined) return
  const resources = isAgentSkill ? await findResources(dirname(path)) : undefined
  const parsed = await parseSkill({ text, name, isAgentSkill, origin, source, file: path, resources })
  if ('fault' in parsed) {
    found.fault(`${source}: ${parsed.fault}`)
    return
  }
  if (parsed.warning !== undefined) found.fault(`${source}: ${parsed.warning}`)
  found.add(parsed.skill)
}

/** The text of a skill's file, cut where it is too large; undefined when there is none. */
export async function readText(base: Base, path: string, found: Found): Promise<string | undefined> {
  const source = relative(base.directory, path)
  const file = await readSmallFile(path, { maxBytes: maxFileBytes, within: base.within })
  if (file === undefined) return undefined
  if ('fault' in file) {
    found.fault(`${source}: ${file.fault}`)
    return undefined
  }
  if (!file.isCut) return file.text
  found.fault(`${source}: is larger than 256 KiB; the rest is left out`)
  return `${file.text}\n[The rest of this file is left out.]`
}
