export { type AppOptions, createApp } from './app.ts'
export { isHostNameOf, isHostOf, type PageCredential } from './auth/guard.ts'
export { assertOpens, mayAnswer, type ScopedKey, scopedKeyPrefix } from './auth/scoped-key.ts'
export { isConsoleKey } from './console/console-credential.ts'
export { type ConsoleAccounts, type ConsoleUser, consoleHandlers } from './console/console-handlers.ts'
export { ConsoleSite } from './console/console-site.ts'
export { ConsoleTokens } from './console/console-tokens.ts'
export { parseBasePath } from './core/base-path.ts'
export { cookieValues } from './core/cookies.ts'
export type {
  Frame,
  Handlers,
  Reply,
  Request,
  Socket,
  SocketRequest,
  SocketRoute,
} from './core/handler.ts'
export { statusByCode } from './core/reply.ts'
export { unixFetch } from './core/unix-fetch.ts'
export { unixSocketUrl } from './core/unix-socket.ts'
export { type Listening, listen, listenOnLoopback } from './listen.ts'
export { withoutCredentials } from './origins/credential-headers.ts'
export { OriginPool } from './origins/origin-pool.ts'
export type { ProxyRequest, ProxyRoute } from './proxy/reverse-proxy.ts'
export { Readiness } from './readiness.ts'
export { createFrame } from './sockets/frame.ts'
export { contentTypeForPath } from './static/content-types.ts'
export { fileReply, type ResolvedFile } from './static/file-reply.ts'
export { acceptsHtml, Site } from './static/site.ts'
export { StaticFolder } from './static/static-folder.ts'
export type { AuditCaller } from './telemetry/audit.ts'
export { createLogger } from './telemetry/logger.ts'
export type { ExportedHistogram, MetricsExport } from './telemetry/otlp-metrics.ts'
export { openTelemetry } from './telemetry/telemetry.ts'
export { type ActiveSpan, type Attributes, type Traces, tracedFetch } from './telemetry/traces.ts'
