export { type App, type AppOptions, app } from './app.ts'
export { isLoopback } from './auth.ts'
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
