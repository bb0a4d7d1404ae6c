import { dirname, join, relative } from 'node:path'
import { extensionReaders, type LoadedSkill, readSource, shownSource, sourceOfFolder } from '@slipway/agent'
import type { ExtensionSource, Log, MarketplaceSkill } from '@slipway/protocol'
import type { Fetched } from './source-cache.ts'

/** Older files are fetched again when somebody asks. */
const freshMs = 3_600_000

interface Options {
  /** Undefined: this server has no collection. */
  readonly source: string | undefined
  readonly fetched: Fetched
  readonly log: Log
}

/** The collection of skills that is there for everybody, if the server's settings name one. */
export class PublicSkills {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  get isThere(): boolean {
    return this.#options.source !== undefined
  }

  /** `marketplacePath`: only those that this file of the collection names; where it is not there, all. Rejects only when aborted. */
  async skills(marketplacePath: string | undefined, signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const files = await this.#files(freshMs, signal)
    if (files === undefined) return []
    const skills = await this.#skillsIn(files.directory, signal)
    if (marketplacePath === undefined) return skills
    const { readMarketplace } = await extensionReaders()
    const chosen = await readMarketplace(files.directory, marketplacePath)
    if ('fault' in chosen) {
      this.#report([`the collection ${chosen.fault}`])
      return skills
    }
    const names = new Set(chosen.offers.map(({ name }) => name))
    return skills.filter(({ name }) => names.has(name))
  }

  /** With what an installation names each by. */
  async catalogue(isInstalled: (name: string) => boolean, signal: AbortSignal): Promise<MarketplaceSkill[]> {
    const { source } = this.#options
    const files = await this.#files(freshMs, signal)
    if (files === undefined || source === undefined) return []
    const skills = await this.#skillsIn(files.directory, signal)
    const shown = shownSource(placeOf(source))
    return skills.flatMap(({ name, description = null, file, isAgentSkill }) => {
      if (file === undefined || !isAgentSkill) return []
      const folder = relative(files.directory, dirname(file))
      const place = files.commit === undefined ? join(files.directory, folder) : sourceOfFolder(shown, folder)
      return [{ name, description, source: place, installed: isInstalled(name) }]
    })
  }

  /** Fetches it again. A fault is a sentence that begins with a verb. */
  async sync(signal: AbortSignal): Promise<{ readonly count: number } | { readonly fault: string }> {
    const { source, fetched } = this.#options
    if (source === undefined) return { fault: 'is not configured' }
    const read = readSource(placeOf(source))
    if ('fault' in read) return { fault: `has a bad source: ${read.fault}` }
    const files = await fetched.refresh(read, signal)
    if ('fault' in files) return files
    const { loadCollection } = await extensionReaders()
    return { count: (await loadCollection(files.directory, 'public', signal)).skills.length }
  }

  async #skillsIn(directory: string, signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const { loadCollection } = await extensionReaders()
    const { skills, faults } = await loadCollection(directory, 'public', signal)
    this.#report(faults)
    return skills
  }

  async #files(maxAgeMs: number, signal: AbortSignal) {
    const { source, fetched } = this.#options
    if (source === undefined) return undefined
    const read = readSource(placeOf(source))
    const files =
      'fault' in read
        ? { fault: `has a bad source: ${read.fault}` }
        : await fetched.get(read, maxAgeMs, signal)
    if (!('fault' in files)) return files
    this.#report([`the collection ${files.fault}`])
    return undefined
  }

  #report(faults: readonly string[]): void {
    for (const fault of faults) this.#options.log('warn', 'public skills were passed over', { fault })
  }
}

function placeOf(source: string): ExtensionSource {
  return { source, ref: undefined, repo_path: undefined }
}
