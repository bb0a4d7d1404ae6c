export { must, unreachable } from './assert.ts'
export { formatInstant, type Instant, parseInstant } from './instant.ts'
export type { Log } from './log.ts'
export { type Fault, invalid, Problem, type ProblemCode } from './problem.ts'
export type { Method, Route, RouteBody, RouteParams, RouteQuery, RouteResponse, RouteTable } from './route.ts'
export {
  type EventFilter,
  type EventSortOrder,
  eventFilter,
  eventSortOrder,
  queryInstant,
  queryInteger,
} from './search.ts'
export { Secret } from './secret.ts'
