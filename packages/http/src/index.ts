export { type App, type AppOptions, app } from './app.ts'
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
} from './handler.ts'
export { type Listening, type ListenOptions, listen } from './listen.ts'
export { logTo } from './log.ts'
