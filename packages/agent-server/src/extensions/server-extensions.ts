import { join } from 'node:path'
import {
  type CommonExtensions,
  type Extensions,
  extensionReaders,
  type LoadedSkill,
  type Plugin,
  readSource,
  shownSource,
} from '@slipway/agent'
import {
  type AgentContext,
  type ExtensionSource,
  type MarketplaceRegistration,
  Problem,
} from '@slipway/protocol'
import { codeOf } from '@slipway/storage'
import type { Installed } from './installed-extensions.ts'
import { isLoaded, type Marketplaces, sourceOf } from './marketplaces.ts'
import type { PublicSkills } from './public-skills.ts'
import type { Fetched } from './source-cache.ts'

/** A plugin that is asked for by a branch is looked for anew after this. */
const freshMs = 60_000

interface Options {
  readonly skills: Installed
  readonly plugins: Installed
  readonly marketplaces: Marketplaces
  readonly publicSkills: PublicSkills
  /** The files of plugins that conversations have; they stay. */
  readonly fetched: Fetched
}

/** What this server brings to conversations: what is installed, what marketplaces load, public skills, and plugins on demand. */
export class ServerExtensions implements Extensions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  async common(context: AgentContext | undefined, signal: AbortSignal): Promise<CommonExtensions> {
    const { publicSkills } = this.#options
    const hasPublic = publicSkills.isThere
    const [skills, installed, market, others] = [
      await this.installedSkills(),
      await this.installedPlugins(signal),
      await this.autoLoaded(context?.registered_marketplaces ?? [], signal),
      context?.load_public_skills ? await publicSkills.skills(context.marketplace_path, signal) : [],
    ]
    return {
      plugins: [...installed.plugins, ...market.plugins],
      installed: skills.skills,
      others: [...others, ...market.skills],
      hasPublic,
      faults: [...skills.faults, ...installed.faults, ...market.faults],
    }
  }

  async plugin(
    given: ExtensionSource,
    signal: AbortSignal,
  ): Promise<{ readonly plugin: Plugin; readonly pinned: ExtensionSource }> {
    const { PluginFailure, readPlugin } = await extensionReaders()
    const shown = shownSource(given)
    const fail = (fault: string) => new PluginFailure(`The plugin ${shown.source} ${fault}`)
    const source = readSource(given)
    if ('fault' in source) throw fail(`has a bad ${source.member}: ${source.fault}`)
    const files = await this.#options.fetched.get(source, freshMs, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      return { fault: `cannot be kept (${error instanceof Problem ? error.message : codeOf(error)})` }
    })
    if ('fault' in files) throw fail(files.fault)
    const plugin = await readPlugin(files.directory, signal)
    if ('fault' in plugin) throw fail(plugin.fault)
    return { plugin, pinned: { ...shown, ref: files.commit ?? given.ref } }
  }

  /** Those that are enabled. */
  async installedSkills(): Promise<{
    readonly skills: readonly LoadedSkill[]
    readonly faults: readonly string[]
  }> {
    const { loadSkillFolder } = await extensionReaders()
    const { enabled, faults } = await enabledIn(this.#options.skills)
    const loaded = await Promise.all(
      enabled.map(async ({ install_path }) => await loadSkillFolder(install_path, 'installed')),
    )
    return {
      skills: loaded.flatMap(({ skills }) => skills),
      faults: [...faults, ...loaded.flatMap(({ faults }) => faults)],
    }
  }

  /** Those that are enabled. */
  async installedPlugins(
    signal: AbortSignal,
  ): Promise<{ readonly plugins: readonly Plugin[]; readonly faults: readonly string[] }> {
    const { readPlugin } = await extensionReaders()
    const { enabled, faults } = await enabledIn(this.#options.plugins)
    const read = await Promise.all(
      enabled.map(async ({ name, install_path }) => ({ name, read: await readPlugin(install_path, signal) })),
    )
    return {
      plugins: read.flatMap(({ read }) => ('fault' in read ? [] : [read])),
      faults: [
        ...faults,
        ...read.flatMap(({ name, read }) => ('fault' in read ? [`plugin ${name}: ${read.fault}`] : [])),
      ],
    }
  }

  /** What the marketplaces of the server, and others, load for every conversation. */
  async autoLoaded(
    others: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<{
    readonly plugins: readonly Plugin[]
    readonly skills: readonly LoadedSkill[]
    readonly faults: readonly string[]
  }> {
    const { marketplaces } = this.#options
    const wanted = marketplaces.all(others).filter(({ auto_load }) => auto_load !== false)
    const plugins: Plugin[] = []
    const skills: LoadedSkill[] = []
    const faults: string[] = []
    const { loadSkillFolder, PluginFailure } = await extensionReaders()
    for (const open of await marketplaces.opened(wanted, signal)) {
      for (const offer of open.offers.filter((one) => isLoaded(open.registration, one))) {
        if (!offer.isPlugin) {
          const loaded = await loadSkillFolder(join(open.directory, offer.folder ?? ''), 'marketplace')
          skills.push(...loaded.skills)
          faults.push(...loaded.faults)
          continue
        }
        await this.plugin(sourceOf(open, offer), signal).then(
          ({ plugin }) => plugins.push(plugin),
          (error: unknown) => {
            if (!(error instanceof PluginFailure)) throw error
            faults.push(error.message)
          },
        )
      }
    }
    return { plugins, skills, faults }
  }
}

/** An index that cannot be read keeps nobody from a conversation. */
async function enabledIn(installed: Installed) {
  try {
    return { enabled: (await installed.list()).filter((one) => one.enabled), faults: [] }
  } catch (error) {
    const reason = error instanceof Problem ? error.message : String(codeOf(error))
    return { enabled: [], faults: [`the list of what is installed: ${reason}`] }
  }
}
