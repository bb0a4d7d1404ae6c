export type { StoredSessionKey } from './core/config/session-key.ts'
export { settings } from './core/config/settings.ts'
export { type ServeOptions, serve } from './serve.ts'
