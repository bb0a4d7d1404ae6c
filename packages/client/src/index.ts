export { Client, type ClientOptions } from './calls/agent-server-client.ts'
export { CallError, ConnectionError, readCallError } from './calls/errors.ts'
export type {
  CallInput,
  CallOutput,
  RouteName,
  SandboxServerInput,
} from './calls/route-types.ts'
export { SandboxServerClient, type SandboxServerClientOptions } from './calls/sandbox-server-client.ts'
export {
  type FollowOptions,
  follow,
  type PositionedEvent,
  ResyncError,
  type TransientUpdate,
} from './events/follow.ts'
export { readPendingActions, type WaitingActions } from './events/pending-actions.ts'
export { SseParser } from './events/sse-parser.ts'
