export { CallError, NoAnswerError } from './call-error.ts'
export { Client, type ClientOptions } from './client.ts'
export { type FollowOptions, follow, type Hint, type PositionedEvent } from './follow.ts'
export type { CallInput, CallOutput, RouteName } from './route-types.ts'
