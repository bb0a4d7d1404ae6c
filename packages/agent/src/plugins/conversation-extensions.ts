import type { AgentContext, ExtensionSource, HookConfig, McpServer } from '@slipway/protocol'
import type { SkillAdditions } from '../skills/load.ts'
import {
  type ExtensionProvider,
  effectivePlugins,
  type LoadedExtensions,
  mergeHooks,
  mergeServers,
  noExtensions,
  PluginLoadError,
  skillAdditions,
} from './extensions.ts'
import type { Plugin } from './plugin.ts'

interface LoadedPlugin {
  readonly plugin: Plugin
  readonly pinned: ExtensionSource
}

/** What plugins and the server bring to one conversation while it is loaded. */
export class ConversationExtensions {
  readonly #provider: ExtensionProvider | undefined
  #common: LoadedExtensions['common'] = noExtensions.common
  /** Those that were asked for and are not loaded, because one of them cannot be. */
  #missing: readonly ExtensionSource[]
  #loaded: readonly LoadedPlugin[] = []
  #loading: Promise<void> | undefined

  private constructor(provider: ExtensionProvider | undefined, sources: readonly ExtensionSource[]) {
    this.#provider = provider
    this.#missing = sources
  }

  /** A plugin that fails waits for `complete`. Rejects only when aborted. */
  static async open(
    from: {
      readonly provider: ExtensionProvider | undefined
      readonly sources: readonly ExtensionSource[]
      readonly context: AgentContext | undefined
    },
    signal: AbortSignal,
  ): Promise<ConversationExtensions> {
    const { provider, sources, context } = from
    const extensions = new ConversationExtensions(provider, sources)
    if (provider !== undefined) extensions.#common = await provider.loadCommon(context, signal)
    await extensions.loadMissing(signal).catch((error: unknown) => {
      if (!(error instanceof PluginLoadError)) throw error
    })
    return extensions
  }

  /** All plugins that were asked for are loaded. */
  get isComplete(): boolean {
    return this.#missing.length === 0
  }

  /** Loads what is missing, once for all who ask; rejects with PluginFailure when one cannot be loaded, and then as before. */
  async loadMissing(signal: AbortSignal): Promise<void> {
    this.#loading ??= this.#loadAllMissing(signal).finally(() => {
      this.#loading = undefined
    })
    await this.#loading
  }

  async #loadAllMissing(signal: AbortSignal): Promise<void> {
    const loaded: LoadedPlugin[] = []
    for (const source of this.#missing) {
      if (this.#provider === undefined) throw new PluginLoadError('This server loads no plugins')
      loaded.push(await this.#provider.loadPlugin(source, signal))
    }
    this.#missing = []
    this.#loaded = [...this.#loaded, ...loaded]
  }

  /** What the plugins would be named by with one more, of which nobody has been told. */
  pinnedWith(loaded: LoadedPlugin): readonly ExtensionSource[] {
    const others = this.#others(loaded).map(({ pinned }) => pinned)
    return [...this.#missing, ...others, { ...loaded.pinned, is_untold: true }]
  }

  /** One more; of two plugins of one name the later counts. */
  add(loaded: LoadedPlugin): void {
    this.#loaded = [...this.#others(loaded), loaded]
  }

  /** What names the same plugins again; undefined while one is missing. */
  get pinned(): readonly ExtensionSource[] | undefined {
    return this.isComplete ? this.#loaded.map(({ pinned }) => pinned) : undefined
  }

  get plugins(): readonly Plugin[] {
    return effectivePlugins(this.#extensions)
  }

  get skills(): SkillAdditions {
    return skillAdditions(this.#extensions)
  }

  get issues(): readonly string[] {
    return [...this.#common.issues, ...this.plugins.flatMap(({ issues }) => issues)]
  }

  hooks(own: HookConfig | undefined): HookConfig | undefined {
    return mergeHooks(own, this.plugins)
  }

  /** The same without those that every conversation has: a conversation that does a task has these by itself. */
  hooksForTasks(own: HookConfig | undefined): HookConfig | undefined {
    return mergeHooks(own, effectivePlugins({ ...this.#extensions, common: noExtensions.common }))
  }

  servers(own: Readonly<Record<string, McpServer>>): Record<string, McpServer> {
    return mergeServers(own, this.plugins)
  }

  #others({ plugin }: LoadedPlugin): readonly LoadedPlugin[] {
    return this.#loaded.filter((other) => other.plugin.name !== plugin.name)
  }

  /** Without those of plugins that every conversation has. */
  ownServers(own: Readonly<Record<string, McpServer>>): Record<string, McpServer> {
    return mergeServers(own, effectivePlugins({ ...this.#extensions, common: noExtensions.common }))
  }

  get #extensions(): LoadedExtensions {
    return { own: this.#loaded.map(({ plugin }) => plugin), common: this.#common }
  }
}
