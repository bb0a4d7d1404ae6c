export { Client, type ClientOptions } from './calls/agent-server-client.ts'
export { CallError, NoAnswerError } from './calls/errors.ts'
export type {
  CallInput,
  CallOutput,
  ControlInput,
  ControlOutput,
  ControlRouteName,
  RouteName,
} from './calls/route-types.ts'
export { ControlClient, type ControlClientOptions } from './calls/sandbox-server-client.ts'
export { type FollowOptions, follow, type Hint, type PositionedEvent } from './events/follow.ts'
