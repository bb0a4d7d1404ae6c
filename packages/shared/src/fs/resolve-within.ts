import type { BigIntStats } from 'node:fs'
import * as systemFiles from 'node:fs/promises'
import { join, sep } from 'node:path'
import { errorCode } from './error-code.ts'

/** The target of a path within a root. `outside`: dots or symbolic links lead out of the root. */
export type ResolvedPath =
  | { readonly kind: 'file' | 'directory' | 'other'; readonly path: string; readonly stats: BigIntStats }
  | { readonly kind: 'missing' | 'outside' | 'refused' }

/**
 * Whether a path is the root or below it, by name only: stops path traversal of paths that are resolved
 * already.
 */
export function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep)
}

/**
 * Prevents path traversal: resolves a decoded, slash-separated path below a root (a real path). Follows
 * symbolic links that stay within the root; the resolved path has none. Opens nothing. Never rejects.
 */
export async function resolveWithin(
  root: string,
  path: string,
  { realpath, stat }: Pick<typeof systemFiles, 'realpath' | 'stat'> = systemFiles,
): Promise<ResolvedPath> {
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) return { kind: 'outside' }
  if (path.includes('\0')) return { kind: 'missing' }
  try {
    const real = await realpath(join(root, ...segments))
    if (!isWithin(root, real)) return { kind: 'outside' }
    const stats = await stat(real, { bigint: true })
    const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : 'other'
    return { kind, path: real, stats }
  } catch (error) {
    const code = errorCode(error)
    return { kind: code === 'EACCES' || code === 'EPERM' ? 'refused' : 'missing' }
  }
}
