export { settings } from './config/settings.ts'
export { type ServeOptions, serve as serveSandboxes } from './serve.ts'
