export type { Backend } from './backend.ts'
