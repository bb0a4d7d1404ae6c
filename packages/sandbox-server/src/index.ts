export { type ServeOptions, serve as serveSandboxes } from './serve.ts'
