import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { readSmallFile, waitUntil } from './files.ts'
import { runProgram } from './run-program.ts'

export interface Process {
  readonly pid: number
  readonly parent: number
  readonly session: number
  /** First letter of the state of `ps`: `T` is stopped, `Z` has ended. */
  readonly state: string
  /** When it began, as the system prints it: with the pid it identifies a process until the host restarts. */
  readonly start: string
}

const hasProc = process.platform === 'linux'

/** The running processes of the host, without zombies. */
export async function listProcesses(): Promise<readonly Process[]> {
  if (!hasProc) return parsePs(await runProgram('ps', ['-A', ...psColumns]))
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  // Synchronous: the kernel answers from memory, and processes end while hundreds of files are awaited.
  return pids.map(readStat).filter((each) => each !== undefined)
}

/** A running process; undefined when there is none with this number. */
export async function findProcess(pid: number): Promise<Process | undefined> {
  if (!hasProc) return parsePs(await runProgram('ps', ['-p', String(pid), ...psColumns]))[0]
  return readStat(pid)
}

/** Whether this process still runs; false where the system has no /proc. */
export function isAlive({ pid, start }: Pick<Process, 'pid' | 'start'>): boolean {
  return hasProc && readStat(pid)?.start === start
}

function readStat(pid: number): Process | undefined {
  try {
    return parseProcStat(pid, readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return undefined
  }
}

/** From a line of `/proc/<pid>/stat`; the name in parentheses may contain anything. */
export function parseProcStat(pid: number, stat: string): Process | undefined {
  const [state = 'Z', parent = '', , session = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const start = rest[15]
  if ('ZX'.includes(state) || start === undefined) return undefined
  return { pid, parent: Number(parent), session: Number(session), state, start }
}

/** Ticks in a second and bytes in a page, as Linux shows them to programs on all machines that Node runs on. */
const [ticksPerSecond, pageBytes] = [100, 4096]

/**
 * Memory without what is shared with other programs, and processor time with that of ended children;
 * undefined when there is no such process, or no /proc.
 */
export function readUse(
  pid: number,
): { readonly memoryBytes: number; readonly cpuSeconds: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const times = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
    const [, resident = 0, shared = 0] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ').map(Number)
    return {
      memoryBytes: Math.max(0, resident - shared) * pageBytes,
      cpuSeconds: times.reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond,
    }
  } catch {
    return undefined
  }
}

/** Without /proc the group stands for the session: a supervisor leads both. */
const psColumns = ['-o', 'pid=', '-o', 'ppid=', '-o', 'pgid=', '-o', 'stat=', '-o', 'lstart=']

function parsePs({ output }: { readonly output: string }): Process[] {
  return output.split('\n').flatMap((line) => {
    const parts = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S)\S*\s+(.+?)\s*$/.exec(line)
    if (parts === null) return []
    const [, pid, parent, session, state = 'Z', started = ''] = parts
    if (state === 'Z') return []
    const start = started.replaceAll(/\s+/g, ' ')
    return [{ pid: Number(pid), parent: Number(parent), session: Number(session), state, start }]
  })
}

/** The descendants of a process, without itself. */
export function listDescendants(all: readonly Process[], pid: number): Process[] {
  const children = Map.groupBy(all, (each) => each.parent)
  const found = [...(children.get(pid) ?? [])]
  for (const each of found) found.push(...(children.get(each.pid) ?? []))
  return found
}

/** By HOME or TMPDIR: people may work there. Not read synchronously: this file may block its reader. */
export async function hasHomeBelow({ pid }: Process, folder: string): Promise<boolean> {
  if (!hasProc || pid === process.pid) return false
  const environment = (await readSmallFile(`/proc/${pid}/environ`))?.split('\0') ?? []
  const prefixes = [`HOME=${folder}/`, `TMPDIR=${folder}/`]
  return environment.some((each) => prefixes.some((prefix) => each.startsWith(prefix)))
}

/** Sends a signal; false when there is no such process. */
export function sendSignal(pid: number, name: NodeJS.Signals): boolean {
  // 0 and negative numbers are groups.
  if (!Number.isInteger(pid) || pid <= 1) return false
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

/** Signals what `find` finds until it finds nothing, so also new processes. False: not in time. */
export function signalUntilNone(
  find: () => Promise<readonly Process[]>,
  name: NodeJS.Signals,
  timeoutMs: number,
): Promise<boolean> {
  return waitUntil(async () => {
    const found = await find()
    for (const { pid } of found) sendSignal(pid, name)
    return found.length === 0
  }, timeoutMs)
}

/** Differs after each start of the host. */
export async function readBootId(): Promise<string> {
  return (await readSmallFile('/proc/sys/kernel/random/boot_id'))?.trim() ?? ''
}

/** Bytes of the deleted files of a device that processes hold open, each file once. */
export async function measureDeletedFiles(pids: readonly number[], device: number): Promise<number> {
  const folders = pids.map((pid) => `/proc/${pid}/fd`)
  if (folders.length === 0 || !hasProc) return 0
  // Not by this process: a file system of a sandbox may never answer.
  const options = ['-maxdepth', '1', '-type', 'f', '-links', '0', '-printf', '%D %i %b\\n']
  const { output } = await runProgram('find', ['-L', ...folders, ...options], 5_000)
  const found = output.matchAll(/^(\d+) (\d+) (\d+)$/gm)
  const blocks = new Map(
    [...found].flatMap(([, dev, ino, count]) => (Number(dev) === device ? [[ino, Number(count)]] : [])),
  )
  return [...blocks.values()].reduce((sum, count) => sum + count * 512, 0)
}
