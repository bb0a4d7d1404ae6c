import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorCode } from '../fs/error-code.ts'
import { lstat, mkdtemp, readdir, rm, toolUser } from '../tool-files/index.ts'

const prefix = 'slipway-git-'

/** A folder below the directory of temporary files, whose name has the id of this process. */
export async function makeViewFolder(): Promise<string> {
  return await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`))
}

/** Removes the folders of repository views that processes left which do not run any more. Never rejects. */
export async function removeViewLeftovers(): Promise<void> {
  const names = await readdir(tmpdir()).catch(() => [])
  for (const name of names) {
    const pid = name.startsWith(prefix) ? /^\d+(?=-)/.exec(name.slice(prefix.length)) : null
    if (pid === null) continue
    const path = join(tmpdir(), name)
    if (await isLeft(path, Number(pid[0]))) await rm(path, { recursive: true, force: true }).catch(() => {})
  }
}

async function isLeft(path: string, pid: number): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined)
  // Whoever owns a folder could lead its removal elsewhere.
  const owner = toolUser()?.uid ?? process.geteuid?.()
  if (!stats?.isDirectory() || stats.uid !== owner) return false
  // In a container, a new process often has the id of the last one.
  return pid === process.pid ? stats.mtimeMs < performance.timeOrigin : !isRunning(pid)
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errorCode(error) !== 'ESRCH'
  }
}
