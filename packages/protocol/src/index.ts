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
} from './agent-server/agents/agent.ts'
export {
  type AgentDefinition,
  type AgentLevel,
  agentDefinition,
} from './agent-server/agents/agent-definition.ts'
export { type SubAgentInfo, subAgentRoutes } from './agent-server/agents/sub-agent-routes.ts'
export { toolRoutes } from './agent-server/agents/tool-routes.ts'
export {
  type BashCommand,
  type BashOutput,
  type BashSearchQuery,
  bashId,
  bashSocketQuery,
  type ExecuteBashRequest,
  executeBashRequest,
} from './agent-server/bash/bash.ts'
export { bashRoutes } from './agent-server/bash/routes.ts'
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
  leafEventIdKey,
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
  type WireVersion,
  wireVersion,
} from './agent-server/conversations/conversation.ts'
export { editorRoutes } from './agent-server/editor/routes.ts'
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
} from './agent-server/extensions/extension.ts'
export { fileRoutes } from './agent-server/files/routes.ts'
export { type ChatMessage, type ChatRequest, chatRequest } from './agent-server/gateway/chat-completion.ts'
export { gatewayRoutes } from './agent-server/gateway/routes.ts'
export type { GitChange, GitCommit, GitDiff, GitStatus } from './agent-server/git/git.ts'
export { gitRoutes } from './agent-server/git/routes.ts'
export {
  type InitRequest,
  type InitState,
  initRequest,
  type WebhookSpec,
  webhookSpec,
} from './agent-server/init/init.ts'
export { initRoutes } from './agent-server/init/routes.ts'
export { llmCatalogueRoutes } from './agent-server/llm/catalogue-routes.ts'
export { type Llm, llm, type TokenUsage } from './agent-server/llm/llm.ts'
export {
  type NewProviderConnection,
  type ProviderConnection,
  type ProviderConnectionChange,
  providerConnection,
} from './agent-server/llm/provider-connection.ts'
export { providerConnectionRoutes } from './agent-server/llm/provider-connection-routes.ts'
export {
  type McpErrorKind,
  type McpTestRequest,
  type McpTestResponse,
  mcpTestRequest,
} from './agent-server/mcp/mcp.ts'
export { mcpRoutes } from './agent-server/mcp/routes.ts'
export {
  type InstalledPlugin,
  type MarketplacePlugin,
  type PluginInfo,
  pluginRoutes,
} from './agent-server/plugins/routes.ts'
export {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  type OpenHandsProfile,
  type StoredAgentProfile,
} from './agent-server/profiles/agent-profile.ts'
export { agentProfileRoutes } from './agent-server/profiles/agent-profile-routes.ts'
export { type ProfileSummary, profileName } from './agent-server/profiles/llm-profile.ts'
export { agentServerRoutes } from './agent-server/routes.ts'
export { settingsRoutes } from './agent-server/settings/routes.ts'
export {
  type AgentSettings,
  agentSettings,
  type ConversationSettings,
  conversationSettings,
  type SecretItem,
  type SettingsSchema,
  type StoredSettings,
  saveSecretRequest,
  secretName,
  storedSettings,
  type UpdateSettingsRequest,
} from './agent-server/settings/settings.ts'
export {
  agentSettingsSchema,
  conversationSettingsSchema,
  excludedSettings,
} from './agent-server/settings/settings-forms.ts'
export {
  type ExposedUrl,
  type InstalledSkill,
  type ListSkillsRequest,
  listSkillsRequest,
  type MarketplaceSkill,
  type OrgConfig,
  type SkillInfo,
  skillRoutes,
} from './agent-server/skills/routes.ts'
export { workspaceRoutes } from './agent-server/workspaces/file-routes.ts'
export {
  type WorkspaceItem,
  type WorkspaceParent,
  type WorkspacesList,
  workspacesList,
} from './agent-server/workspaces/list.ts'
export { workspacesListRoutes } from './agent-server/workspaces/list-routes.ts'
export { must, unreachable } from './core/assert.ts'
export { listSetting, nonEmptyVariables, numberSetting, parseSettings } from './core/environment.ts'
export { formatInstant, type Instant, parseInstant } from './core/instant.ts'
export { exceedsMaxDepth, maxDepth } from './core/json-depth.ts'
export type { LogFunction } from './core/log-function.ts'
export {
  type CriticResult,
  compareRisk,
  type ImageContent,
  isRiskAtLeast,
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
} from './core/message.ts'
export {
  invalidInput,
  Problem,
  type ProblemCode,
  rethrowDiskFull,
  type ValidationIssue,
} from './core/problem.ts'
export {
  type EventFilter,
  type EventSortOrder,
  eventFilter,
  eventSearchQuery,
  eventSortOrder,
  queryInstant,
  queryInteger,
} from './core/query.ts'
export type {
  Method,
  Route,
  RouteBody,
  RouteParams,
  RouteQuery,
  RouteResponse,
  RouteTable,
} from './core/route.ts'
export { parseTelemetry, type Telemetry, telemetrySettings } from './core/telemetry.ts'
export { parseOrThrow, type Schema, validationIssues } from './core/validation-issues.ts'
export {
  defaultSource,
  type Event,
  type EventSource,
  event,
  eventKinds,
  eventPage,
  eventSource,
  validateEvent,
} from './events/event.ts'
export {
  authFrame,
  type EventsSocketQuery,
  eventsSocketQuery,
  type PositionedEvent,
  positionedEvent,
} from './events/socket.ts'
export { messageTexts } from './message-texts.ts'
export { agentServerOpenApi, buildOpenApi, type OpenApi, sandboxServerOpenApi } from './openapi/openapi.ts'
export { type Scope, type UserSettings, userSettings } from './sandbox-server/account.ts'
export {
  type AppConversation,
  type AppConversationStartRequest,
  type AppConversationStartTask,
  appConversationStartRequest,
  type StartTaskStatus,
  startTaskStatus,
} from './sandbox-server/app-conversation.ts'
export { appConversationRoutes } from './sandbox-server/app-conversation-routes.ts'
export { sandboxServerRoutes } from './sandbox-server/routes.ts'
export {
  type SandboxInfo,
  type SandboxSpec,
  type SandboxSpecInfo,
  type SandboxStatus,
  sandboxSpec,
  sandboxStatus,
} from './sandbox-server/sandbox.ts'
export { sandboxRoutes } from './sandbox-server/sandbox-routes.ts'
export { webhookRoutes } from './sandbox-server/webhook-routes.ts'
export { actionParameters, parseAction, parseArguments, schemaParameters } from './tools/action-parameters.ts'
export {
  type Action,
  action,
  type Observation,
  observation,
  type ToolDefinition,
  toolDefinition,
  toolDefinitions,
} from './tools/registry.ts'
export { type TaskAction, type TaskObservation, taskAction, taskTool } from './tools/task.ts'
export { type BuiltInTool, toolName } from './tools/tool.ts'
