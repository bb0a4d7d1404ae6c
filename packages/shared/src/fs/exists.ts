import { access } from 'node:fs/promises'

/**
 * Whether a path exists and, with `mode`, can be accessed that way (`constants.X_OK`); false when that is
 * unknown.
 */
export async function exists(path: string, mode?: number): Promise<boolean> {
  return await access(path, mode).then(
    () => true,
    () => false,
  )
}
