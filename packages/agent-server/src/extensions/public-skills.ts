import { dirname, join, relative } from 'node:path'
import {
  extensionReaders,
  type LoadedSkill,
  parseSource,
  publicSource,
  subfolderSource,
} from '@slipway/agent'
import type { ExtensionSource, LogFunction, MarketplaceSkill } from '@slipway/protocol'
import type { SourceCache } from './source-cache.ts'

/** Older files are fetched again when somebody asks. */
const refreshAfterMs = 3_600_000

interface PublicSkillsOptions {
  /** Undefined: this server has no collection. */
  readonly source: string | undefined
  readonly sourceCache: SourceCache
  readonly log: LogFunction
}

/** The collection of skills that is there for everybody, if the server's settings name one. */
export class PublicSkills {
  readonly #options: PublicSkillsOptions

  constructor(options: PublicSkillsOptions) {
    this.#options = options
  }

  get isConfigured(): boolean {
    return this.#options.source !== undefined
  }

  /** `marketplacePath`: only those that this file of the collection names; where it is not there, all. Rejects only when aborted. */
  async load(marketplacePath: string | undefined, signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const files = await this.#fetchFiles(refreshAfterMs, signal)
    if (files === undefined) return []
    const skills = await this.#loadFrom(files.directory, signal)
    if (marketplacePath === undefined) return skills
    const { readMarketplace } = await extensionReaders()
    const marketplace = await readMarketplace(files.directory, marketplacePath)
    if ('issue' in marketplace) {
      this.#logIssues([`the collection ${marketplace.issue}`])
      return skills
    }
    const names = new Set(marketplace.offers.map(({ name }) => name))
    return skills.filter(({ name }) => names.has(name))
  }

  /** With what an installation names each by. */
  async listMarketplaceSkills(
    isInstalled: (name: string) => boolean,
    signal: AbortSignal,
  ): Promise<MarketplaceSkill[]> {
    const { source } = this.#options
    const files = await this.#fetchFiles(refreshAfterMs, signal)
    if (files === undefined || source === undefined) return []
    const skills = await this.#loadFrom(files.directory, signal)
    const sourceName = publicSource(toExtensionSource(source))
    return skills.flatMap(({ name, description = null, file, isAgentSkill }) => {
      if (file === undefined || !isAgentSkill) return []
      const folder = relative(files.directory, dirname(file))
      const installSource =
        files.commit === undefined ? join(files.directory, folder) : subfolderSource(sourceName, folder)
      return [{ name, description, source: installSource, installed: isInstalled(name) }]
    })
  }

  /** Fetches it again. A fault is a sentence that begins with a verb. */
  async sync(signal: AbortSignal): Promise<{ readonly count: number } | { readonly issue: string }> {
    const { source, sourceCache } = this.#options
    if (source === undefined) return { issue: 'is not configured' }
    const read = parseSource(toExtensionSource(source))
    if ('issue' in read) return { issue: `has a bad source: ${read.issue}` }
    const files = await sourceCache.refresh(read, signal)
    if ('issue' in files) return files
    const { loadCollection } = await extensionReaders()
    return { count: (await loadCollection(files.directory, 'public', signal)).skills.length }
  }

  async #loadFrom(directory: string, signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const { loadCollection } = await extensionReaders()
    const { skills, issues } = await loadCollection(directory, 'public', signal)
    this.#logIssues(issues)
    return skills
  }

  async #fetchFiles(maxAgeMs: number, signal: AbortSignal) {
    const { source, sourceCache } = this.#options
    if (source === undefined) return undefined
    const read = parseSource(toExtensionSource(source))
    const files =
      'issue' in read
        ? { issue: `has a bad source: ${read.issue}` }
        : await sourceCache.get(read, maxAgeMs, signal)
    if (!('issue' in files)) return files
    this.#logIssues([`the collection ${files.issue}`])
    return undefined
  }

  #logIssues(issues: readonly string[]): void {
    for (const issue of issues) this.#options.log('warn', 'public skills were passed over', { issue: issue })
  }
}

function toExtensionSource(source: string): ExtensionSource {
  return { source, ref: undefined, repo_path: undefined }
}
