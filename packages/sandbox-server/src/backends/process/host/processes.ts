import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { readSmallFile, waitUntil } from './files.ts'
import { runProgram } from './run-program.ts'

/** A process of the host. */
export interface Process {
  readonly pid: number
  readonly parent: number
  readonly session: number
  /** First letter as `ps` tells it: `T` stands still, `Z` has ended. */
  readonly state: string
  /** When it began, in the system's own words: with the pid it names a process for as long as the host runs. */
  readonly start: string
}

const hasProc = process.platform === 'linux'

/** What runs on the host now; those that have ended and were not fetched by their parent are left out. */
export async function listProcesses(): Promise<readonly Process[]> {
  if (!hasProc) return parsePs(await runProgram('ps', ['-A', ...psColumns]))
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  // At once: the kernel answers from memory, and hundreds of files one after the other take as long as the processes live.
  return pids.map(readStat).filter((each) => each !== undefined)
}

/** One process; undefined when there is none of this number that still runs. */
export async function findProcess(pid: number): Promise<Process | undefined> {
  if (!hasProc) return parsePs(await runProgram('ps', ['-p', String(pid), ...psColumns]))[0]
  return readStat(pid)
}

function readStat(pid: number): Process | undefined {
  try {
    return parseProcStat(pid, readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return undefined
  }
}

/** From a line of `/proc/<pid>/stat`; the name in it, in parentheses, may hold anything. */
export function parseProcStat(pid: number, stat: string): Process | undefined {
  const [state = 'Z', parent = '', , session = '', ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const start = rest[15]
  if ('ZX'.includes(state) || start === undefined) return undefined
  return { pid, parent: Number(parent), session: Number(session), state, start }
}

/** Where there is no /proc a group stands for the session: a supervisor leads both. */
const psColumns = ['-o', 'pid=', '-o', 'ppid=', '-o', 'pgid=', '-o', 'stat=', '-o', 'lstart=']

function parsePs({ output }: { readonly output: string }): Process[] {
  return output.split('\n').flatMap((line) => {
    const parts = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S)\S*\s+(.+?)\s*$/.exec(line)
    if (parts === null) return []
    const [, pid, parent, session, state = 'Z', began = ''] = parts
    const start = began.replaceAll(/\s+/g, ' ')
    if (state === 'Z') return []
    return [{ pid: Number(pid), parent: Number(parent), session: Number(session), state, start }]
  })
}

/** The descendants of a process, without itself. */
export function listDescendants(all: readonly Process[], pid: number): Process[] {
  const children = Map.groupBy(all, (each) => each.parent)
  const found: Process[] = []
  const open = [pid]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const child of children.get(next) ?? []) {
      found.push(child)
      open.push(child.pid)
    }
  }
  return found
}

/**
 * Whether a process was started with a home or a folder for temporary files below this one. Where it works does not count: that
 * may be somebody who looks at the files. Not read at once like the others: this file may keep its reader waiting.
 */
export async function hasHomeBelow({ pid }: Process, folder: string): Promise<boolean> {
  if (!hasProc || pid === process.pid) return false
  const environment = (await readSmallFile(`/proc/${pid}/environ`))?.split('\0') ?? []
  return environment.some(
    (each) => each.startsWith(`HOME=${folder}/`) || each.startsWith(`TMPDIR=${folder}/`),
  )
}

/** Sends a signal; false when there is nobody to get it. */
export function sendSignal(pid: number, name: NodeJS.Signals): boolean {
  // Never a group or everybody: 0 and negative numbers mean those.
  if (!Number.isInteger(pid) || pid <= 1) return false
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

/** Signals what `find` finds until it finds nothing more, so that what is born meanwhile is found too. False: not in time. */
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

/** Another text after each start of the host. */
export async function readBootId(): Promise<string> {
  return (await readSmallFile('/proc/sys/kernel/random/boot_id'))?.trim() ?? ''
}
