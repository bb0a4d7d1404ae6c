// JavaScript without imports of packages, because it runs before anything that the cache makes faster.
import { lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

/**
 * Keeps compiled code for the next start, in a folder of the user's. Node's default is a folder below /tmp,
 * where any user can put code first that this process then runs. Without a safe folder there is no cache.
 */
export function startCompileCache() {
  // A folder that the user has chosen is Node's own matter.
  const folder = process.env.NODE_COMPILE_CACHE || findCacheFolder()
  if (folder !== undefined) enableCompileCache(folder)
}

/** The folder, which is made when it is missing; undefined where it could be another user's to write. */
function findCacheFolder() {
  const { XDG_CACHE_HOME: cache = '', HOME: home = '' } = process.env
  try {
    const base = isAbsolute(cache) ? cache : join(home || homedir(), '.cache')
    if (!isAbsolute(base)) return undefined
    const path = join(base, 'slipway', 'compile-cache')
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined)
      for (const folder of [base, dirname(path), path]) makeFolder(folder)
    // Windows has no such modes, and the folders of users are their own.
    if (process.platform === 'win32') return path
    const { uid, mode } = lstatSync(path)
    const isOwn = uid === process.geteuid() && (mode & 0o170077) === 0o040000
    const real = realpathSync.native(path)
    return isOwn && isSafe(dirname(real)) ? real : undefined
  } catch {
    // A home that is missing, or read-only.
  }
}

/** One at a time: below /proc a recursive call may never return. */
function makeFolder(path) {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
  }
}

/** Whether no other user can replace what is in a folder, nor the folder. */
function isSafe(path) {
  const { uid, gid, mode } = lstatSync(path)
  const isSticky = (mode & 0o1000) !== 0
  const isWritable = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== process.getegid())
  if ((uid !== 0 && uid !== process.geteuid()) || (isWritable && !isSticky)) return false
  return path === dirname(path) || isSafe(dirname(path))
}
