import type { BigIntStats } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'

/** What a path below a directory leads to; `outside` is what links or dots lead out of it. */
export type ResolvedPath =
  | { readonly kind: 'file' | 'directory' | 'other'; readonly path: string; readonly stats: BigIntStats }
  | { readonly kind: 'missing' | 'outside' | 'refused' }

/**
 * Looks for a path, with slashes and decoded, below a directory (a real path). Links are followed, as long as they stay inside; the path
 * that is found has none. Nothing is opened. Never rejects.
 */
export async function resolveWithin(root: string, path: string): Promise<ResolvedPath> {
  const segments = path.split('/').filter((part) => part !== '' && part !== '.')
  if (segments.includes('..')) return { kind: 'outside' }
  if (path.includes('\0')) return { kind: 'missing' }
  try {
    const real = await realpath(join(root, ...segments))
    if (real !== root && !real.startsWith(root.endsWith(sep) ? root : root + sep)) return { kind: 'outside' }
    const stats = await stat(real, { bigint: true })
    const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'directory' : 'other'
    return { kind, path: real, stats }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return { kind: code === 'EACCES' || code === 'EPERM' ? 'refused' : 'missing' }
  }
}
