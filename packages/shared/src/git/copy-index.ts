import { open, utimes } from '../tool-files/index.ts'

/** An index of five million files. */
const maxBytes = 2 ** 30

/**
 * Copies an index of git to a new file. A file that changed in the moment in which the index was written
 * looks unchanged to git, which compares the content of files as new as the index. So the copy must not be
 * newer. Rejects for what is no file, or too large for an index.
 */
export async function copyIndex(from: string, to: string): Promise<void> {
  await using source = await open(from)
  const stats = await source.stat()
  if (!stats.isFile() || stats.size > maxBytes) throw new Error(`${from} is not an index of git`)
  await using target = await open(to, 'wx', 0o600)
  await target.writeFile(source.createReadStream({ autoClose: false, end: maxBytes - 1 }))
  await utimes(to, stats.atime, Math.floor(stats.mtimeMs) / 1000)
}
