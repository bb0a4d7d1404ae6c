import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { errorCode } from './error-code.ts'

/**
 * The text of a file that belongs to the user of this process and that no other user may read or write.
 * Undefined for any other file, a symbolic link, and where there is none or it cannot be read: what it
 * contains is not known to come from this user. Windows has no such modes; there every file is taken.
 */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  return (await findPrivateFile(path).catch(() => undefined))?.text
}

/**
 * Undefined where there is no file; without a text where it is not the user's alone. Rejects with the
 * system's error for a directory and for what cannot be read.
 */
export async function findPrivateFile(
  path: string,
): Promise<{ readonly text: string | undefined } | undefined> {
  try {
    // A named pipe would wait for its writer.
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
    await using file = await open(path, flags)
    const stats = await file.stat()
    const isPrivate =
      process.platform === 'win32' || (stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0)
    const isText = stats.isDirectory() || (stats.isFile() && isPrivate)
    return { text: isText ? await file.readFile('utf8') : undefined }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    // A symbolic link.
    if (errorCode(error) === 'ELOOP') return { text: undefined }
    throw error
  }
}
