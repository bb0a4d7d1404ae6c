export * from './agent-server/agents/agent.ts'
export * from './agent-server/agents/agent-definition.ts'
export * from './agent-server/agents/sub-agent-routes.ts'
export * from './agent-server/agents/tool-routes.ts'
export * from './agent-server/bash/bash.ts'
export * from './agent-server/bash/routes.ts'
export {
  type ClientTool,
  type ConversationInfo,
  conversationId,
  type ExecutionStatus,
  executionStatus,
  type GoalState,
  type GoalVerdict,
  goalState,
  goalVerdict,
  type ImportMeta,
  importMeta,
  leafEventIdKey,
  patchConversationRequest,
  type SendMessageRequest,
  type StartConversationRequest,
  type StuckThresholds,
  sendMessageRequest,
  startConversationRequest,
  stuckThresholds,
  type WireVersion,
  wireVersion,
} from './agent-server/conversations/conversation.ts'
export * from './agent-server/editor/routes.ts'
export * from './agent-server/extensions/extension.ts'
export * from './agent-server/files/routes.ts'
export * from './agent-server/gateway/chat-completion.ts'
export * from './agent-server/gateway/routes.ts'
export * from './agent-server/git/git.ts'
export * from './agent-server/git/routes.ts'
export * from './agent-server/init/init.ts'
export * from './agent-server/init/routes.ts'
export * from './agent-server/llm/catalogue-routes.ts'
export * from './agent-server/llm/llm.ts'
export * from './agent-server/llm/provider-connection.ts'
export * from './agent-server/llm/provider-connection-routes.ts'
export * from './agent-server/mcp/mcp.ts'
export * from './agent-server/mcp/routes.ts'
export * from './agent-server/plugins/routes.ts'
export {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  type OpenHandsProfile,
  type StoredAgentProfile,
} from './agent-server/profiles/agent-profile.ts'
export * from './agent-server/profiles/agent-profile-routes.ts'
export { type ProfileSummary, profileName } from './agent-server/profiles/llm-profile.ts'
export * from './agent-server/routes.ts'
export * from './agent-server/settings/routes.ts'
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
export * from './agent-server/settings/settings-forms.ts'
export * from './agent-server/skills/routes.ts'
export * from './agent-server/workspaces/file-routes.ts'
export * from './agent-server/workspaces/list.ts'
export * from './agent-server/workspaces/list-routes.ts'
export * from './core/assert.ts'
export * from './core/environment.ts'
export * from './core/instant.ts'
export * from './core/json-depth.ts'
export * from './core/log-function.ts'
export {
  type CriticResult,
  compareRisk,
  type ImageContent,
  isRiskAtLeast,
  type Message,
  type MessageToolCall,
  type SecurityRisk,
  securityRisk,
  type TextContent,
} from './core/message.ts'
export * from './core/problem.ts'
export type { EventFilter, EventSortOrder } from './core/query.ts'
export type * from './core/route.ts'
export * from './core/telemetry.ts'
export * from './core/validation-issues.ts'
export { defaultSource, type Event, event, eventKinds, validateEvent } from './events/event.ts'
export * from './events/socket.ts'
export * from './message-texts.ts'
export * from './openapi/openapi.ts'
export { type Scope, type UserSettings, userSettings } from './sandbox-server/account.ts'
export {
  type AppConversation,
  type AppConversationStartRequest,
  type AppConversationStartTask,
  type StartTaskStatus,
  startTaskStatus,
} from './sandbox-server/app-conversation.ts'
export * from './sandbox-server/app-conversation-routes.ts'
export * from './sandbox-server/routes.ts'
export {
  type SandboxInfo,
  type SandboxSpec,
  type SandboxSpecInfo,
  type SandboxStatus,
  sandboxSpec,
  sandboxStatus,
} from './sandbox-server/sandbox.ts'
export * from './sandbox-server/sandbox-routes.ts'
export * from './sandbox-server/webhook-routes.ts'
export * from './tools/action-parameters.ts'
export * from './tools/registry.ts'
export * from './tools/task.ts'
export { type BuiltInTool, toolName } from './tools/tool.ts'
