import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreErrors, readSmallFile, waitUntil } from './host/files.ts'
import { findProcess, type Process, parseProcStat } from './host/processes.ts'
import { hostEnvironment, hostPath } from './host/run-program.ts'
import type { SandboxPaths } from './sandbox-paths.ts'

/**
 * The shell that stays beside a sandbox, outside of its walls and limits, and needs no server: it writes down who it is before it
 * starts anything, keeps what the sandbox prints, and writes down how it ended. The server may die at any line of it:
 *
 * - A start writes its epoch into the record and looks for supervisors of earlier epochs after that; a supervisor writes its
 *   pid and looks into the record after that. So the server finds the pid, or the supervisor finds another epoch and ends.
 * - When the supervisor is killed, bubblewrap ends with its parent, and with it everything of the sandbox.
 *
 * Output goes through a fifo to a reader that begins a new file when one is full: bounded, also while no server runs.
 */
const supervisorScript = `
root=$1 epoch=$2 files=$3 blocks=$4 groups=$5 path=$PATH; shift 5
PATH=${hostPath}
umask 077
fail() { echo "125 $1" > "$root/exit.$epoch"; exit 125; }
if [ -r /proc/$$/stat ]; then read -r start < /proc/$$/stat; else start=$(ps -o lstart= -p $$); fi
printf '%s\\n' "$$ $start" > "$root/pid.$epoch" || exit 125
read -r record < "$root/process.json" || fail 'it was removed before it began'
case $record in *"$epoch"*) ;; *) exit 125 ;; esac
mkfifo "$root/fifo.$epoch" || fail 'no fifo can be made for its output'
(
  exec < "$root/fifo.$epoch" 3<&- 4<&-
  size=0
  mv -f "$root/output" "$root/output.1"
  while :; do
    dd bs=4096 count=256 >> "$root/output"
    before=$size size=$(wc -c < "$root/output")
    [ "$size" -eq "$before" ] && break
    if [ "$size" -gt 524288 ]; then mv -f "$root/output" "$root/output.1"; size=0; : > "$root/output"; fi
  done
  : > "$root/drained.$epoch"
) &
exec > "$root/fifo.$epoch" 2>&1
rm -f "$root/fifo.$epoch"
(
  while [ "$groups" -gt 0 ]; do
    echo 0 > "$1/cgroup.procs" || exit 125
    shift; groups=$((groups - 1))
  done
  [ -w /proc/self/oom_score_adj ] && echo 500 > /proc/self/oom_score_adj 2> /dev/null
  ulimit -c 0
  # A hard limit that is lower already holds too.
  [ "$files" = - ] || ulimit -n "$files" 2> /dev/null
  [ "$blocks" = - ] || ulimit -f "$blocks"
  umask 022
  PATH=$path
  exec "$@"
)
code=$?
# Its last words first; a process that it left behind may hold the output open for ever.
exec > /dev/null 2>&1
for i in 1 2 3 4 5 6 7 8 9 10; do
  [ -e "$root/drained.$epoch" ] && break
  sleep 0.1 || sleep 1
done
echo "$code" > "$root/exit.$epoch"
`

export interface LaunchOptions {
  readonly paths: SandboxPaths
  readonly epoch: string
  readonly maxOpenFiles: number | undefined
  readonly maxFileBytes: number | undefined
  readonly groups: readonly string[]
  readonly command: readonly string[]
  /** Of the program itself; bubblewrap gets none, and is told by its arguments. */
  readonly env: Readonly<Record<string, string>> | undefined
  readonly cwd: string
  /** Lists of arguments that the program reads from descriptors 3 and 4: they hold secrets, which no list of processes may show. */
  readonly argumentLists: readonly (readonly string[])[]
}

/** Starts a supervisor that outlives this process. Resolves when it has written down who it is, or has ended. */
export async function launchSupervisor(options: LaunchOptions): Promise<ChildProcess> {
  const { paths, epoch, groups } = options
  const argumentFiles: FileHandle[] = []
  try {
    for (const [index, list] of options.argumentLists.entries()) {
      argumentFiles.push(
        await createUnnamedFile(join(paths.root, `arguments.${index}`), `${list.join('\0')}\0`),
      )
    }
    const numericArguments = [
      options.maxOpenFiles ?? '-',
      options.maxFileBytes === undefined ? '-' : Math.ceil(options.maxFileBytes / 512),
      groups.length,
    ]
    const child = spawn(
      '/bin/sh',
      [
        '-c',
        supervisorScript,
        'slipway-sandbox',
        paths.root,
        epoch,
        ...numericArguments.map(String),
        ...groups,
        ...options.command,
      ],
      {
        cwd: options.cwd,
        env: options.env ?? hostEnvironment,
        detached: true,
        stdio: ['ignore', 'ignore', 'ignore', ...argumentFiles.map((file) => file.fd)],
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
  } finally {
    for (const file of argumentFiles) await file.close()
  }
}

/** A file without a name, read from its beginning: nothing of it stays on the disk. */
async function createUnnamedFile(path: string, text: string): Promise<FileHandle> {
  await rm(path, { force: true })
  const file = await open(path, 'wx+', 0o600)
  await rm(path)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; )
    at += (await file.write(bytes, at, bytes.length - at, at)).bytesWritten
  return file
}

/** The supervisor of a start as it wrote itself down; undefined when it has not (yet). It may have ended since. */
export async function readSupervisorId(
  paths: SandboxPaths,
  epoch: string,
): Promise<Pick<Process, 'pid' | 'start'> | undefined> {
  const text = await readSmallFile(paths.pid(epoch))
  const [pidText = '', start] = splitAtSpace(text?.trimEnd() ?? '')
  const pid = Number(pidText)
  if (!Number.isInteger(pid) || pid <= 1 || start === undefined) return undefined
  const startTime = start.startsWith(`${pid} (`)
    ? parseProcStat(pid, start)?.start
    : start.replaceAll(/\s+/g, ' ').trim()
  return startTime === undefined || text?.endsWith('\n') !== true ? undefined : { pid, start: startTime }
}

/** The supervisor of a start while it runs. */
export async function findSupervisor(paths: SandboxPaths, epoch: string): Promise<Process | undefined> {
  const written = await readSupervisorId(paths, epoch)
  if (written === undefined) return undefined
  const now = await findProcess(written.pid)
  return now?.start === written.start ? now : undefined
}

/** How a start ended: the exit code as a shell tells it, and what the supervisor had to say. Undefined: it wrote nothing. */
export async function readExit(
  paths: SandboxPaths,
  epoch: string,
): Promise<{ code: number; words: string } | undefined> {
  const text = await ignoreErrors(['ENOENT'], readSmallFile(paths.exit(epoch)))
  const parts = /^(\d+)(?: (.*))?\n/.exec(text ?? '')
  return parts === null ? undefined : { code: Number(parts[1]), words: parts[2] ?? '' }
}

function splitAtSpace(text: string): [string, string | undefined] {
  const at = text.indexOf(' ')
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}
