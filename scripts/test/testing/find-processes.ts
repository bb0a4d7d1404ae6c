import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'

/**
 * Processes with the directory in their arguments, environment or mounts, by pid, and their children. Programs
 * in a sandbox have it among their mounts alone.
 */
export async function findProcesses(directory: string): Promise<Map<number, string>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const processes = await Promise.all(
    pids.map(async (pid) => {
      const [args = '', environment = '', mounts = '', stat = ''] = await Promise.all(
        ['cmdline', 'environ', 'mountinfo', 'stat'].map((file) =>
          readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => ''),
        ),
      )
      const parent = Number(stat.slice(stat.lastIndexOf(')')).split(' ')[2])
      const isOwn =
        [args, environment].some((text) => text.includes(directory)) || mounts.includes(basename(directory))
      return { pid: Number(pid), parent, isOwn, args: args.replaceAll('\0', ' ') }
    }),
  )
  const found = new Map<number, string>()
  for (let size = -1; size < found.size; ) {
    size = found.size
    for (const { pid, parent, isOwn, args } of processes) if (isOwn || found.has(parent)) found.set(pid, args)
  }
  return found
}
