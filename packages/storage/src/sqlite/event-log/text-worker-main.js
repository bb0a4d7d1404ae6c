import { startCompileCache } from '@slipway/shared/compile-cache'

/**
 * The thread of the text index. JavaScript, because the compile cache begins below: for a TypeScript file Node
 * loads its parser into each thread.
 */
startCompileCache()
await import('./text-worker.ts')
