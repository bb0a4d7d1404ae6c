import type { AgentContext, ExtensionSource, HookConfig, McpServer } from '@slipway/protocol'
import type { SkillAdditions } from '../skills/load.ts'
import {
  type Brought,
  type Extensions,
  hooksOf,
  nothingBrought,
  PluginFailure,
  pluginsOf,
  serversOf,
  skillsOf,
} from './extensions.ts'
import type { Plugin } from './plugin.ts'

interface Loaded {
  readonly plugin: Plugin
  readonly pinned: ExtensionSource
}

/** What plugins and the server bring to one conversation while it is loaded. */
export class Extras {
  readonly #port: Extensions | undefined
  #common: Brought['common'] = nothingBrought.common
  /** Those that were asked for and are not loaded, because one of them cannot be. */
  #missing: readonly ExtensionSource[]
  #loaded: readonly Loaded[] = []
  #completing: Promise<void> | undefined

  private constructor(port: Extensions | undefined, sources: readonly ExtensionSource[]) {
    this.#port = port
    this.#missing = sources
  }

  /** A plugin that fails waits for `complete`. Rejects only when aborted. */
  static async open(
    from: {
      readonly port: Extensions | undefined
      readonly sources: readonly ExtensionSource[]
      readonly context: AgentContext | undefined
    },
    signal: AbortSignal,
  ): Promise<Extras> {
    const { port, sources, context } = from
    const extras = new Extras(port, sources)
    if (port !== undefined) extras.#common = await port.common(context, signal)
    await extras.complete(signal).catch((error: unknown) => {
      if (!(error instanceof PluginFailure)) throw error
    })
    return extras
  }

  /** All plugins that were asked for are loaded. */
  get isComplete(): boolean {
    return this.#missing.length === 0
  }

  /** Loads what is missing, once for all who ask; rejects with PluginFailure when one cannot be loaded, and then as before. */
  async complete(signal: AbortSignal): Promise<void> {
    this.#completing ??= this.#complete(signal).finally(() => {
      this.#completing = undefined
    })
    await this.#completing
  }

  async #complete(signal: AbortSignal): Promise<void> {
    const loaded: Loaded[] = []
    for (const source of this.#missing) {
      if (this.#port === undefined) throw new PluginFailure('This server loads no plugins')
      loaded.push(await this.#port.plugin(source, signal))
    }
    this.#missing = []
    this.#loaded = [...this.#loaded, ...loaded]
  }

  /** What the plugins would be named by with one more, of which nobody has been told. */
  with(loaded: Loaded): readonly ExtensionSource[] {
    const others = this.#others(loaded).map(({ pinned }) => pinned)
    return [...this.#missing, ...others, { ...loaded.pinned, is_untold: true }]
  }

  /** One more; of two plugins of one name the later counts. */
  add(loaded: Loaded): void {
    this.#loaded = [...this.#others(loaded), loaded]
  }

  /** What names the same plugins again; undefined while one is missing. */
  get pinned(): readonly ExtensionSource[] | undefined {
    return this.isComplete ? this.#loaded.map(({ pinned }) => pinned) : undefined
  }

  get plugins(): readonly Plugin[] {
    return pluginsOf(this.#brought)
  }

  get skills(): SkillAdditions {
    return skillsOf(this.#brought)
  }

  get faults(): readonly string[] {
    return [...this.#common.faults, ...this.plugins.flatMap(({ faults }) => faults)]
  }

  hooks(own: HookConfig | undefined): HookConfig | undefined {
    return hooksOf(own, this.plugins)
  }

  /** The same without those that every conversation has: a conversation that does a task has these by itself. */
  hooksForTasks(own: HookConfig | undefined): HookConfig | undefined {
    return hooksOf(own, pluginsOf({ ...this.#brought, common: nothingBrought.common }))
  }

  servers(own: Readonly<Record<string, McpServer>>): Record<string, McpServer> {
    return serversOf(own, this.plugins)
  }

  #others({ plugin }: Loaded): readonly Loaded[] {
    return this.#loaded.filter((other) => other.plugin.name !== plugin.name)
  }

  /** Without those of plugins that every conversation has. */
  ownServers(own: Readonly<Record<string, McpServer>>): Record<string, McpServer> {
    return serversOf(own, pluginsOf({ ...this.#brought, common: nothingBrought.common }))
  }

  get #brought(): Brought {
    return { own: this.#loaded.map(({ plugin }) => plugin), common: this.#common }
  }
}
