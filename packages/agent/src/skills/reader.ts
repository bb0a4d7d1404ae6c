import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, extname, join, relative } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import type { SkillCollector } from './collector.ts'
import { FrontMatterBudget } from './front-matter.ts'
import { parseSkill } from './parse.ts'
import type { SkillOrigin } from './skill.ts'
import { readSmallFile } from './small-file.ts'
import { findResources, isMarkdownFile, listFolder } from './walk.ts'

const maxFileBytes = 256 * 1024
const maxDepth = 3
/** Entries of one folder, and of all folders of one root. */
const maxEntries = 2_000
const maxAllEntries = 20_000

/**
 * A directory with skills below it. `within`: a real directory that must contain all files, links resolved.
 */
interface SkillRoot {
  readonly directory: string
  readonly origin: SkillOrigin
  readonly within: string | undefined
}

interface SkillFile {
  readonly path: string
  /** The name of its folder, or its own without the extension. */
  readonly name: string
  readonly isAgentSkill: boolean
}

/**
 * Reads skills below a root into a collector; visits each folder once. Skipped files and folders add issues.
 */
export class SkillReader {
  readonly #root: SkillRoot
  readonly #collector: SkillCollector
  readonly #signal: AbortSignal | undefined
  readonly frontMatter = new FrontMatterBudget()
  /** Real paths, to stop cycles of links. */
  readonly #visited = new Set<string>()
  #remainingEntries = maxAllEntries

  constructor(root: SkillRoot, collector: SkillCollector, signal?: AbortSignal) {
    this.#root = root
    this.#collector = collector
    this.#signal = signal
  }

  /** In folders named `microagents`, files of nested folders are skills too, where `hasLegacyFolders`. */
  async readFolders(folders: readonly string[], hasLegacyFolders = true): Promise<void> {
    for (const folder of folders) {
      const allowsNested = hasLegacyFolders && folder.endsWith('microagents')
      for await (const file of this.#skillFiles(join(this.#root.directory, folder), allowsNested)) {
        if (this.#collector.isFull) return
        await this.readFile(file)
      }
    }
  }

  async readFile({ path, name, isAgentSkill }: SkillFile): Promise<void> {
    const { directory, origin } = this.#root
    const source = relative(directory, path)
    const text = await this.readText(path)
    if (text === undefined) return
    const resources = isAgentSkill ? await findResources(dirname(path)) : undefined
    const skillSource = { text, name, isAgentSkill, origin, source, file: path, resources }
    const parsed = await parseSkill(skillSource, this.frontMatter)
    const issue = 'issue' in parsed ? parsed.issue : parsed.warning
    if (issue !== undefined) this.#addIssue(path, issue)
    if ('skill' in parsed) this.#collector.add(parsed.skill)
  }

  /** The text of a skill file, truncated when too large; undefined when it cannot be read. */
  async readText(path: string): Promise<string | undefined> {
    const file = await readSmallFile(path, { maxBytes: maxFileBytes, within: this.#root.within })
    if (file === undefined) return undefined
    if ('issue' in file) {
      this.#addIssue(path, file.issue)
      return undefined
    }
    if (!file.isTruncated) return file.text
    this.#addIssue(path, 'is larger than 256 KiB; the rest is left out')
    return `${file.text}\n[The rest of this file is left out.]`
  }

  #addIssue(path: string, issue: string): void {
    this.#collector.addIssue(`${relative(this.#root.directory, path)}: ${issue}`)
  }

  /**
   * The skills below a folder: a `SKILL.md` in its own folder, and Markdown files at the top.
   * `allowsNested`: Markdown files in nested folders are skills too.
   */
  async *#skillFiles(folder: string, allowsNested: boolean, depth = 0): AsyncGenerator<SkillFile> {
    if (!(await this.#enter(folder))) return
    const names = await this.#listNames(folder)
    const skillFile = depth > 0 ? names.find((name) => name.toLowerCase() === 'skill.md') : undefined
    if (skillFile !== undefined) {
      yield { path: join(folder, skillFile), name: basename(folder), isAgentSkill: true }
      return
    }
    for (const name of names) {
      this.#signal?.throwIfAborted()
      const path = join(folder, name)
      const entry = await stat(path).catch(() => undefined)
      if (entry?.isDirectory()) {
        if (depth < maxDepth) yield* this.#skillFiles(path, allowsNested, depth + 1)
      } else if (entry !== undefined && (depth === 0 || allowsNested) && isSingleFileSkill(name))
        yield { path, name: basename(name, extname(name)), isAgentSkill: false }
    }
  }

  async #enter(folder: string): Promise<boolean> {
    const real = await realpath(folder).catch(() => undefined)
    if (real === undefined || this.#visited.has(real)) return false
    this.#visited.add(real)
    const { within } = this.#root
    if (within === undefined || isWithin(within, real)) return true
    this.#addIssue(folder, 'leads out of the workspace')
    return false
  }

  async #listNames(folder: string): Promise<string[]> {
    const max = Math.min(maxEntries, this.#remainingEntries)
    const { files, folders, others, isTruncated } = await listFolder(folder, max)
    const names = [...files, ...folders, ...others].sort()
    this.#remainingEntries -= names.length
    if (isTruncated) this.#addIssue(folder, 'has too many entries; not all were read')
    return names
  }
}

function isSingleFileSkill(name: string): boolean {
  return isMarkdownFile(name) && name.toLowerCase() !== 'skill.md'
}
