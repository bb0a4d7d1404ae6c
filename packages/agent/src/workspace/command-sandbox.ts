import { readFile, realpath } from 'node:fs/promises'
import type { CommandSandbox } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { lastChars } from '@slipway/shared/text'
import { currentPaths } from './current-paths.ts'

export type ActiveSandbox = CommandSandbox & { readonly mode: 'workspace-write' | 'read-only' }

interface SandboxPlaces {
  /** Absolute, without symbolic links. */
  readonly directory: string
  /** May be read wherever they are. */
  readonly readable: readonly string[]
  /** Shown empty. */
  readonly hidden: readonly string[]
  /** May be changed in every mode. */
  readonly writable?: readonly string[]
  /** Where the program starts, when not in the directory. */
  readonly cwd?: string | undefined
}

/** Below /proc; the owner of these files is root, also without any capability. */
export const kernelSettings = ['sys', 'sysrq-trigger', 'irq', 'bus', 'fs', 'mtrr', 'acpi', 'scsi']

/** Options of bubblewrap that mount something at a path. */
export type Mount = readonly [path: string, ...args: string[]]

/** What is deeper is mounted later; of the same path the last of the list counts. */
export function mountArguments(mounts: readonly Mount[]): string[] {
  const depth = ([path]: Mount) => (path === '/' ? 0 : path.split('/').length)
  const ordered = mounts.map((mount, at) => ({ mount, at }))
  ordered.sort((a, b) => depth(a.mount) - depth(b.mount) || a.at - b.at)
  return ordered.flatMap(({ mount: [path, ...args] }) => (path === '/' ? [] : args))
}

/**
 * The beginning of a command line (bubblewrap) under which programs see the file system read-only, the
 * workspace as the mode says, an empty /tmp, /run and `hidden`, no other processes, and the network only
 * when it is allowed. They have no capabilities and gain none.
 */
export async function sandboxCommand(sandbox: ActiveSandbox, places: SandboxPlaces): Promise<string[]> {
  const { directory } = places
  const bind = sandbox.mode === 'workspace-write' ? '--bind' : '--ro-bind'
  const [hidden, readable, writable, resolver, sockets] = await Promise.all([
    existing(currentPaths(places.hidden)),
    existing(places.readable),
    existing(places.writable ?? []),
    existing(['/etc/resolv.conf']),
    sandbox.network ? [] : existing(await listeningSockets()),
  ])
  // Sockets in /tmp and /run would lead to programs outside, such as a container engine.
  const empty = ['/tmp', '/run', ...hidden].map((path): Mount => [path, '--tmpfs', path])
  // A link that a program has put there shows nothing. The name server list is often a link into /run.
  const shown = [
    ...readable.filter((path) => places.readable.includes(path)),
    ...(sandbox.network ? resolver : []),
  ].filter((path) => empty.some(([root]) => isWithin(root, path)))
  const mounts: Mount[] = [
    ...empty,
    ...shown.map((path): Mount => [path, '--ro-bind', path, path]),
    ...writable.map((path): Mount => [path, '--bind', path, path]),
    [directory, bind, directory, directory],
    ...sockets
      .filter((path) => ![directory, '/tmp', '/run', ...hidden].some((root) => isWithin(root, path)))
      .map((path): Mount => [path, '--ro-bind', '/dev/null', path]),
  ]
  const root = directory === '/' ? [bind, '/', '/'] : ['--ro-bind', '/', '/']
  return [
    ...['bwrap', '--die-with-parent', '--unshare-pid', '--unshare-ipc', '--cap-drop', 'ALL'],
    ...(sandbox.network ? [] : ['--unshare-net']),
    ...root,
    ...['--dev', '/dev', '--proc', '/proc'],
    ...kernelSettings.flatMap((name) => ['--ro-bind-try', `/proc/${name}`, `/proc/${name}`]),
    ...mountArguments(mounts),
    ...['--setenv', 'TMPDIR', '/tmp', '--chdir', places.cwd ?? directory, '--'],
  ]
}

const maxSockets = 200

/** Unix sockets of programs of this machine: they lead out of a sandbox without network. */
async function listeningSockets(): Promise<string[]> {
  const table = await readFile('/proc/net/unix', 'latin1').catch(() => '')
  // A listening one has the flag SO_ACCEPTCON; sockets for datagrams are of type 2.
  const paths = table.matchAll(/^\S+ \S+ \S+ (\S+) (\S+) \S+ +\d+ (\/.+)$/gm)
  const open = [...paths].flatMap(([, flags, type, path = '']) =>
    flags === '00010000' || type === '0002' ? [path] : [],
  )
  return [...new Set(open)].slice(0, maxSockets)
}

/** The real paths of those that exist. */
async function existing(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map((path) => realpath(path).catch(() => undefined)))
  return found.filter((path) => path !== undefined)
}

/** What the model may do, in a sentence. */
export function describeSandbox({ mode, network }: ActiveSandbox): string {
  const files = mode === 'read-only' ? 'change no files' : 'change files only below the working directory'
  return `they can ${files} (and in /tmp, which is their own), and ${network ? 'have' : 'have no'} network`
}

const refusalPattern =
  /Read-only file system|EROFS|Network is unreachable|ENETUNREACH|EAI_AGAIN|Temporary failure in name resolution|Could not resolve host/i

/** Whether the output of a failed command looks as if the sandbox had stopped it. */
export function looksRefused(output: string): boolean {
  return refusalPattern.test(lastChars(output, 20_000))
}

/** Whether the output of a failed command says that a program gained no privileges. */
export function needsPrivileges(output: string): boolean {
  return /no new privileges|newuidmap|fusermount|must be (?:owned by uid 0|setuid)/i.test(
    lastChars(output, 20_000),
  )
}
