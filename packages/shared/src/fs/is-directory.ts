import { stat } from 'node:fs/promises'

/** Whether the path is a directory or a link to one; false also when that cannot be read. */
export async function isDirectory(path: string): Promise<boolean> {
  return await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
}
