import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { extensionReaders, type Plugin } from '@slipway/agent'
import type {
  InstalledPlugin,
  InstalledSkill,
  Log,
  MarketplacePlugin,
  MarketplaceSkill,
  PluginInfo,
} from '@slipway/protocol'
import type { Installed } from './installed-extensions.ts'
import { type Marketplaces, type OpenMarketplace, shownOffer, shownText } from './marketplaces.ts'

const places = ['.agents/plugins', '.openhands/plugins']
const maxFolders = 200

interface Options {
  readonly home: string | undefined
  readonly installed: Installed
  readonly marketplaces: Marketplaces
  readonly log: Log
}

/** Plugins as clients see them. Files are what somebody else wrote: bad ones are passed over and logged. */
export class PluginList {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Those in folders of a project and of the user, by name; of two of one name the project's. */
  async plugins(
    wanted: { readonly isUser: boolean; readonly project: string | undefined },
    signal: AbortSignal,
  ): Promise<PluginInfo[]> {
    const bases = [wanted.project, wanted.isUser ? this.#options.home : undefined]
    const found = new Map<string, PluginInfo>()
    for (const base of bases.filter((one) => one !== undefined)) {
      for (const plugin of await this.#below(base, signal)) {
        if (!found.has(plugin.name)) found.set(plugin.name, infoOf(plugin))
      }
    }
    return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** With what is in it, as far as that can be read. */
  async withContents(installed: InstalledSkill, signal: AbortSignal): Promise<InstalledPlugin> {
    const { readPlugin } = await extensionReaders()
    const plugin = await readPlugin(installed.install_path, signal)
    if ('fault' in plugin) return { ...installed, skills: null, files: null }
    const { skills, files } = infoOf(plugin)
    return { ...installed, skills, files }
  }

  /** What the marketplaces of this server offer. */
  async catalogue(signal: AbortSignal): Promise<MarketplacePlugin[]> {
    const { marketplaces, installed } = this.#options
    const isInstalled = await installed.isInstalled()
    const open = await marketplaces.opened(marketplaces.all(), signal)
    const found: MarketplacePlugin[] = []
    for (const one of open) {
      for (const offer of one.offers.filter(({ isPlugin }) => isPlugin)) {
        const { source, ref = null, repo_path = null } = shownOffer(one, offer)
        const { name, description = null } = offer
        const contents = await this.#contents(one, offer.folder, signal)
        found.push({ name, description, source, ref, repo_path, installed: isInstalled(name), ...contents })
      }
    }
    return found
  }

  /** The skills among it, which are of no plugin. */
  async skillCatalogue(
    isInstalled: (name: string) => boolean,
    signal: AbortSignal,
  ): Promise<MarketplaceSkill[]> {
    const { marketplaces } = this.#options
    const open = await marketplaces.opened(marketplaces.all(), signal)
    return open.flatMap((one) =>
      one.offers
        .filter(({ isPlugin }) => !isPlugin)
        .map((offer) => ({
          name: offer.name,
          description: offer.description ?? null,
          source: shownText(one, offer),
          installed: isInstalled(offer.name),
        })),
    )
  }

  /** Of a plugin that lies in the marketplace itself. */
  async #contents({ directory, commit }: OpenMarketplace, folder: string | undefined, signal: AbortSignal) {
    const none = { path: null, skills: null, files: null }
    if (folder === undefined) return none
    const { readPlugin } = await extensionReaders()
    const path = join(directory, folder)
    const plugin = await readPlugin(path, signal)
    if ('fault' in plugin) return none
    const { skills, files } = infoOf(plugin)
    return { path: commit === undefined ? path : null, skills, files }
  }

  async #below(base: string, signal: AbortSignal): Promise<Plugin[]> {
    const { readPlugin } = await extensionReaders()
    const found: Plugin[] = []
    for (const place of places) {
      const folders = await readdir(join(base, place), { withFileTypes: true }).catch(() => [])
      for (const { name } of folders.filter((entry) => entry.isDirectory()).slice(0, maxFolders)) {
        const plugin = await readPlugin(join(base, place, name), signal)
        if ('fault' in plugin)
          this.#options.log('warn', 'a plugin was passed over', { folder: name, fault: plugin.fault })
        else found.push(plugin)
      }
    }
    return found
  }
}

function infoOf({ name, version, description, directory, skills, files }: Plugin): PluginInfo {
  return {
    name,
    version,
    description,
    path: directory,
    skills: skills.map((skill) => ({ name: skill.name, description: skill.description ?? null })),
    files: [...files],
  }
}
