export { type App, type AppOptions, app } from './app.ts'
export type { AuditCaller } from './audit.ts'
export { isLoopback, type Pass } from './auth.ts'
export { below, type Found } from './below.ts'
export { contentTypeOf } from './content-types.ts'
export { type FoundFile, fileReply } from './file-reply.ts'
export { frame } from './frame.ts'
export type {
  Frame,
  Handler,
  Handlers,
  Reply,
  Request,
  Socket,
  SocketRequest,
  SocketRoute,
  Upload,
} from './handler.ts'
export { type Listening, type ListenOptions, listen } from './listen.ts'
export { logTo } from './log.ts'
export { reach } from './reach.ts'
export type { Relay, RelayRequest, RelayTarget } from './relay.ts'
export { asksForPage, Site } from './site.ts'
export { type OpenTelemetry, openTelemetry } from './telemetry.ts'
export { type OpenSpan, type Traces, tracedFetch } from './traces.ts'
