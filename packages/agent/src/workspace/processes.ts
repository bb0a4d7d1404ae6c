import { open, readdir, readFile, readlink } from 'node:fs/promises'

/** Sends a signal to a process group; does nothing when the group is gone. */
export function killProcessGroup(pid: number | undefined, signal: NodeJS.Signals = 'SIGKILL'): void {
  if (pid !== undefined) sendSignal(-pid, signal)
}

/** The foreground process group of a session's terminal; undefined without /proc. */
export async function foregroundProcessGroup(leader: number): Promise<number | undefined> {
  const group = Number((await readProcStat(leader))?.[5])
  return group > 0 ? group : undefined
}

interface BlockingSyscalls {
  readonly read: number
  readonly select: readonly number[]
  readonly poll: readonly number[]
  readonly epoll: readonly number[]
}

/** Numbers of the system calls that wait: `read`, `select` on file 0 alone, and those for several files. */
const blockingSyscalls: Readonly<Record<string, BlockingSyscalls>> = {
  x64: { read: 0, select: [23, 270], poll: [7, 271], epoll: [232, 281, 441] },
  arm64: { read: 63, select: [72], poll: [73], epoll: [22, 441] },
}

/**
 * Whether the foreground program of a session waits for terminal input. True is certain at that moment; false
 * is not: /proc may lack the facts, and programs wait in many ways.
 */
export async function isAwaitingInput(leader: number): Promise<boolean> {
  const processGroup = await foregroundProcessGroup(leader)
  const pids = processGroup === undefined ? [] : [processGroup]
  for (const pid of pids) {
    if (await isReadingTerminal(pid)) return true
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'latin1').catch(() => '')
    // An event loop with a child waits for the child, too.
    if (children.trim() === '' && (await isPollingTerminal(pid))) return true
    if (pids.length < 32) pids.push(...children.trim().split(' ').filter(Boolean).map(Number))
  }
  return false
}

async function isReadingTerminal(pid: number): Promise<boolean> {
  const syscalls = blockingSyscalls[process.arch]
  const syscall = await readFile(`/proc/${pid}/syscall`, 'latin1').catch(() => '')
  const [number, firstArgument = ''] = syscall.split(' ')
  const isRead = number === String(syscalls?.read)
  // The first argument of `select` is a number of files, not a file.
  const isSelect = syscalls?.select.some((select) => number === String(select)) && firstArgument === '0x1'
  if (!isRead && !isSelect) return false
  return isTerminal(await openFile(pid, isRead ? Number(firstArgument) : 0))
}

/**
 * Whether a program that waits for several files, such as the event loop of Node, waits for terminal input
 * and has nothing else to do: the terminal is among the files and no socket, and none of its threads runs.
 */
async function isPollingTerminal(pid: number): Promise<boolean> {
  const files = await polledFiles(pid)
  const targets = await Promise.all(files.map((file) => openFile(pid, file)))
  if (!targets.some(isTerminal) || targets.some((target) => target.startsWith('socket:'))) return false
  return !(await hasRunningThread(pid))
}

/** The files whose input a program waits for in `poll` or with an epoll set; for the set also its sockets. */
async function polledFiles(pid: number): Promise<readonly number[]> {
  const syscall = await readFile(`/proc/${pid}/syscall`, 'latin1').catch(() => '')
  const [number, first = '', second = ''] = syscall.split(' ')
  const syscalls = blockingSyscalls[process.arch]
  if (syscalls?.poll.some((poll) => number === String(poll)))
    return await readPollSet(pid, Number(first), Number(second))
  if (!syscalls?.epoll.some((epoll) => number === String(epoll))) return []
  const info = await readFile(`/proc/${pid}/fdinfo/${Number(first)}`, 'latin1').catch(() => '')
  const entries = [...info.matchAll(/^tfd:\s*(\d+)\s+events:\s*([0-9a-f]+)/gm)]
  const isRead = ([, , events = '0']: readonly string[]) => (Number.parseInt(events, 16) & 1) === 1
  const targets = await Promise.all(entries.map(([, file]) => openFile(pid, Number(file))))
  // A socket counts for whatever it is waited for.
  const counted = entries.filter((entry, at) => isRead(entry) || targets[at]?.startsWith('socket:'))
  return counted.map(([, file]) => Number(file))
}

/** Files that `poll` waits to read from: an array of `int fd; short events; short revents` in its memory. */
async function readPollSet(pid: number, address: number, count: number): Promise<readonly number[]> {
  if (count === 0 || count > 1024 || !Number.isSafeInteger(address)) return []
  const memory = await open(`/proc/${pid}/mem`).catch(() => undefined)
  try {
    const set = Buffer.alloc(count * 8)
    const { bytesRead = 0 } = (await memory?.read(set, 0, set.length, address).catch(() => undefined)) ?? {}
    if (bytesRead < set.length) return []
    return [...Array(count).keys()].flatMap((at) => {
      const file = set.readInt32LE(at * 8)
      return file >= 0 && (set.readInt16LE(at * 8 + 4) & 1) === 1 ? [file] : []
    })
  } finally {
    await memory?.close()
  }
}

async function hasRunningThread(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const states = await Promise.all(threads.map(async (thread) => (await readProcStat(pid, thread))?.[0]))
  return states.some((state) => state === 'R' || state === 'D')
}

/**
 * Whether programs run in a session besides `shell` and its ancestors: children of it, and daemons, which
 * have another parent. True without /proc, which alone shows them.
 */
export async function hasPrograms(leader: number, marker: string, shell: number): Promise<boolean> {
  if ((await readProcStat(process.pid)) === undefined) return true
  const children = await readFile(`/proc/${shell}/task/${shell}/children`, 'latin1').catch(() => '')
  // Cheaper than to look at all processes.
  if (children !== '') return true
  const members = (await listProcesses()).filter(isOfSession(leader, marker))
  const parents = new Map(members.map(({ pid, parent }) => [pid, parent]))
  const own = new Set([leader])
  for (let pid: number | undefined = shell; pid !== undefined; pid = parents.get(pid)) own.add(pid)
  return members.some(({ pid }) => !own.has(pid))
}

async function openFile(pid: number, file: number): Promise<string> {
  return await readlink(`/proc/${pid}/fd/${file}`).catch(() => '')
}

function isTerminal(target: string): boolean {
  return target.startsWith('/dev/pts/') || target === '/dev/tty'
}

/**
 * Kills a session: the process group of its leader and, with /proc, each process of the session or with
 * `marker` in its environment (children in other sessions). Resolves when none is left, or after 8 rounds.
 */
export async function killSession(leader: number, marker: string): Promise<void> {
  killProcessGroup(leader)
  await killMatching(isOfSession(leader, marker))
}

function isOfSession(leader: number, marker: string): (process: ProcessInfo) => boolean {
  return ({ session, environment }) => session === leader || environment.includes(marker)
}

/** Kills each process with a matching environment. Needs /proc. */
export async function killByEnvironment(matches: (environment: Buffer) => boolean): Promise<void> {
  await killMatching(({ environment }) => matches(environment))
}

/** The same, with the process groups that such processes lead, whatever the environment of their members. */
export async function killGroupsByEnvironment(matches: (environment: Buffer) => boolean): Promise<void> {
  await killMatching(
    ({ environment }) => matches(environment),
    (pid) => killProcessGroup(pid),
  )
}

async function killMatching(
  matches: (process: ProcessInfo) => boolean,
  onMatch: (pid: number) => void = () => {},
): Promise<void> {
  for (let round = 0; round < 8; round++) {
    const pids = (await listProcesses()).filter(matches).map(({ pid }) => pid)
    if (pids.length === 0) return
    for (const pid of pids) {
      onMatch(pid)
      sendSignal(pid, 'SIGKILL')
    }
    await new Promise((done) => setTimeout(done, 5 * round))
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process is gone, or belongs to another user.
  }
}

interface ProcessInfo {
  readonly pid: number
  readonly parent: number
  readonly session: number
  readonly environment: Buffer
}

let scanInProgress: Promise<unknown> = Promise.resolve()
let nextScan: Promise<readonly ProcessInfo[]> | undefined

/** All live processes but this one. Calls during a scan share the next scan: many processes end at once. */
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
  // One after another, to bound the number of open files.
  for (const pid of entries.filter((name) => /^\d+$/.test(name)).map(Number)) {
    const stat = pid === process.pid ? undefined : await readProcStat(pid)
    if (stat === undefined || stat[0] === 'Z' || stat[0] === 'X') continue
    const environment = await readFile(`/proc/${pid}/environ`).catch(() => Buffer.alloc(0))
    found.push({ pid, parent: Number(stat[1]), session: Number(stat[3]), environment })
  }
  return found
}

/**
 * The fields of /proc/<pid>/stat after the name: state, parent, group, session, terminal, foreground group.
 */
async function readProcStat(pid: number, thread?: string): Promise<string[] | undefined> {
  const file = thread === undefined ? `/proc/${pid}/stat` : `/proc/${pid}/task/${thread}/stat`
  const stat = await readFile(file, 'latin1').catch(() => undefined)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}
