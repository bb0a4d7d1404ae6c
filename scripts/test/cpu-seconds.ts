import { readFileSync } from 'node:fs'

/** CPU time of this process and its ended children, user and system, in seconds; undefined outside of Linux. */
export function cpuSeconds(): number | undefined {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // utime, stime, cutime, cstime: fields 14 to 17 in ticks of 10 ms.
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100
  } catch {
    return undefined
  }
}
