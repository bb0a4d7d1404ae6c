export { type App, type AppOptions, app } from './app.ts'
export { isLoopback, type Pass } from './auth/guard.ts'
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
} from './core/handler.ts'
export { reach } from './core/unix-fetch.ts'
export { type Listening, type ListenOptions, listen } from './listen.ts'
export type { Relay, RelayRequest, RelayTarget } from './proxy/reverse-proxy.ts'
export { frame } from './sockets/frame.ts'
export { contentTypeOf } from './static/content-types.ts'
export { type FoundFile, fileReply } from './static/file-reply.ts'
export { below, type Found } from './static/resolve-within.ts'
export { asksForPage, Site } from './static/site.ts'
export type { AuditCaller } from './telemetry/audit.ts'
export { logTo } from './telemetry/logger.ts'
export { type OpenTelemetry, openTelemetry } from './telemetry/telemetry.ts'
export { type OpenSpan, type Traces, tracedFetch } from './telemetry/traces.ts'
