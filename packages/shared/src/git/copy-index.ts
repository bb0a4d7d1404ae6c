import { copyFile, stat, utimes } from '../tool-files/index.ts'

/**
 * Copies an index of git. A file that changed in the moment in which the index was written looks unchanged to
 * git, which compares the content of files as new as the index. So the copy must not be newer.
 */
export async function copyIndex(from: string, to: string): Promise<void> {
  const { atime, mtimeMs } = await stat(from)
  await copyFile(from, to)
  await utimes(to, atime, Math.floor(mtimeMs) / 1000)
}
