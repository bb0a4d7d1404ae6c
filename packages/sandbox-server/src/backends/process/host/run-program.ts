import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { join } from 'node:path'
import { exists } from '@slipway/shared/fs'

/** Where programs of the host are found. Not inherited from the environment of the server. */
export const hostPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The environment of programs of the host: nothing of the server's own. */
export const hostEnvironment: Readonly<Record<string, string>> = { PATH: hostPath, LANG: 'C.UTF-8' }

export interface ProgramResult {
  readonly isOk: boolean
  /** Its output and error output, or why it could not run. */
  readonly output: string
}

/** Runs a program of the host to its end. Never rejects; kills one that takes too long. */
export async function runProgram(
  program: string,
  args: readonly string[],
  timeoutMs = 30_000,
): Promise<ProgramResult> {
  const { promise, resolve } = Promise.withResolvers<ProgramResult>()
  const limits = { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 1 << 24 } as const
  execFile(program, args, { env: hostEnvironment, ...limits }, (error, stdout, stderr) =>
    resolve({ isOk: error === null, output: `${stdout}${stderr}`.trim() || (error?.message ?? '') }),
  )
  return await promise
}

/** The absolute path of a program of the host; undefined when it is not installed. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const directory of hostPath.split(':')) {
    const path = join(directory, name)
    if (await exists(path, constants.X_OK)) return path
  }
  return undefined
}
