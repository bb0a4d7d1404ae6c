import {
  type AgentContext,
  type ExtensionSource,
  type HookConfig,
  hookEvents,
  type McpServer,
  Problem,
} from '@slipway/protocol'
import type { SkillAdditions } from '../skills/load.ts'
import type { LoadedSkill } from '../skills/skill.ts'
import type { Plugin } from './plugin.ts'

/**
 * A plugin that cannot be fetched or read; `code` is for the ConversationErrorEvent. The message has no
 * credentials.
 */
export class PluginLoadError extends Error {
  readonly code = 'PluginError'

  override readonly name = 'PluginLoadError'
}

/** The extensions of every conversation of the server. */
export interface CommonExtensions {
  readonly plugins: readonly Plugin[]
  readonly installed: readonly LoadedSkill[]
  readonly others: readonly LoadedSkill[]
  readonly hasPublic: boolean
  /** What was skipped, a sentence each. */
  readonly issues: readonly string[]
}

/** The server's source of plugins and of skills from outside the workspace and the home directory. */
export interface ExtensionProvider {
  /**
   * Enabled installed extensions and those of the context and the server's settings. Rejects only when
   * aborted.
   */
  loadCommon(context: AgentContext | undefined, signal: AbortSignal): Promise<CommonExtensions>
  /**
   * Fetches and reads a plugin. `pinned` is the source of the very same files, without credentials. Rejects
   * with PluginLoadError, and when aborted.
   */
  loadPlugin(
    source: ExtensionSource,
    signal: AbortSignal,
  ): Promise<{ readonly plugin: Plugin; readonly pinned: ExtensionSource }>
}

/** Loads one plugin; throws a Problem `bad_request` when it cannot be loaded. */
export async function loadPluginOrProblem(
  provider: ExtensionProvider | undefined,
  source: ExtensionSource,
  signal: AbortSignal,
): ReturnType<ExtensionProvider['loadPlugin']> {
  if (provider === undefined) throw new Problem('bad_request', 'This server loads no plugins')
  try {
    return await provider.loadPlugin(source, signal)
  } catch (error) {
    if (error instanceof PluginLoadError) throw new Problem('bad_request', error.message)
    throw error
  }
}

/** The conversation's own hooks, then those of its plugins. */
export function mergeHooks(
  ownHooks: HookConfig | undefined,
  plugins: readonly Plugin[],
): HookConfig | undefined {
  return mergeHookConfigs([ownHooks, ...plugins.map(({ hooks }) => hooks)])
}

export function mergeHookConfigs(all: readonly (HookConfig | undefined)[]): HookConfig | undefined {
  const configs = all.filter((config) => config !== undefined)
  const [first, ...others] = configs
  if (first === undefined || others.length === 0) return first
  const merged: HookConfig = { ...first }
  for (const event of hookEvents) merged[event] = configs.flatMap((config) => config[event])
  return merged
}

/** The MCP servers of plugins; the conversation's own servers override them by name. */
export function mergeServers(
  ownServers: Readonly<Record<string, McpServer>>,
  plugins: readonly Plugin[],
): Record<string, McpServer> {
  const entries = plugins.flatMap(({ servers }) => Object.entries(servers)).reverse()
  return { ...Object.fromEntries(entries), ...ownServers }
}

type LoadedPlugin = Awaited<ReturnType<ExtensionProvider['loadPlugin']>>

/** The plugins of one loaded conversation, and the extensions that the server adds. */
export class ConversationExtensions {
  readonly #provider: ExtensionProvider | undefined
  #common: CommonExtensions = { plugins: [], installed: [], others: [], hasPublic: false, issues: [] }
  /** Requested plugins that are not loaded, because one of them failed. */
  #missing: readonly ExtensionSource[]
  #loaded: readonly LoadedPlugin[] = []
  #loading: Promise<void> | undefined

  private constructor(provider: ExtensionProvider | undefined, sources: readonly ExtensionSource[]) {
    this.#provider = provider
    this.#missing = sources
  }

  /** When a plugin fails, `loadMissing` tries again. Rejects only when aborted. */
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

  /** Whether all requested plugins are loaded. */
  get isComplete(): boolean {
    return this.#missing.length === 0
  }

  /**
   * Loads the missing plugins, all or none; concurrent calls share the load. Rejects with PluginLoadError.
   */
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

  /** The pinned sources with one more plugin, not announced to the model yet. */
  pinnedWith(loaded: LoadedPlugin): readonly ExtensionSource[] {
    const others = this.#others(loaded).map(({ pinned }) => pinned)
    return [...this.#missing, ...others, { ...loaded.pinned, is_untold: true }]
  }

  /** Adds a plugin; it replaces one of the same name. */
  add(loaded: LoadedPlugin): void {
    this.#loaded = [...this.#others(loaded), loaded]
  }

  /** The sources of the same plugins; undefined while one is missing. */
  get pinned(): readonly ExtensionSource[] | undefined {
    return this.isComplete ? this.#loaded.map(({ pinned }) => pinned) : undefined
  }

  /** Each name once: the conversation's own, the last of a name, then those of the server. */
  get plugins(): readonly Plugin[] {
    return [...this.ownPlugins, ...this.#commonPlugins]
  }

  get skills(): SkillAdditions {
    const { installed, others, hasPublic } = this.#common
    return {
      plugins: this.ownPlugins.flatMap(({ skills }) => skills),
      installed: [...installed, ...this.#commonPlugins.flatMap(({ skills }) => skills)],
      others,
      hasPublic,
    }
  }

  get issues(): readonly string[] {
    return [...this.#common.issues, ...this.plugins.flatMap(({ issues }) => issues)]
  }

  #others({ plugin }: LoadedPlugin): readonly LoadedPlugin[] {
    return this.#loaded.filter((other) => other.plugin.name !== plugin.name)
  }

  /** Those of the conversation itself. */
  get ownPlugins(): readonly Plugin[] {
    const plugins = this.#loaded.map(({ plugin }) => plugin)
    return plugins.filter((plugin, at) => plugins.findLastIndex(({ name }) => name === plugin.name) === at)
  }

  get #commonPlugins(): readonly Plugin[] {
    const names = new Set(this.#loaded.map(({ plugin }) => plugin.name))
    return this.#common.plugins.filter(({ name }) => !names.has(name))
  }
}
