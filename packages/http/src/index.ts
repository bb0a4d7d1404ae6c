export { type App, type AppOptions, createApp } from './app.ts'
export { isLoopback, type PageCredential } from './auth/guard.ts'
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
export { unixFetch } from './core/unix-fetch.ts'
export { type Listening, type ListenOptions, listen } from './listen.ts'
export type { ProxyRequest, ProxyRoute, ProxyTarget } from './proxy/reverse-proxy.ts'
export { createFrame } from './sockets/frame.ts'
export { contentTypeForPath } from './static/content-types.ts'
export { fileReply, type ResolvedFile } from './static/file-reply.ts'
export { acceptsHtml, Site } from './static/site.ts'
export type { AuditCaller } from './telemetry/audit.ts'
export { createLogger } from './telemetry/logger.ts'
export { type OpenTelemetry, openTelemetry } from './telemetry/telemetry.ts'
export { type ActiveSpan, type Traces, tracedFetch } from './telemetry/traces.ts'
