import { realpath } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { AgentContext } from '@slipway/protocol'
import { type Base, findResources, list, type SkillFile, Walk } from './find.ts'
import { Found, type LoadedSkills } from './found.ts'
import { parseSkill } from './parse.ts'
import { clean, requestedSkill } from './skill.ts'
import { readSmallFile } from './small-file.ts'

const maxFileBytes = 256 * 1024
const maxRootEntries = 50_000

const oldPlace = '.openhands/microagents'
/** Folders of skills, below a workspace or a home directory; the first wins when names clash. */
const places = ['.agents/skills', '.openhands/skills', oldPlace] as const
/** Files at the top of a workspace that are always told: the name in lower case, and the name of the skill. */
const rootFiles: Readonly<Record<string, string>> = {
  'agents.md': 'agents',
  '.cursorrules': 'cursorrules',
  'claude.md': 'claude',
  'gemini.md': 'gemini',
}

export interface LoadOptions {
  /** The workspace. */
  readonly directory: string
  /** Where the skills of the user are; without it there are none. */
  readonly home?: string | undefined
  readonly context: AgentContext | undefined
}

/**
 * The skills that an agent context asks for: its own, then the project's, then the user's; the first of a name wins, and
 * the order is the same each time. Files are what somebody else wrote: they are bounded (256 KiB each, 500 skills), those
 * of the workspace must be in it, links followed, and a bad one is a fault and nothing else. Rejects only when aborted.
 */
export async function loadSkills(options: LoadOptions, signal: AbortSignal): Promise<LoadedSkills> {
  const { directory, home, context } = options
  if (context === undefined) return { skills: [], faults: [] }
  const found = new Found(context.disabled_skills)
  for (const skill of context.skills) {
    if (found.has(skill.name))
      found.fault(`${skill.name}: the request has two skills of this name; the first is kept`)
    found.add(requestedSkill(skill))
  }
  if (context.load_project_skills) await loadProject(directory, found, signal)
  if (context.load_user_skills && home !== undefined)
    await loadPlaces({ directory: home, origin: 'user', within: undefined }, found, signal)
  if (context.load_public_skills)
    found.fault('load_public_skills: this server has no catalogue of public skills; none were loaded')
  return found.all()
}

async function loadProject(directory: string, found: Found, signal: AbortSignal): Promise<void> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return
  const base: Base = { directory: root, origin: 'project', within: root }
  const { files, others } = await list(root, maxRootEntries)
  const names = [...files, ...others].sort()
  for (const [lower, name] of Object.entries(rootFiles)) {
    signal.throwIfAborted()
    const file = names.find((one) => one.toLowerCase() === lower)
    if (file !== undefined) await loadRootFile(base, { file, name }, found)
  }
  await loadPlaces(base, found, signal)
}

async function loadRootFile(
  base: Base,
  { file, name }: { readonly file: string; readonly name: string },
  found: Found,
): Promise<void> {
  const path = join(base.directory, file)
  const content = clean((await readText(base, path, found)) ?? '').trim()
  if (content === '' || found.hasContent(content)) return
  found.add({
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

async function loadPlaces(base: Base, found: Found, signal: AbortSignal): Promise<void> {
  const walk = new Walk(base, found, signal)
  for (const place of places) {
    for await (const file of walk.files(join(base.directory, place), place === oldPlace)) {
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

async function readText(base: Base, path: string, found: Found): Promise<string | undefined> {
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
