export { errorCode } from './error-code.ts'
export { makeDirectory } from './make-directory.ts'
export { isWithin, type ResolvedPath, resolveWithin } from './resolve-within.ts'
export { syncDirectory, writeFileAtomic } from './write-file-atomic.ts'
