import { lstat, readdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { extensionReaders, type Plugin } from '@slipway/agent'
import type {
  InstalledPlugin,
  InstalledSkill,
  LogFunction,
  MarketplacePlugin,
  MarketplaceSkill,
  PluginInfo,
} from '@slipway/protocol'
import type { InstalledExtensions } from './installed-extensions.ts'
import {
  type Marketplaces,
  type OpenMarketplace,
  offerInstallSource,
  publicOfferSource,
} from './marketplaces.ts'
import type { PublicSkills } from './public-skills.ts'

const pluginDirectories = ['.agents/plugins', '.openhands/plugins']
const maxFolders = 200

interface PluginListOptions {
  readonly homeDirectory: string | undefined
  readonly installed: InstalledExtensions
  readonly marketplaces: Marketplaces
  readonly publicSkills: Pick<PublicSkills, 'openMarketplace'>
  readonly log: LogFunction
}

/** Plugins as clients see them. Invalid files are skipped and logged. */
export class PluginList {
  readonly #options: PluginListOptions

  constructor(options: PluginListOptions) {
    this.#options = options
  }

  /**
   * Plugins of a project and of the repository around it, of the user, and those that are installed and
   * enabled, each name once, in this order.
   */
  async list(
    query: { readonly isUser: boolean; readonly project: string | undefined },
    signal: AbortSignal,
  ): Promise<PluginInfo[]> {
    const root = query.project === undefined ? undefined : await findRepositoryRoot(query.project)
    const project = [query.project, ...(root === query.project ? [] : [root])]
    const bases = [...project, query.isUser ? this.#options.homeDirectory : undefined]
    const found = new Map<string, PluginInfo>()
    for (const base of bases.filter((one) => one !== undefined)) {
      for (const plugin of await this.#readPluginsBelow(base, signal)) {
        if (!found.has(plugin.name)) found.set(plugin.name, toPluginInfo(plugin))
      }
    }
    if (query.isUser) {
      const { readPlugin } = await extensionReaders()
      for (const { install_path } of (await this.#options.installed.list()).filter(
        ({ enabled }) => enabled,
      )) {
        const plugin = await readPlugin(install_path, signal, { takesBareFolder: true })
        if (!('issue' in plugin) && !found.has(plugin.name)) found.set(plugin.name, toPluginInfo(plugin))
      }
    }
    return [...found.values()]
  }

  /** Adds the contents of a plugin, null when it cannot be read. */
  async withContents(installed: InstalledSkill, signal: AbortSignal): Promise<InstalledPlugin> {
    const { readPlugin } = await extensionReaders()
    const plugin = await readPlugin(installed.install_path, signal, { takesBareFolder: true })
    if ('issue' in plugin) return { ...installed, skills: null, files: null }
    const { skills, files } = toPluginInfo(plugin)
    return { ...installed, skills, files }
  }

  async listMarketplacePlugins(signal: AbortSignal): Promise<MarketplacePlugin[]> {
    const { marketplaces, installed, publicSkills } = this.#options
    const isInstalled = await installed.getInstalledCheck()
    const openMarketplaces = await marketplaces.openAll(marketplaces.listRegistrations(), signal)
    const collection = await publicSkills.openMarketplace(signal)
    const plugins: MarketplacePlugin[] = []
    for (const one of collection === undefined ? openMarketplaces : [collection, ...openMarketplaces]) {
      for (const offer of one.offers.filter(({ isPlugin }) => isPlugin)) {
        const {
          source,
          ref = null,
          repo_path = null,
        } = one === collection ? { source: offerInstallSource(one, offer) } : publicOfferSource(one, offer)
        const { name, description = null } = offer
        const contents = await this.#readContents(one, offer.folder, signal)
        plugins.push({ name, description, source, ref, repo_path, installed: isInstalled(name), ...contents })
      }
    }
    return plugins
  }

  /** The skills in the marketplaces that belong to no plugin. */
  async listMarketplaceSkills(
    isInstalled: (name: string) => boolean,
    signal: AbortSignal,
  ): Promise<MarketplaceSkill[]> {
    const { marketplaces } = this.#options
    const openMarketplaces = await marketplaces.openAll(marketplaces.listRegistrations(), signal)
    return openMarketplaces.flatMap((one) =>
      one.offers
        .filter(({ isPlugin }) => !isPlugin)
        .map((offer) => ({
          name: offer.name,
          description: offer.description ?? null,
          source: offerInstallSource(one, offer),
          installed: isInstalled(offer.name),
        })),
    )
  }

  /** The contents of a plugin in the marketplace itself. */
  async #readContents({ directory }: OpenMarketplace, folder: string | undefined, signal: AbortSignal) {
    const none = { path: null, skills: null, files: null }
    if (folder === undefined) return none
    const { readPlugin } = await extensionReaders()
    const path = join(directory, folder)
    const plugin = await readPlugin(path, signal)
    if ('issue' in plugin) return none
    const { skills, files } = toPluginInfo(plugin)
    return { path, skills, files }
  }

  async #readPluginsBelow(base: string, signal: AbortSignal): Promise<Plugin[]> {
    return (await readPluginsBelow(base, signal)).flatMap(({ folder, plugin }) => {
      if (!('issue' in plugin)) return [plugin]
      this.#options.log('warn', 'a plugin was skipped', { folder, fault: plugin.issue })
      return []
    })
  }
}

/** The plugins in the folders of a project or of a user. */
export async function readPluginsBelow(base: string, signal: AbortSignal) {
  const { readPlugin } = await extensionReaders()
  const found: { readonly folder: string; readonly plugin: Plugin | { readonly issue: string } }[] = []
  for (const directory of pluginDirectories) {
    const folders = await readdir(join(base, directory), { withFileTypes: true }).catch(() => [])
    for (const { name } of folders.filter((entry) => entry.isDirectory()).slice(0, maxFolders))
      found.push({ folder: name, plugin: await readPlugin(join(base, directory, name), signal) })
  }
  return found
}

/** The nearest folder with a `.git`, this one or one above; undefined without. */
async function findRepositoryRoot(directory: string): Promise<string | undefined> {
  for (let path = resolve(directory); ; path = dirname(path)) {
    if (await lstat(join(path, '.git')).catch(() => undefined)) return path
    if (path === dirname(path)) return undefined
  }
}

function toPluginInfo({ name, version, description, directory, skills, files }: Plugin): PluginInfo {
  return {
    name,
    version,
    description,
    path: directory,
    skills: skills.map((skill) => ({ name: skill.name, description: skill.description ?? null })),
    files: [...files],
  }
}
