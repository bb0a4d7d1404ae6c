export type { StoredSessionKey } from './config/session-key.ts'
export { type ServeOptions, serve } from './serve.ts'
