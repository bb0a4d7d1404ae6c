import { accessSync, constants, readFileSync, realpathSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import { kernelSettings, type Mount, mountArguments } from './command-sandbox.ts'
import { currentPaths } from './current-paths.ts'

/**
 * Hides directories from programs of tools that have the rights of the server's user: the data directory has
 * the keys, and a name can be written in too many ways for a check of its text. Bubblewrap gives the program
 * a view of the file system in which the directories are empty, and everything else is as it was.
 *
 * What would lead out of this view is taken away too:
 *
 * - `/proc/PID/root` of a program outside. The kernel refuses it across user namespaces, which an ordinary
 *   user's bubblewrap has. Root has none, because its programs need other users (`apt`): it gets its own
 *   process ids, no CAP_SYS_PTRACE and no CAP_DAC_READ_SEARCH (files by their inode numbers).
 * - Mounting. Neither has CAP_SYS_ADMIN here, and mounts are locked in namespaces that a program makes
 *   itself.
 * - Disks. Root sees no block devices and cannot make any, and settings by which the kernel starts programs
 *   of
 *   root (`core_pattern`, `uevent_helper`) are read-only.
 * - Terminal multiplexers, which would start programs in the view of their server.
 *
 * It is no sandbox: programs change what the user may change, and reach daemons that start programs for that
 * user (Docker, systemd, cron, ssh to this machine). A tool user or a command sandbox is for that.
 *
 * Decision page: docs/decisions/0026-command-sandbox.md
 */
interface HiddenPlaces {
  /** Directories; those that exist are hidden. */
  readonly hidden: readonly string[]
  /** Parts of them that are shown, and may be changed. */
  readonly writable: readonly string[]
  readonly readable: readonly string[]
}

/** Those of everyday administration, without those that see disks or other processes; by number in masks. */
const rootCapabilities = {
  ...{ CHOWN: 0, DAC_OVERRIDE: 1, FOWNER: 3, FSETID: 4, KILL: 5, SETGID: 6, SETUID: 7, SETPCAP: 8 },
  ...{ NET_BIND_SERVICE: 10, NET_BROADCAST: 11, NET_ADMIN: 12, NET_RAW: 13, IPC_LOCK: 14, IPC_OWNER: 15 },
  ...{ SYS_CHROOT: 18, SYS_NICE: 23, SYS_RESOURCE: 24, SYS_TIME: 25, SYS_TTY_CONFIG: 26, LEASE: 28 },
  ...{ AUDIT_WRITE: 29, SETFCAP: 31 },
} as const
/** Devices of root that no disk is behind, besides those of `--dev`. */
const rootDevices =
  'pts ptmx shm mqueue kvm fuse net vhost-net dri snd kfd nvidiactl nvidia0 nvidia1 nvidia2 nvidia3 nvidia-uvm nvidia-uvm-tools nvidia-caps'

/**
 * A command line that succeeds where bubblewrap, found in `path`, can hide a directory; undefined without it.
 */
export function hidingProbe(path: string | undefined): string[] | undefined {
  if (process.platform !== 'linux') return undefined
  const folders = (path ?? defaultPath).split(delimiter)
  const bubblewrap = folders.map((folder) => findProgram('bwrap', folder)).find(isOfSystem)
  if (bubblewrap === undefined) return undefined
  const command = hidingCommand(bubblewrap, { hidden: ['/etc'], writable: [], readable: [] }, '/')
  return [...command, '/bin/sh', '-c', 'set -- /etc/*; ! test -e "$1"']
}

/** Tools could have written another user's own. */
function isOfSystem(path: string | undefined): path is string {
  if (path === undefined) return false
  const { uid, mode } = statSync(path)
  return uid === 0 && (mode & 0o022) === 0
}

/** The beginning of a command line under which a program does not see directories. */
export function hidingCommand(bubblewrap: string, places: HiddenPlaces, cwd: string): string[] {
  const hidden = existing([...currentPaths(places.hidden), ...multiplexers()])
  const isHidden = (path: string) => hidden.some((root) => isWithin(root, path))
  // A program may have put a link in the place of what is shown: only the same real path is.
  const show = (paths: readonly string[], option: string) =>
    [...new Set(paths)]
      .filter((path) => isHidden(path) && realDirectory(path) === path)
      .map((path): Mount => [path, option, path, path])
  const mounts = [
    ...hidden.map((path): Mount => [path, '--perms', '0700', '--tmpfs', path]),
    ...show(places.readable, '--ro-bind'),
    ...show(places.writable, '--bind'),
  ]
  return [bubblewrap, ...baseArguments(), ...mountArguments(mounts), '--chdir', cwd, '--']
}

function baseArguments(): string[] {
  if (process.getuid?.() !== 0) {
    // Files of root have no owner in the namespace, and ssh refuses to include such configuration.
    const ssh = existing(['/etc/ssh/ssh_config.d']).flatMap((path) => ['--perms', '0755', '--tmpfs', path])
    return ['--unshare-user', '--dev-bind', '/', '/', ...ssh]
  }
  const permitted = permittedCapabilities()
  const kept = Object.entries(rootCapabilities).filter(([, bit]) => ((permitted >> BigInt(bit)) & 1n) === 1n)
  const devices = rootDevices.split(' ').map((name) => `/dev/${name}`)
  return [
    ...['--unshare-pid', '--cap-drop', 'ALL', ...kept.flatMap(([name]) => ['--cap-add', `CAP_${name}`])],
    ...['--bind', '/', '/', '--dev', '/dev'],
    ...devices.flatMap((path) => ['--dev-bind-try', path, path]),
    ...['--proc', '/proc', '--ro-bind-try', '/sys', '/sys'],
    ...kernelSettings.flatMap((name) => ['--ro-bind-try', `/proc/${name}`, `/proc/${name}`]),
  ]
}

function permittedCapabilities(): bigint {
  const [, mask = '0'] = /^CapPrm:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? []
  return BigInt(`0x${mask}`)
}

/** Folders with sockets of programs that start others. */
function multiplexers(): string[] {
  return [`/tmp/tmux-${process.getuid?.()}`, '/run/screen', '/tmp/screens']
}

function existing(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => realDirectory(path) ?? []))]
}

function realDirectory(path: string): string | undefined {
  try {
    const real = realpathSync(path)
    return statSync(real).isDirectory() ? real : undefined
  } catch {
    return undefined
  }
}

const defaultPath = '/usr/bin:/bin'

/** The file of a program, as the system would find it; undefined when there is none. */
export function findProgram(command: string, path = defaultPath, cwd = process.cwd()): string | undefined {
  const files = command.includes('/')
    ? [resolve(cwd, command)]
    : path.split(delimiter).map((folder) => join(isAbsolute(folder) ? folder : resolve(cwd, folder), command))
  return files.find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  })
}
