import { enableCompileCache } from 'node:module'

/**
 * The thread of the text index. JavaScript, because the compile cache begins below: for a TypeScript file Node
 * loads its parser into each thread.
 */
enableCompileCache()
await import('./text-worker.ts')
