import { type ChildProcess, spawn } from 'node:child_process'
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hostEnvironment } from '../host/run-program.ts'
import type { JailedCommand } from './arguments.ts'

export type SpawnedProgram = ReturnType<typeof trackExit>

/** `ended`: the exit code, null for a signal, a text when the program could not be started. */
export function trackExit(child: ChildProcess) {
  const { promise: ended, resolve } = Promise.withResolvers<number | null | string>()
  child.once('error', (error) => resolve(error.message))
  child.once('close', resolve)
  return { child, ended }
}

/** Starts a command of a jail. `stdio`: the first three descriptors. */
export async function spawnWithFds(
  { command, inputs }: JailedCommand,
  folder: string,
  stdio: readonly ('ignore' | 'pipe')[],
): Promise<SpawnedProgram> {
  const [program = '', ...args] = command
  await using files = await openInputFiles(inputs, folder)
  return trackExit(spawn(program, args, { env: hostEnvironment, stdio: [...stdio, ...files.fds] }))
}

/** Open files without a name, one for each input: arguments may be secret, and processes' are public. */
export async function openInputFiles(
  inputs: JailedCommand['inputs'],
  folder: string,
): Promise<AsyncDisposable & { readonly fds: readonly number[] }> {
  const files: FileHandle[] = []
  for (const [index, input] of inputs.entries()) {
    const path = join(folder, `arguments.${index}`)
    await rm(path, { force: true })
    await writeFile(path, Buffer.isBuffer(input) ? input : `${input.join('\0')}\0`, {
      flag: 'wx',
      mode: 0o600,
    })
    files.push(await open(path))
    await rm(path)
  }
  return {
    fds: files.map(({ fd }) => fd),
    async [Symbol.asyncDispose]() {
      for (const file of files) await file.close()
    },
  }
}
