import { basename, dirname, isAbsolute, join, sep } from 'node:path'
import { errorCode } from '@slipway/shared/fs'
import * as toolFiles from '@slipway/shared/tool-files'

/** A path outside the workspace, or one that cannot be resolved. The message is for the model. */
export class PathNotAllowedError extends Error {
  override readonly name = 'PathNotAllowedError'
}

/** Reads paths, with the rights of tools or with those of this process. */
export type PathReader = Pick<typeof toolFiles, 'readlink' | 'realpath'>

/** The real path of the deepest existing part, plus the rest. A dangling link resolves to its target. */
export async function resolveRealPath(
  requested: string,
  files: PathReader = toolFiles,
  depth = 0,
): Promise<string> {
  // With a trailing slash, a dangling link is not recognized as a link.
  const path = requested.replace(/(?<=.)\/+$/, '')
  if (depth > 4096 || path.length > 4096) throw new PathNotAllowedError('The path is too long.')
  try {
    return await files.realpath(path)
  } catch (error) {
    const code = errorCode(error)
    if (code !== 'ENOENT' && code !== 'ENOTDIR')
      throw new PathNotAllowedError(`The path ${path} cannot be followed (${String(code)}).`)
  }
  const target = await readLinkTarget(path, files)
  if (target !== undefined) return await resolveRealPath(target, files, depth + 1)
  const parent = dirname(path)
  if (parent === path) return path
  const real = join(await resolveRealPath(parent, files, depth + 1), basename(path))
  // A path may leave a missing directory again (`missing/../link`): then the rest exists and may be a link.
  return real === path ? path : await resolveRealPath(real, files, depth + 1)
}

async function readLinkTarget(path: string, { readlink, realpath }: PathReader): Promise<string | undefined> {
  try {
    const target = await readlink(path)
    return isAbsolute(target) ? target : `${await realpath(dirname(path))}${sep}${target}`
  } catch {
    return undefined
  }
}
