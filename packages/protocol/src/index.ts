export { agentRoutes } from './agent-routes.ts'
export { must, unreachable } from './assert.ts'
export {
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
  sendMessageRequest,
  serverInfo,
  startConversationRequest,
  success,
} from './conversation.ts'
export { isTooDeep, maxDepth } from './depth.ts'
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
export { formatInstant, type Instant, parseInstant } from './instant.ts'
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
export { agentOpenApi, type OpenApi, openapi } from './openapi.ts'
export { type Fault, invalid, Problem, type ProblemCode } from './problem.ts'
export { redact } from './redact.ts'
export type { Method, Route, RouteBody, RouteParams, RouteQuery, RouteResponse, RouteTable } from './route.ts'
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
export { type OwnTool, toolName } from './tools/tool.ts'
