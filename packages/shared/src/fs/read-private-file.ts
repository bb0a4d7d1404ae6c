import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * The text of a file that belongs to the user of this process and that no other user may read or write.
 * Undefined for any other file, a symbolic link, and where there is none: what it contains is not known to
 * come
 * from this user. Windows has no such modes; there every file is taken.
 */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  try {
    // A named pipe would wait for its writer.
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
    await using file = await open(path, flags)
    const stats = await file.stat()
    const isPrivate =
      process.platform === 'win32' || (stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0)
    return stats.isFile() && isPrivate ? await file.readFile('utf8') : undefined
  } catch {
    return undefined
  }
}
