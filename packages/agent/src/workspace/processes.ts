import { readdir, readFile, readlink } from 'node:fs/promises'

/**
 * Kills a process with all of its group, or of a group alone when its leader is gone; nothing happens when nobody of it
 * is left.
 */
export function killProcessGroup(pid: number | undefined, signal: NodeJS.Signals = 'SIGKILL'): void {
  if (pid === undefined) return
  sendSignal(-pid, signal)
}

/**
 * The group that owns the terminal of a session's leader: what a Ctrl-C would reach. Undefined where there is no /proc or
 * no such process.
 */
export async function foregroundProcessGroup(leader: number): Promise<number | undefined> {
  const group = Number((await readProcStat(leader))?.[5])
  return group > 0 ? group : undefined
}

/** Numbers of the system calls by which a program waits for one file: reading it, or a selection of file 0 alone. */
const blockingSyscalls: Readonly<
  Record<string, { readonly read: number; readonly select: readonly number[] }>
> = {
  x64: { read: 0, select: [23, 270] },
  arm64: { read: 63, select: [72] },
}

/**
 * Whether what runs in the foreground of a session waits for somebody to type. True is sure at that moment; false says
 * nothing: there may be no such facts in /proc, and programs wait in many ways.
 */
export async function isAwaitingInput(leader: number): Promise<boolean> {
  const processGroup = await foregroundProcessGroup(leader)
  const pids = processGroup === undefined ? [] : [processGroup]
  for (const pid of pids) {
    if (await isReadingTerminal(pid)) return true
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'latin1').catch(() => '')
    if (pids.length < 32) pids.push(...children.trim().split(' ').filter(Boolean).map(Number))
  }
  return false
}

async function isReadingTerminal(pid: number): Promise<boolean> {
  const syscalls = blockingSyscalls[process.arch]
  const syscall = await readFile(`/proc/${pid}/syscall`, 'latin1').catch(() => '')
  const [number, firstArgument = ''] = syscall.split(' ')
  const isRead = number === String(syscalls?.read)
  // Of a selection the first argument is the number of files, not a file.
  const isSelect = syscalls?.select.some((select) => number === String(select)) && firstArgument === '0x1'
  if (!isRead && !isSelect) return false
  const target = await readlink(`/proc/${pid}/fd/${isRead ? Number(firstArgument) : 0}`).catch(() => '')
  return target.startsWith('/dev/pts/') || target === '/dev/tty'
}

/**
 * Kills a session: its leader with its group, and, where there is /proc, each process of the session and each process
 * whose environment holds `mark` (children that made a session of their own). Resolves when none is left, or after some
 * rounds when processes start faster than they are found. Out of reach: a process in a session of its own that was started
 * without the mark, and one of another user.
 */
export async function killSession(leader: number, marker: string): Promise<void> {
  killProcessGroup(leader)
  await killMatching(({ session, environment }) => session === leader || environment.includes(marker))
}

/** Kills each process whose environment says so, where there is /proc. */
export async function killByEnvironment(matches: (environment: Buffer) => boolean): Promise<void> {
  await killMatching(({ environment }) => matches(environment))
}

async function killMatching(matches: (process: ProcessInfo) => boolean): Promise<void> {
  for (let round = 0; round < 8; round++) {
    const pids = (await listProcesses()).filter(matches).map(({ pid }) => pid)
    if (pids.length === 0) return
    for (const pid of pids) sendSignal(pid, 'SIGKILL')
    await new Promise((done) => setTimeout(done, 5 * round))
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It is gone, or it is another user's.
  }
}

interface ProcessInfo {
  readonly pid: number
  readonly session: number
  readonly environment: Buffer
}

let scanInProgress: Promise<unknown> = Promise.resolve()
let nextScan: Promise<readonly ProcessInfo[]> | undefined

/** All processes that are alive, but this one. Those who ask while somebody looks share the look after it: many end at once. */
function listProcesses(): Promise<readonly ProcessInfo[]> {
  nextScan ??= scanInProgress.then(() => {
    nextScan = undefined
    const found = scanProcesses()
    scanInProgress = found
    return found
  })
  return nextScan
}

async function scanProcesses(): Promise<readonly ProcessInfo[]> {
  const entries = await readdir('/proc').catch(() => [])
  const found: ProcessInfo[] = []
  // One after another, so that a machine with many processes does not cost as many open files.
  for (const pid of entries.filter((name) => /^\d+$/.test(name)).map(Number)) {
    const stat = pid === process.pid ? undefined : await readProcStat(pid)
    if (stat === undefined || stat[0] === 'Z' || stat[0] === 'X') continue
    const environment = await readFile(`/proc/${pid}/environ`).catch(() => Buffer.alloc(0))
    found.push({ pid, session: Number(stat[3]), environment })
  }
  return found
}

/** What /proc/<pid>/stat says after the name: state, parent, group, session, terminal, foreground group, ... */
async function readProcStat(pid: number): Promise<string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}
