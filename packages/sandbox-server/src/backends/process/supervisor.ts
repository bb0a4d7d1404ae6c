import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { JailedCommand } from './bubblewrap/arguments.ts'
import { openInputFiles } from './bubblewrap/spawn-with-fds.ts'
import { readSmallFile, waitUntil } from './host/files.ts'
import { findProcess, type Process, parseProcStat } from './host/processes.ts'
import { hostEnvironment, hostPath } from './host/run-program.ts'
import type { SandboxPaths } from './sandbox-paths.ts'

/** Without its comments: lists of processes show it. */
const supervisorScript = readFileSync(new URL('supervisor.sh', import.meta.url), 'utf8').replace(
  /^ *#.*\n/gm,
  '',
)

export interface LaunchOptions extends JailedCommand {
  readonly paths: SandboxPaths
  readonly epoch: string
  readonly maxOpenFiles: number | undefined
  readonly maxFileBytes: number | undefined
  readonly groups: readonly string[]
  /** Of the command; undefined for bubblewrap, which gets it as arguments. */
  readonly env: Readonly<Record<string, string>> | undefined
  readonly cwd: string
  /** The program that connects the network of the sandbox, without its target. */
  readonly pasta?: readonly string[]
}

/** Starts a supervisor that outlives this process. Resolves when it has written its pid, or has ended. */
export async function launchSupervisor(options: LaunchOptions): Promise<ChildProcess> {
  const { paths, epoch, groups, pasta = [], command, maxOpenFiles, maxFileBytes } = options
  const maxFileBlocks = maxFileBytes === undefined ? '-' : Math.ceil(maxFileBytes / 512)
  const limits = [maxOpenFiles ?? '-', maxFileBlocks]
  const args = [paths.root, epoch, ...limits, groups.length, pasta.length, hostPath]
  await using files = await openInputFiles(options.inputs, paths.root)
  const child = spawn(
    '/bin/sh',
    ['-c', supervisorScript, 'slipway-sandbox', ...args.map(String), ...groups, ...pasta, ...command],
    {
      cwd: options.cwd,
      env: options.env ?? hostEnvironment,
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', ...files.fds],
    },
  )
  child.on('error', () => {})
  if (child.pid === undefined) await once(child, 'spawn')
  child.unref()
  const isKnown = async () =>
    child.exitCode !== null ||
    child.signalCode !== null ||
    (await readSupervisorId(paths, epoch)) !== undefined
  if (!(await waitUntil(isKnown, 30_000))) throw new Error(`The supervisor of ${paths.root} does not begin`)
  return child
}

/** What the supervisor of a start wrote about itself; undefined before that. It may have ended since. */
export async function readSupervisorId(
  paths: SandboxPaths,
  epoch: string,
): Promise<Pick<Process, 'pid' | 'start'> | undefined> {
  const [, pidText = '', text = ''] =
    /^(\S+) (.*)\n$/s.exec((await readSmallFile(paths.pid(epoch))) ?? '') ?? []
  const pid = Number(pidText)
  if (!Number.isInteger(pid) || pid <= 1) return undefined
  // The line of `/proc`, or the time that `ps` prints.
  const start = text.startsWith(`${pid} (`)
    ? parseProcStat(pid, text)?.start
    : text.replaceAll(/\s+/g, ' ').trim()
  return start === undefined ? undefined : { pid, start }
}

/** The supervisor of a start while it runs. */
export async function findSupervisor(paths: SandboxPaths, epoch: string): Promise<Process | undefined> {
  const written = await readSupervisorId(paths, epoch)
  if (written === undefined) return undefined
  const now = await findProcess(written.pid)
  return now?.start === written.start ? now : undefined
}

/** The exit code of a start as of a shell, and a message of the supervisor. Undefined: it wrote nothing. */
export async function readExit(
  paths: SandboxPaths,
  epoch: string,
): Promise<{ code: number; message: string } | undefined> {
  const parts = /^(\d+)(?: (.*))?\n/.exec((await readSmallFile(paths.exit(epoch))) ?? '')
  return parts === null ? undefined : { code: Number(parts[1]), message: parts[2] ?? '' }
}
