import * as systemFiles from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { errorCode } from './error-code.ts'

/**
 * Creates a directory and its missing parents, with this mode (0o777 minus the umask by default). Resolves
 * with the first directory that it created, undefined when all existed. Rejects with the system's error
 * (`ENOTDIR`, `EACCES`, ...).
 *
 * Replaces `mkdir` with `recursive`, which never settles where every attempt fails with ENOENT, as below
 * `/proc`.
 */
export async function makeDirectory(
  path: string,
  mode?: number,
  files: Pick<typeof systemFiles, 'mkdir' | 'stat'> = systemFiles,
): Promise<string | undefined> {
  const directory = resolve(path)
  const parent = dirname(directory)
  try {
    return await createOne(directory, mode, files)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || parent === directory) throw error
  }
  const first = await makeDirectory(parent, mode, files)
  const created = await createOne(directory, mode, files)
  return first ?? created
}

async function createOne(
  directory: string,
  mode: number | undefined,
  { mkdir, stat }: Pick<typeof systemFiles, 'mkdir' | 'stat'>,
): Promise<string | undefined> {
  try {
    await mkdir(directory, mode === undefined ? {} : { mode })
    return directory
  } catch (error) {
    // A read-only file system fails with EROFS or EPERM also for an existing directory.
    const isThere =
      errorCode(error) !== 'ENOENT' && (await stat(directory).catch(() => undefined))?.isDirectory()
    if (isThere) return undefined
    throw error
  }
}
