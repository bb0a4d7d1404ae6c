export { CallError, NoAnswerError } from './call-error.ts'
export { Client, type ClientOptions } from './client.ts'
export { ControlClient, type ControlClientOptions } from './control-client.ts'
export { type FollowOptions, follow, type Hint, type PositionedEvent } from './follow.ts'
export type {
  CallInput,
  CallOutput,
  ControlInput,
  ControlOutput,
  ControlRouteName,
  RouteName,
} from './route-types.ts'
