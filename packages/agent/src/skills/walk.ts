import { opendir, realpath, stat } from 'node:fs/promises'
import { basename, extname, join, relative } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import type { SkillCollector } from './collector.ts'
import type { SkillOrigin, SkillResources } from './skill.ts'

const maxDepth = 3
/** Entries of one folder, and of all folders of one root. */
const maxEntries = 2_000
const maxAllEntries = 20_000
const maxResources = 100

/**
 * A directory with skills below it. `within`: a real directory that must contain all files, links resolved.
 */
export interface SkillRoot {
  readonly directory: string
  readonly origin: SkillOrigin
  readonly within: string | undefined
}

export interface SkillFile {
  readonly path: string
  /** The name of its folder, or its own without the extension. */
  readonly name: string
  readonly isAgentSkill: boolean
}

/** Traverses the folders of one root, each once. A skipped folder adds an issue. */
export class SkillWalker {
  readonly #root: SkillRoot
  readonly #collector: SkillCollector
  readonly #signal: AbortSignal
  /** Real paths, to stop cycles of links. */
  readonly #visited = new Set<string>()
  #remainingEntries = maxAllEntries

  constructor(base: SkillRoot, collector: SkillCollector, signal: AbortSignal) {
    this.#root = base
    this.#collector = collector
    this.#signal = signal
  }

  /**
   * The skills below a folder: a `SKILL.md` in a folder of its own, and Markdown files at the top.
   * `allowsNested`: Markdown files in nested folders are skills too.
   */
  async *skillFiles(folder: string, allowsNested: boolean, depth = 0): AsyncGenerator<SkillFile> {
    if (!(await this.#enter(folder))) return
    const names = await this.#listNames(folder)
    const skillFile = depth > 0 ? names.find((name) => name.toLowerCase() === 'skill.md') : undefined
    if (skillFile !== undefined) {
      yield { path: join(folder, skillFile), name: basename(folder), isAgentSkill: true }
      return
    }
    for (const name of names) {
      this.#signal.throwIfAborted()
      const path = join(folder, name)
      const entry = await stat(path).catch(() => undefined)
      if (entry?.isDirectory()) {
        if (depth < maxDepth) yield* this.skillFiles(path, allowsNested, depth + 1)
      } else if (entry !== undefined && (depth === 0 || allowsNested) && isSingleFileSkill(name))
        yield { path, name: basename(name, extname(name)), isAgentSkill: false }
    }
  }

  async #enter(folder: string): Promise<boolean> {
    const real = await realpath(folder).catch(() => undefined)
    if (real === undefined || this.#visited.has(real)) return false
    this.#visited.add(real)
    const { within, directory } = this.#root
    if (within === undefined || isWithin(within, real)) return true
    this.#collector.addIssue(`${relative(directory, folder)}: leads out of the workspace`)
    return false
  }

  async #listNames(folder: string): Promise<string[]> {
    const { files, folders, others, isTruncated } = await listFolder(
      folder,
      Math.min(maxEntries, this.#remainingEntries),
    )
    const names = [...files, ...folders, ...others].sort()
    this.#remainingEntries -= names.length
    if (isTruncated)
      this.#collector.addIssue(
        `${relative(this.#root.directory, folder)}: has too many entries; not all were read`,
      )
    return names
  }
}

function isSingleFileSkill(name: string): boolean {
  const lower = name.toLowerCase()
  return lower.endsWith('.md') && lower !== 'readme.md' && lower !== 'skill.md'
}

/** The resources beside a `SKILL.md`, without links. */
export async function findResources(root: string): Promise<SkillResources> {
  const [scripts, references, assets] = await Promise.all([
    listFilesBelow(root, 'scripts'),
    listFilesBelow(root, 'references'),
    listFilesBelow(root, 'assets'),
  ])
  return { scripts, references, assets }
}

async function listFilesBelow(root: string, folder: string, depth = 1): Promise<string[]> {
  const { files, folders } = await listFolder(join(root, folder), maxEntries)
  const paths = files.sort().map((name) => `${folder}/${name}`)
  for (const name of depth < maxDepth ? folders.sort() : []) {
    if (paths.length >= maxResources) break
    paths.push(...(await listFilesBelow(root, `${folder}/${name}`, depth + 1)))
  }
  return paths.slice(0, maxResources)
}

interface FolderListing {
  readonly files: string[]
  readonly folders: string[]
  readonly others: string[]
  readonly isTruncated: boolean
}

/** At most `max` entries of a folder; none when it cannot be read. */
export async function listFolder(folder: string, max: number): Promise<FolderListing> {
  const listing: Omit<FolderListing, 'isTruncated'> = { files: [], folders: [], others: [] }
  let count = 0
  try {
    for await (const entry of await opendir(folder)) {
      if (++count > max) break
      const kind = entry.isFile() ? listing.files : entry.isDirectory() ? listing.folders : listing.others
      kind.push(entry.name)
    }
  } catch {
    // A missing or unreadable folder has no skills.
  }
  return { ...listing, isTruncated: count > max }
}
