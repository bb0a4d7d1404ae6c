import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorCode } from '../fs/error-code.ts'
import { lstat, mkdtemp, readdir, rm, toolUser } from './tool-files.ts'

/** What the temporary folders of this program are for: a part of their names. */
const purposes = ['acp', 'git', 'here', 'index'] as const
type Purpose = (typeof purposes)[number]

const namePattern = new RegExp(`^slipway-(?:${purposes.join('|')})-(\\d+)-`)

/**
 * A folder below the directory of temporary files, whose name has the id of this process: what a killed
 * process left is removed by a later one (`removeTemporaryLeftovers`).
 */
export async function makeTemporaryFolder(purpose: Purpose): Promise<string> {
  return await mkdtemp(join(tmpdir(), `slipway-${purpose}-${process.pid}-`))
}

/** Removes the temporary folders of processes which do not run any more. Never rejects. */
export async function removeTemporaryLeftovers(): Promise<void> {
  const names = await readdir(tmpdir()).catch(() => [])
  for (const name of names) {
    const pid = namePattern.exec(name)?.[1]
    if (pid === undefined) continue
    const path = join(tmpdir(), name)
    if (await isLeft(path, Number(pid))) await rm(path, { recursive: true, force: true }).catch(() => {})
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
