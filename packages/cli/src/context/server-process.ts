import { readFile } from 'node:fs/promises'

/** Whether a process of this user runs. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid < 1) return false
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** When a process was started, as Linux counts it; undefined elsewhere. With the pid it names one process. */
export async function processStart(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name in parentheses may contain anything; the time is the 22nd of all fields.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}

/** The command line of a process, where the system shows it. */
export async function processCommand(pid: number): Promise<readonly string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return text.split('\0').filter((part) => part !== '')
}
