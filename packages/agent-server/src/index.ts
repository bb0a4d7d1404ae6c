export type { StoredSessionKey } from './core/config/session-key.ts'
export { type ServeOptions, serve } from './serve.ts'
