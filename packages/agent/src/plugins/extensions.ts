import {
  type AgentContext,
  type ExtensionSource,
  type HookConfig,
  hookEvents,
  type McpServer,
  Problem,
} from '@slipway/protocol'
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
  const configs = [ownHooks, ...plugins.map(({ hooks }) => hooks)].filter((config) => config !== undefined)
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
