export { type Scope, type UserSettings, userSettings } from './account.ts'
export {
  type Agent,
  type AgentContext,
  agent,
  agentContext,
  type Condenser,
  type ConfirmationPolicy,
  type Critic,
  condenser,
  confirmationPolicy,
  type HookConfig,
  type HookEvent,
  hookConfig,
  hookEvents,
  type McpServer,
  mcpServer,
  type SecretSource,
  type SecurityAnalyzer,
  type Skill,
  type SummarizingCondenser,
  secretSource,
  securityAnalyzer,
  skill,
  type ToolSpec,
} from './agent.ts'
export {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  type KeptAgentProfile,
  type OpenHandsProfile,
} from './agent-profile.ts'
export { agentProfileRoutes } from './agent-profile-routes.ts'
export { agentRoutes } from './agent-routes.ts'
export {
  type AppConversation,
  type AppConversationStartRequest,
  type AppConversationStartTask,
  appConversationStartRequest,
  type StartTaskStatus,
  startTaskStatus,
} from './app-conversation.ts'
export { appConversationRoutes } from './app-conversation-routes.ts'
export { must, unreachable } from './assert.ts'
export {
  type BashCommand,
  type BashOutput,
  type BashSearchQuery,
  bashId,
  bashSocketQuery,
  type ExecuteBashRequest,
  executeBashRequest,
} from './bash.ts'
export { bashRoutes } from './bash-routes.ts'
export { controlRoutes } from './control-routes.ts'
export {
  type ClientTool,
  type ConversationInfo,
  conversationId,
  conversationInfo,
  conversationPage,
  conversationSearchQuery,
  conversationSortOrder,
  type ExecutionStatus,
  executionStatus,
  type GoalState,
  type GoalVerdict,
  goalState,
  goalVerdict,
  type ImportMeta,
  importMeta,
  importResult,
  leafKey,
  patchConversationRequest,
  type SendMessageRequest,
  type ServerInfo,
  type StartConversationRequest,
  type StuckThresholds,
  sendMessageRequest,
  serverInfo,
  startConversationRequest,
  stuckThresholds,
  success,
  type Wire,
  wire,
} from './conversation.ts'
export { isTooDeep, maxDepth } from './depth.ts'
export { editorRoutes } from './editor-routes.ts'
export { listSetting, numberSetting, parseSettings, settingsIn } from './environment.ts'
export {
  defaultSource,
  type Event,
  type EventSource,
  event,
  eventKinds,
  eventPage,
  eventSource,
  validateEvent,
} from './event.ts'
export {
  type ExtensionSource,
  enableRequest,
  extensionName,
  extensionSource,
  type InstallRequest,
  type MarketplaceEntry,
  type MarketplaceRegistration,
  marketplaceEntry,
  marketplaceManifest,
  marketplaceRegistration,
  type PluginManifest,
  pluginManifest,
} from './extension.ts'
export { faultsOf, type Schema, validated } from './faults.ts'
export { fileRoutes } from './file-routes.ts'
export { type ChatMessage, type ChatRequest, chatRequest } from './gateway.ts'
export { gatewayRoutes } from './gateway-routes.ts'
export type { GitChange, GitCommit, GitDiff, GitStatus } from './git.ts'
export { gitRoutes } from './git-routes.ts'
export { homeRoutes } from './home-routes.ts'
export {
  type InitRequest,
  type InitState,
  initRequest,
  type WebhookSpec,
  webhookSpec,
} from './init.ts'
export { initRoutes } from './init-routes.ts'
export { formatInstant, type Instant, parseInstant } from './instant.ts'
export { type Llm, llm, type TokenUsage } from './llm.ts'
export { llmCatalogueRoutes } from './llm-catalogue-routes.ts'
export type { Log } from './log.ts'
export { type McpErrorKind, type McpTestRequest, type McpTestResponse, mcpTestRequest } from './mcp.ts'
export { mcpRoutes } from './mcp-routes.ts'
export {
  Counts,
  type Family,
  family,
  type Measures,
  type Sample,
  secondBounds,
  Tallies,
  Tally,
} from './measure.ts'
export {
  atLeast,
  type CriticResult,
  compareRisk,
  type ImageContent,
  type Message,
  type MessageToolCall,
  message,
  type ReasoningItemModel,
  type RedactedThinkingBlock,
  type SecurityRisk,
  securityRisk,
  type TextContent,
  type ThinkingBlock,
  textContent,
} from './message.ts'
export { messageTexts } from './message-texts.ts'
export { agentOpenApi, controlOpenApi, type OpenApi, openapi } from './openapi.ts'
export {
  type InstalledPlugin,
  type MarketplacePlugin,
  type PluginInfo,
  pluginRoutes,
} from './plugin-routes.ts'
export { type Fault, invalid, Problem, type ProblemCode } from './problem.ts'
export { type ProfileSummary, profileName } from './profile.ts'
export {
  type NewProviderConnection,
  type ProviderConnection,
  type ProviderConnectionChange,
  providerConnection,
} from './provider-connection.ts'
export { providerConnectionRoutes } from './provider-connection-routes.ts'
export { isSecretName, redact, redactText, secretTexts } from './redact.ts'
export type { Method, Route, RouteBody, RouteParams, RouteQuery, RouteResponse, RouteTable } from './route.ts'
export {
  type SandboxInfo,
  type SandboxSpec,
  type SandboxSpecInfo,
  type SandboxStatus,
  sandboxSpec,
  sandboxStatus,
} from './sandbox.ts'
export { sandboxRoutes } from './sandbox-routes.ts'
export {
  type EventFilter,
  type EventSortOrder,
  eventFilter,
  eventSearchQuery,
  eventSortOrder,
  queryInstant,
  queryInteger,
} from './search.ts'
export { Secret } from './secret.ts'
export {
  type AgentSettings,
  agentSettings,
  type ConversationSettings,
  conversationSettings,
  type KeptSettings,
  type SecretItem,
  type SettingsSchema,
  saveSecretRequest,
  secretName,
  settings,
  type UpdateSettingsRequest,
} from './settings.ts'
export { settingsRoutes } from './settings-routes.ts'
export { agentSettingsSchema, conversationSettingsSchema, notInForms } from './settings-schema.ts'
export {
  type ExposedUrl,
  type InstalledSkill,
  type ListSkillsRequest,
  listSkillsRequest,
  type MarketplaceSkill,
  type OrgConfig,
  type SkillInfo,
  skillRoutes,
} from './skill-routes.ts'
export {
  authFrame,
  type EventsSocketQuery,
  eventsSocketQuery,
  type PositionedEvent,
  positionedEvent,
} from './socket.ts'
export { type AgentDefinition, type AgentLevel, agentDefinition } from './sub-agent.ts'
export { type SubAgentInfo, subAgentRoutes } from './sub-agent-routes.ts'
export { type Telemetry, telemetryOf, telemetrySettings } from './telemetry.ts'
export { toolRoutes } from './tool-routes.ts'
export {
  type Action,
  action,
  type Observation,
  observation,
  type ToolDefinition,
  toolDefinition,
  toolDefinitions,
} from './tools/index.ts'
export { actionParameters, parametersOf, parseAction, parseArguments } from './tools/parameters.ts'
export { type TaskAction, type TaskObservation, task, taskAction } from './tools/task.ts'
export { type OwnTool, toolName } from './tools/tool.ts'
export { workspaceRoutes } from './workspace-routes.ts'
export {
  type WorkspaceItem,
  type WorkspaceParent,
  type WorkspacesList,
  workspacesList,
} from './workspaces-list.ts'
export { workspacesListRoutes } from './workspaces-list-routes.ts'
