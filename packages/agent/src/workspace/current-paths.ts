import { constants, openSync, readlinkSync } from 'node:fs'

/** Linux's O_PATH: a descriptor that only names a file. */
const pathOnly = 0o10000000
/** Descriptors of hidden directories, for as long as this process lives, by path. */
const heldDirectories = new Map<string, number>()

/** Directories, also where they are now when a program has renamed them or a folder above them. */
export function currentPaths(paths: readonly string[]): readonly string[] {
  if (process.platform !== 'linux') return paths
  return paths.flatMap((path) => {
    try {
      const held = heldDirectories.get(path) ?? openSync(path, pathOnly | constants.O_DIRECTORY)
      heldDirectories.set(path, held)
      const current = readlinkSync(`/proc/self/fd/${held}`)
      return current === path ? [path] : [path, current]
    } catch {
      return [path]
    }
  })
}
