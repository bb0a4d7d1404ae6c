import { opendir, realpath, stat } from 'node:fs/promises'
import { basename, extname, join, relative } from 'node:path'
import type { Found } from './collector.ts'
import type { SkillOrigin, SkillResources } from './skill.ts'
import { isWithin } from './small-file.ts'

const maxDepth = 3
/** Of one folder, and of all folders that are walked through for one workspace or home. */
const maxEntries = 2_000
const maxAllEntries = 20_000
const maxResources = 100

/** A workspace, a home directory, or whatever else has skills below it. `within`: the real directory that no link may lead out of. */
export interface Base {
  readonly directory: string
  readonly origin: SkillOrigin
  readonly within: string | undefined
}

export interface SkillFile {
  readonly path: string
  /** Of its folder, or its own without the extension. */
  readonly name: string
  readonly isAgentSkill: boolean
}

/** Walks through the folders of one base, each once. What it does not enter is a fault. */
export class Walk {
  readonly #base: Base
  readonly #found: Found
  readonly #signal: AbortSignal
  /** Real paths: links do not lead around in circles. */
  readonly #seen = new Set<string>()
  #left = maxAllEntries

  constructor(base: Base, found: Found, signal: AbortSignal) {
    this.#base = base
    this.#found = found
    this.#signal = signal
  }

  /**
   * The skills below a folder: a `SKILL.md` in a folder of its own, and single Markdown files at the top. `isOld`: single
   * files deeper down are skills too; elsewhere they are notes.
   */
  async *files(folder: string, isOld: boolean, depth = 0): AsyncGenerator<SkillFile> {
    if (!(await this.#enters(folder))) return
    const names = await this.#names(folder)
    const own = depth > 0 ? names.find((name) => name.toLowerCase() === 'skill.md') : undefined
    if (own !== undefined) {
      yield { path: join(folder, own), name: basename(folder), isAgentSkill: true }
      return
    }
    for (const name of names) {
      this.#signal.throwIfAborted()
      const path = join(folder, name)
      const entry = await stat(path).catch(() => undefined)
      if (entry?.isDirectory()) {
        if (depth < maxDepth) yield* this.files(path, isOld, depth + 1)
      } else if (entry !== undefined && (depth === 0 || isOld) && isSingle(name))
        yield { path, name: basename(name, extname(name)), isAgentSkill: false }
    }
  }

  async #enters(folder: string): Promise<boolean> {
    const real = await realpath(folder).catch(() => undefined)
    if (real === undefined || this.#seen.has(real)) return false
    this.#seen.add(real)
    const { within, directory } = this.#base
    if (within === undefined || isWithin(real, within)) return true
    this.#found.fault(`${relative(directory, folder)}: leads out of the workspace`)
    return false
  }

  async #names(folder: string): Promise<string[]> {
    const { files, folders, others, isCut } = await list(folder, Math.min(maxEntries, this.#left))
    const names = [...files, ...folders, ...others].sort()
    this.#left -= names.length
    if (isCut)
      this.#found.fault(`${relative(this.#base.directory, folder)}: has too many entries; not all were read`)
    return names
  }
}

function isSingle(name: string): boolean {
  const lower = name.toLowerCase()
  return lower.endsWith('.md') && lower !== 'readme.md' && lower !== 'skill.md'
}

/** What lies beside a `SKILL.md`. Links are left out. */
export async function findResources(root: string): Promise<SkillResources> {
  const [scripts, references, assets] = await Promise.all([
    filesBelow(root, 'scripts'),
    filesBelow(root, 'references'),
    filesBelow(root, 'assets'),
  ])
  return { scripts, references, assets }
}

async function filesBelow(root: string, folder: string, depth = 1): Promise<string[]> {
  const { files, folders } = await list(join(root, folder), maxEntries)
  const found = files.sort().map((name) => `${folder}/${name}`)
  for (const name of depth < maxDepth ? folders.sort() : []) {
    if (found.length >= maxResources) break
    found.push(...(await filesBelow(root, `${folder}/${name}`, depth + 1)))
  }
  return found.slice(0, maxResources)
}

export interface Listing {
  readonly files: string[]
  readonly folders: string[]
  readonly others: string[]
  readonly isCut: boolean
}

/** At most `max` entries of a folder; none of one that cannot be read. */
export async function list(folder: string, max: number): Promise<Listing> {
  const found: Omit<Listing, 'isCut'> = { files: [], folders: [], others: [] }
  let count = 0
  try {
    for await (const entry of await opendir(folder)) {
      if (++count > max) break
      const kind = entry.isFile() ? found.files : entry.isDirectory() ? found.folders : found.others
      kind.push(entry.name)
    }
  } catch {
    // A folder that is not there, or that may not be read, holds no skills.
  }
  return { ...found, isCut: count > max }
}
