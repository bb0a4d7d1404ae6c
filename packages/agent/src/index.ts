import { agentContext, type WireVersion } from '@slipway/protocol'
import type { EventLog, Snapshot } from '@slipway/storage'
import type { DiscoveredModels } from './acp/discover-models.ts'
import type { FindAgentsOptions, FoundAgents } from './agents/find-agents.ts'
import type { Conversation } from './conversation/conversation.ts'
import type { ViewDescription } from './conversation/describe-view.ts'
import type { OpenConversationOptions } from './conversation/runtime/conversation-context.ts'
import type { Catalogue } from './llm/catalogue/catalogue.ts'
import type { OpenModel } from './llm/model.ts'
import type { RepositoryCode } from './repository/repository-code.ts'
import type { LoadedSkills } from './skills/collector.ts'
import type { SkillAdditions } from './skills/load.ts'
import type { McpOAuthState } from './tools/core/mcp-oauth-states.ts'
import type { McpSignInOptions } from './tools/mcp/oauth.ts'
import type { McpProbeOptions, McpProbeResult } from './tools/mcp/probe.ts'

export { acpProviders, findAcpProvider, findProviderOf } from './acp/providers.ts'
export { splitCommand } from './acp/split-command.ts'
export type { FoundAgents } from './agents/find-agents.ts'
export type { TurnSettings } from './conversation/configuration.ts'
export type { Conversation } from './conversation/conversation.ts'
export { finalResponse, findNewestMessage } from './conversation/events/final-response.ts'
export { type TransientUpdate, TransientUpdates } from './conversation/events/transient-updates.ts'
export { withAcpModel } from './conversation/external/external-model.ts'
export type { CutRun } from './conversation/runtime/conversation-context.ts'
export {
  type ConversationDeps,
  type ConversationStore,
  type RunSlot,
  runLimitProblem,
} from './conversation/runtime/deps.ts'
export type { MonitoredWork, RunMonitor, WorkOutcome } from './conversation/runtime/instrumentation.ts'
export { type Branch, readBranch } from './conversation/state/branch.ts'
export { planModeAt } from './conversation/state/plan-mode-at.ts'
export type { DoorSettings, ResolvedSettings } from './conversation/state/resolved-settings.ts'
export { combineMetrics, UsageStats } from './conversation/state/usage-stats.ts'
export type {
  ChildConversation,
  ChildConversations,
  StoredTask,
} from './conversation/tasks/child-conversations.ts'
export { preferredFileTool } from './llm/capabilities/file-tool.ts'
export { llmSecrets } from './llm/credentials.ts'
export type { Model, ModelFailureCode, OpenModel } from './llm/model.ts'
export type { CallEstimate, CallUse, SpendingGuard } from './llm/spending-guard.ts'
export type { CommonExtensions, ExtensionProvider } from './plugins/extensions.ts'
export type { MarketplaceOffer } from './plugins/marketplace.ts'
export type { Plugin } from './plugins/plugin.ts'
export { parseSource, publicSource, type Source, subfolderSource } from './plugins/source.ts'
export { type LoadedHooks, loadHooks } from './repository/hooks-file.ts'
export type { RepositoryConsents, RepositoryVerdict } from './repository/repository-access.ts'
export type { RepositoryCode } from './repository/repository-code.ts'
export { Secrets } from './secrets/secrets.ts'
export type { LoadedSkills as ListedSkills } from './skills/collector.ts'
export type { SkillAdditions } from './skills/load.ts'
export { createSkill, type LoadedSkill, type SkillOrigin } from './skills/skill.ts'
export { type BrowserSearch, isExecutable } from './tools/core/find-browser.ts'
export type { McpOAuthState, McpOAuthStates } from './tools/core/mcp-oauth-states.ts'
export type { McpConsent } from './tools/mcp/oauth.ts'
export { availableToolNames, findTool, toolNames } from './tools/registry.ts'
export { conversationFolder } from './workspace/conversation-folder.ts'
export { ProgramFolder } from './workspace/program-folder.ts'
export { Workspace } from './workspace/workspace.ts'

/** Opens a conversation (see `Conversation.open`). Loads the code that runs agents on first use. */
export async function openConversation(options: OpenConversationOptions): Promise<Conversation> {
  const { Conversation } = await import('./conversation/conversation.ts')
  return await Conversation.open(options)
}

/** What the model sees of a log. Loads the code that runs agents on first use. */
export async function describeView(
  conversation: string,
  log: EventLog,
  source: { readonly loaded: Conversation } | { readonly snapshot: Snapshot | null },
): Promise<ViewDescription> {
  const { describeView } = await import('./conversation/describe-view.ts')
  return await describeView(conversation, log, 'loaded' in source ? source.loaded : source)
}

/** Loads the list of known models. */
export async function loadCatalogue(): Promise<Catalogue> {
  return (await import('./llm/catalogue/catalogue.ts')).catalogue()
}

/** Signs in to an MCP server by OAuth; undefined when it answers without. */
export async function signInToMcpServer(options: McpSignInOptions): Promise<McpOAuthState | undefined> {
  return await (await import('./tools/mcp/oauth.ts')).signInToMcpServer(options)
}

/** The models of an external agent, or why there are none. Loads the code that runs agents on first use. */
export async function discoverAcpModels(
  ...args: Parameters<typeof import('./acp/discover-models.ts').discoverAcpModels>
): Promise<DiscoveredModels> {
  return await (await import('./acp/discover-models.ts')).discoverAcpModels(...args)
}

/** Connects to an MCP server once and reports its tools. */
export async function probeMcpServer(options: McpProbeOptions): Promise<McpProbeResult> {
  return await (await import('./tools/mcp/probe.ts')).probeMcpServer(options)
}

/**
 * The agents of a project, of a home directory and of this server. The first of a name wins, in this order.
 */
export async function findAgents(from: FindAgentsOptions): Promise<FoundAgents> {
  return await (await import('./agents/find-agents.ts')).findAgents(from)
}

/** What a working directory brings that runs: hooks, agents and their MCP commands. Never rejects. */
export async function readRepositoryCode(directory: string): Promise<RepositoryCode> {
  return await (await import('./repository/repository-code.ts')).readRepositoryCode(directory)
}

/** The agents of a directory, such as the `agents` of a plugin; links may not leave it. */
export async function readAgentDefinitions(directory: string): Promise<FoundAgents> {
  return await (await import('./agents/find-agents.ts')).readAgentDefinitions(directory)
}

/** Opens models of all providers; loads a provider's library at the first request. */
export async function loadOpenModel(): Promise<OpenModel> {
  return (await import('./llm/models/open-model.ts')).openModel
}

/** Makes a truncated log consistent: each action without a result gets an error, and the status is idle. */
export async function closeOpenCalls(log: EventLog, conversation: string, wire: WireVersion): Promise<void> {
  await (await import('./conversation/close-open-calls.ts')).closeOpenCalls(log, conversation, wire)
}

/** Readers of skills, plugins and marketplaces outside of project and home directory. */
export async function extensionReaders(): Promise<typeof import('./plugins/index.ts')> {
  return await import('./plugins/index.ts')
}

/**
 * The skills of a project and of a home directory, if given, and additional ones. The project's win when
 * names clash. Skipped files are reported as issues. Rejects only when aborted.
 */
export async function listSkills(
  from: {
    readonly project: string | undefined
    readonly homeDirectory: string | undefined
    readonly additions?: SkillAdditions | undefined
  },
  signal: AbortSignal,
): Promise<LoadedSkills> {
  const { loadSkills } = await import('./skills/load.ts')
  const context = agentContext.parse({
    load_project_skills: from.project !== undefined,
    load_user_skills: from.homeDirectory !== undefined,
  })
  const { project: directory = '/', homeDirectory, additions } = from
  return await loadSkills({ directory, homeDirectory, context, additions }, signal)
}
export { detectImageType, fitImages } from './images/fit-images.ts'
