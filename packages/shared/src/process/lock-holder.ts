import { readFileSync } from 'node:fs'

/** The process with a lock of this kind on an inode, where the system tells. */
export function findLockHolder(kind: 'FLOCK' | 'POSIX', inode: number): number | undefined {
  try {
    const line = readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .find((line) => line.includes(` ${kind} `) && line.includes(`:${inode} `) && !line.includes('->'))
    const pid = Number(line?.trim().split(/\s+/)[4])
    return pid > 0 ? pid : undefined
  } catch {
    return undefined
  }
}
