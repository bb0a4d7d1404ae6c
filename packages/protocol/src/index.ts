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
  type ImportMeta,
  importMeta,
  importResult,
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
} from './conversation.ts'
export { isTooDeep, maxDepth } from './depth.ts'
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
export { faultsOf } from './faults.ts'
export { fileRoutes } from './file-routes.ts'
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
export type { Log } from './log.ts'
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
export { type Fault, invalid, Problem, type ProblemCode } from './problem.ts'
export { type ProfileSummary, profileName } from './profile.ts'
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
export { type SkillInfo, skillRoutes } from './skill-routes.ts'
export {
  authFrame,
  type EventsSocketQuery,
  eventsSocketQuery,
  type PositionedEvent,
  positionedEvent,
} from './socket.ts'
export {
  type Action,
  action,
  type Observation,
  observation,
  type ToolDefinition,
  toolDefinition,
  toolDefinitions,
} from './tools/index.ts'
export { actionParameters, parseAction } from './tools/parameters.ts'
export { type OwnTool, toolName } from './tools/tool.ts'
