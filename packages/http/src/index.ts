export type { Frame, Handler, Handlers, Reply, Request, Socket, SocketRequest, SocketRoute } from './handler.ts'
