import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'

/** Where programs of the host are looked for: what the server's own environment says is not handed on. */
export const hostPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** What the host's programs get, and nothing else of the server. */
export const hostEnvironment: Readonly<Record<string, string>> = { PATH: hostPath, LANG: 'C.UTF-8' }

export interface ProgramResult {
  readonly isOk: boolean
  /** All it printed, or why it could not be run. */
  readonly output: string
}

/** Runs a program of the host to its end. Never rejects; one that takes too long is killed. */
export function runProgram(
  program: string,
  args: readonly string[],
  timeoutMs = 30_000,
): Promise<ProgramResult> {
  const options = {
    env: hostEnvironment,
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    maxBuffer: 1 << 24,
  } as const
  return new Promise((resolve) => {
    execFile(program, args, options, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`.trim()
      resolve({ isOk: error === null, output: output === '' && error !== null ? error.message : output })
    })
  })
}

/** The absolute path of a program of the host; undefined when it is not installed. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const directory of hostPath.split(':')) {
    const path = join(directory, name)
    const isThere = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return path
  }
  return undefined
}
