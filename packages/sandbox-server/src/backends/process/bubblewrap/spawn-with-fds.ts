import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hostEnvironment } from '../host/run-program.ts'

/** A program that was started, and how it ends: its exit code, null for a signal, a text when it could not be started at all. */
export interface SpawnedProgram {
  readonly child: ChildProcess
  readonly ended: Promise<number | null | string>
}

export function trackExit(child: ChildProcess): SpawnedProgram {
  const ended = new Promise<number | null | string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', resolve)
  })
  return { child, ended }
}

/**
 * Starts a program that reads lists of arguments from the descriptors 3, 4, ...: they are in no list of processes. `folder` is
 * where they are for a moment, in files without a name. `stdio` is of the first three descriptors.
 */
export async function spawnWithFds(
  command: readonly string[],
  lists: readonly (readonly string[])[],
  folder: string,
  stdio: readonly ('ignore' | 'pipe')[],
): Promise<SpawnedProgram> {
  const files = await Promise.all(
    lists.map(async (list, index) => {
      const path = join(folder, `arguments.${index}`)
      const file = await open(path, 'wx+', 0o600)
      await rm(path)
      await file.write(`${list.join('\0')}\0`, 0)
      return file
    }),
  )
  try {
    const [program = '', ...args] = command
    const all: StdioOptions = [...stdio, ...files.map((file) => file.fd)]
    return trackExit(spawn(program, args, { env: hostEnvironment, stdio: all }))
  } finally {
    for (const file of files) await file.close()
  }
}
