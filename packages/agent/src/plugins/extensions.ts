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

/** A plugin that cannot be fetched or read; `code` is for the ConversationErrorEvent. The text holds no credentials. */
export class PluginLoadError extends Error {
  readonly code = 'PluginError'

  constructor(message: string) {
    super(message)
    this.name = 'PluginLoadError'
  }
}

/** What the server has for every conversation. */
export interface CommonExtensions {
  readonly plugins: readonly Plugin[]
  readonly installed: readonly LoadedSkill[]
  readonly others: readonly LoadedSkill[]
  readonly hasPublic: boolean
  /** What was passed over, a sentence each. */
  readonly issues: readonly string[]
}

/** Where plugins and skills come from that neither the workspace nor the home directory holds; handed in by the server. */
export interface ExtensionProvider {
  /** What is installed and enabled, and what the context and the server's settings ask for besides. Rejects only when aborted. */
  loadCommon(context: AgentContext | undefined, signal: AbortSignal): Promise<CommonExtensions>
  /**
   * Fetches a plugin and reads it. `pinned` names the very same files again, without credentials. Rejects with PluginFailure,
   * and when aborted.
   */
  loadPlugin(
    source: ExtensionSource,
    signal: AbortSignal,
  ): Promise<{ readonly plugin: Plugin; readonly pinned: ExtensionSource }>
}

/** One plugin; a Problem `bad_request` when it cannot be had. */
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

/** All that plugins and the server bring to a conversation. */
export interface LoadedExtensions {
  readonly own: readonly Plugin[]
  readonly common: CommonExtensions
}

const noCommonExtensions: CommonExtensions = {
  plugins: [],
  installed: [],
  others: [],
  hasPublic: false,
  issues: [],
}

/** What was brought before anything was asked for. */
export const noExtensions: LoadedExtensions = { own: [], common: noCommonExtensions }

/** The plugins of a conversation, each name once: its own first, the last of a name, and then those of the server. */
export function effectivePlugins({ own, common }: LoadedExtensions): readonly Plugin[] {
  const byName = new Map<string, Plugin>()
  for (const plugin of [...own].reverse()) if (!byName.has(plugin.name)) byName.set(plugin.name, plugin)
  const ownPlugins = [...byName.values()].reverse()
  return [...ownPlugins, ...common.plugins.filter(({ name }) => !byName.has(name))]
}

/** The skills that come along; those of the conversation's own plugins go before the project's. */
export function skillAdditions(brought: LoadedExtensions): SkillAdditions {
  const { installed, others, hasPublic } = brought.common
  const own = new Set(brought.own)
  const plugins = effectivePlugins(brought)
  const skillsFrom = (isOwn: boolean) =>
    plugins.filter((plugin) => own.has(plugin) === isOwn).flatMap(({ skills }) => skills)
  return { plugins: skillsFrom(true), installed: [...installed, ...skillsFrom(false)], others, hasPublic }
}

/** The conversation's own hooks and then those of its plugins. */
export function mergeHooks(
  ownHooks: HookConfig | undefined,
  plugins: readonly Plugin[],
): HookConfig | undefined {
  const configs = [ownHooks, ...plugins.map(({ hooks }) => hooks)].filter((config) => config !== undefined)
  const [first, ...others] = configs
  if (first === undefined || others.length === 0) return first
  const merged: HookConfig = { ...first }
  for (const event of hookEvents) merged[event] = configs.flatMap((config) => config[event])
  return merged
}

/** The MCP servers of plugins; one of the conversation's own of the same name stays. */
export function mergeServers(
  ownServers: Readonly<Record<string, McpServer>>,
  plugins: readonly Plugin[],
): Record<string, McpServer> {
  const entries = plugins.flatMap(({ servers }) => Object.entries(servers)).reverse()
  return { ...Object.fromEntries(entries), ...ownServers }
}
