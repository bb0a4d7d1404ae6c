import { basename, dirname, join, relative } from 'node:path'
import {
  extensionReaders,
  type LoadedSkill,
  parseSource,
  publicSource,
  type Source,
  subfolderSource,
} from '@slipway/agent'
import type { ExtensionSource, LogFunction, MarketplaceSkill } from '@slipway/protocol'
import type { OpenMarketplace } from './marketplaces.ts'
import type { SourceCache, SourceFiles } from './source-cache.ts'

/** Older files are fetched again on use. */
const refreshAfterMs = 3_600_000
/** The same for lists of what can be installed; the first list after a start is always of new files. */
const relistAfterMs = 300_000

interface PublicSkillsOptions {
  /** Undefined when the server has no collection. */
  readonly source: string | undefined
  readonly sourceCache: SourceCache
  readonly log: LogFunction
}

/** The collection of skills that the server's settings may name, for all users. */
export class PublicSkills {
  readonly #options: PublicSkillsOptions
  #hasListed = false

  constructor(options: PublicSkillsOptions) {
    this.#options = options
  }

  get isConfigured(): boolean {
    return this.#options.source !== undefined
  }

  /** Only the skills in the file `marketplacePath`, all when it is missing. Rejects only when aborted. */
  async load(marketplacePath: string | undefined, signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const files = await this.#getFiles(refreshAfterMs, signal)
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

  /** The skills with their installation sources. */
  async listMarketplaceSkills(
    isInstalled: (name: string) => boolean,
    signal: AbortSignal,
  ): Promise<MarketplaceSkill[]> {
    const { source } = this.#options
    const files = await this.#getListedFiles(signal)
    if (files === undefined || source === undefined) return []
    const skills = await this.#loadFrom(files.directory, signal)
    const sourceName = publicSource(toExtensionSource(source))
    return skills.flatMap(({ name, description = null, file, isAgentSkill }) => {
      if (file === undefined || !isAgentSkill) return []
      const folder = relative(files.directory, dirname(file))
      // A skill is installed by the name of its folder.
      if (folder !== '' && basename(folder) !== name) return []
      const installSource =
        files.commit === undefined ? join(files.directory, folder) : subfolderSource(sourceName, folder)
      return [{ name, description, source: installSource, installed: isInstalled(name) }]
    })
  }

  /** The plugins that the collection's own catalogue names; undefined without one. */
  async openMarketplace(signal: AbortSignal): Promise<OpenMarketplace | undefined> {
    const { source } = this.#options
    const files = await this.#getListedFiles(signal)
    if (files === undefined || source === undefined) return undefined
    const { readMarketplace } = await extensionReaders()
    const read = await readMarketplace(files.directory)
    if ('issue' in read) return undefined
    const { directory, commit } = files
    const registration = { name: 'public', ...toExtensionSource(source), auto_load: false }
    return { registration, directory, commit, offers: read.offers }
  }

  /** Fetches the collection again. An issue is a sentence that begins with a verb. */
  async sync(signal: AbortSignal): Promise<{ readonly count: number } | { readonly issue: string }> {
    if (!this.isConfigured) return { issue: 'is not configured' }
    const files = await this.#open((source) => this.#options.sourceCache.refresh(source, signal))
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

  async #getListedFiles(signal: AbortSignal) {
    const maxAgeMs = this.#hasListed ? relistAfterMs : 0
    this.#hasListed = true
    return await this.#getFiles(maxAgeMs, signal)
  }

  async #getFiles(maxAgeMs: number, signal: AbortSignal) {
    if (!this.isConfigured) return undefined
    const files = await this.#open((source) => this.#options.sourceCache.get(source, maxAgeMs, signal))
    if (!('issue' in files)) return files
    this.#logIssues([`the collection ${files.issue}`])
    return undefined
  }

  async #open(fetch: (source: Source) => Promise<SourceFiles>): Promise<SourceFiles> {
    const source = parseSource(toExtensionSource(this.#options.source ?? ''))
    return 'issue' in source ? { issue: `has a bad source: ${source.issue}` } : await fetch(source)
  }

  #logIssues(issues: readonly string[]): void {
    for (const issue of issues) this.#options.log('warn', 'public skills were skipped', { issue })
  }
}

function toExtensionSource(source: string): ExtensionSource {
  return { source, ref: undefined, repo_path: undefined }
}
