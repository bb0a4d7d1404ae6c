import { join } from 'node:path'
import {
  type CommonExtensions,
  type ExtensionProvider,
  extensionReaders,
  type LoadedSkill,
  type Plugin,
  parseSource,
  publicSource,
} from '@slipway/agent'
import {
  type AgentContext,
  type ExtensionSource,
  type MarketplaceRegistration,
  Problem,
} from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import type { InstalledExtensions } from './installed-extensions.ts'
import { isAutoLoaded, type Marketplaces, offerSource } from './marketplaces.ts'
import { readPluginsBelow } from './plugin-list.ts'
import type { PublicSkills } from './public-skills.ts'
import type { SourceCache } from './source-cache.ts'

/** A plugin at a branch is fetched again after this. */
const maxPluginAgeMs = 60_000

interface ServerExtensionsOptions {
  readonly skills: InstalledExtensions
  readonly plugins: InstalledExtensions
  readonly marketplaces: Marketplaces
  readonly publicSkills: PublicSkills
  /** Where the user's own plugins are; undefined without a home directory. */
  readonly homeDirectory: string | undefined
  /** The files of plugins of conversations; they stay. */
  readonly sourceCache: SourceCache
}

/** Extensions of conversations: installed, of marketplaces, public skills, and plugins on demand. */
export class ServerExtensions implements ExtensionProvider {
  readonly #options: ServerExtensionsOptions

  constructor(options: ServerExtensionsOptions) {
    this.#options = options
  }

  async loadCommon(context: AgentContext | undefined, signal: AbortSignal): Promise<CommonExtensions> {
    const { publicSkills } = this.#options
    const [skills, user, installed, marketplace, others] = [
      await this.loadInstalledSkills(),
      await this.#loadUserPlugins(signal),
      await this.loadInstalledPlugins(signal),
      await this.loadMarketplaceExtensions(context?.registered_marketplaces ?? [], signal),
      context?.load_public_skills ? await publicSkills.load(context.marketplace_path, signal) : [],
    ]
    return {
      plugins: uniqueByName([...user.plugins, ...installed.plugins, ...marketplace.plugins]),
      installed: skills.skills,
      others: [...others, ...marketplace.skills],
      hasPublic: publicSkills.isConfigured,
      issues: [...skills.issues, ...user.issues, ...installed.issues, ...marketplace.issues],
    }
  }

  async loadPlugin(
    requested: ExtensionSource,
    signal: AbortSignal,
  ): Promise<{ readonly plugin: Plugin; readonly pinned: ExtensionSource }> {
    const { PluginLoadError, readPlugin } = await extensionReaders()
    const redactedSource = publicSource(requested)
    const failure = (issue: string) => new PluginLoadError(`The plugin ${redactedSource.source} ${issue}`)
    const source = parseSource(requested)
    if ('issue' in source) throw failure(`has a bad ${source.member}: ${source.issue}`)
    const files = await this.#options.sourceCache
      .get(source, maxPluginAgeMs, signal)
      .catch((error: unknown) => {
        signal.throwIfAborted()
        return { issue: `cannot be stored (${error instanceof Problem ? error.message : errorCode(error)})` }
      })
    if ('issue' in files) throw failure(files.issue)
    const plugin = await readPlugin(files.directory, signal)
    if ('issue' in plugin) throw failure(plugin.issue)
    return { plugin, pinned: { ...redactedSource, ref: files.commit ?? requested.ref } }
  }

  async loadInstalledSkills() {
    const { loadSkillFolder } = await extensionReaders()
    const { enabled, issues } = await listEnabled(this.#options.skills)
    const loaded = await Promise.all(
      enabled.map(async ({ install_path }) => await loadSkillFolder(install_path, 'installed')),
    )
    return {
      skills: loaded.flatMap(({ skills }) => skills),
      issues: [...issues, ...loaded.flatMap(({ issues }) => issues)],
    }
  }

  async #loadUserPlugins(signal: AbortSignal) {
    const { homeDirectory } = this.#options
    const read = homeDirectory === undefined ? [] : await readPluginsBelow(homeDirectory, signal)
    return {
      plugins: read.flatMap(({ plugin }) => ('issue' in plugin ? [] : [plugin])),
      issues: read.flatMap(({ folder, plugin }) =>
        'issue' in plugin ? [`plugin ${folder}: ${plugin.issue}`] : [],
      ),
    }
  }

  async loadInstalledPlugins(signal: AbortSignal) {
    const { readPlugin } = await extensionReaders()
    const { enabled, issues } = await listEnabled(this.#options.plugins)
    const read = await Promise.all(
      enabled.map(async ({ name, install_path }) => ({
        name,
        read: await readPlugin(install_path, signal, { takesBareFolder: true }),
      })),
    )
    return {
      plugins: read.flatMap(({ read }) => ('issue' in read ? [] : [read])),
      issues: [
        ...issues,
        ...read.flatMap(({ name, read }) => ('issue' in read ? [`plugin ${name}: ${read.issue}`] : [])),
      ],
    }
  }

  /** The automatically loaded extensions of all marketplaces. */
  async loadMarketplaceExtensions(others: readonly MarketplaceRegistration[], signal: AbortSignal) {
    const { marketplaces } = this.#options
    const registrations = marketplaces
      .listRegistrations(others)
      .filter(({ auto_load }) => auto_load !== false)
    const plugins: Plugin[] = []
    const skills: LoadedSkill[] = []
    const issues: string[] = []
    const { loadSkillFolder, PluginLoadError } = await extensionReaders()
    for (const marketplace of await marketplaces.openAll(registrations, signal)) {
      for (const offer of marketplace.offers.filter((one) => isAutoLoaded(marketplace.registration, one))) {
        if (!offer.isPlugin) {
          const loaded = await loadSkillFolder(join(marketplace.directory, offer.folder ?? ''), 'marketplace')
          skills.push(...loaded.skills)
          issues.push(...loaded.issues)
          continue
        }
        await this.loadPlugin(offerSource(marketplace, offer), signal).then(
          ({ plugin }) => plugins.push(plugin),
          (error: unknown) => {
            if (!(error instanceof PluginLoadError)) throw error
            issues.push(error.message)
          },
        )
      }
    }
    return { plugins, skills, issues }
  }
}

function uniqueByName(plugins: readonly Plugin[]): readonly Plugin[] {
  return plugins.filter(({ name }, at) => plugins.findIndex((one) => one.name === name) === at)
}

/** An unreadable index is an issue, so that conversations can start. */
async function listEnabled(installed: InstalledExtensions) {
  try {
    return { enabled: (await installed.list()).filter((one) => one.enabled), issues: [] }
  } catch (error) {
    const reason = error instanceof Problem ? error.message : String(errorCode(error))
    return { enabled: [], issues: [`the list of what is installed: ${reason}`] }
  }
}
