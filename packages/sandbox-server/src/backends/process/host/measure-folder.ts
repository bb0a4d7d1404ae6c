import { stat } from 'node:fs/promises'
import { ignoreErrors } from './files.ts'
import { measureDeletedFiles } from './processes.ts'
import { runProgram } from './run-program.ts'

/**
 * Bytes of the files below a folder, with deleted ones that these processes hold open; undefined when they
 * cannot be read.
 */
export async function measureFolder(
  folder: string,
  listPids: () => Promise<readonly number[]>,
): Promise<number | undefined> {
  const found = await ignoreErrors(['ENOENT', 'EACCES'], stat(folder))
  if (found === undefined) return undefined
  const [{ output }, deletedBytes] = await Promise.all([
    runProgram('du', ['-s', '--block-size=1', folder]),
    listPids().then((pids) => measureDeletedFiles(pids, found.dev)),
  ])
  // It is printed with errors about files that vanish meanwhile too.
  const total = /^\d+(?=\t)/m.exec(output)?.[0]
  return total === undefined ? undefined : Number(total) + deletedBytes
}
