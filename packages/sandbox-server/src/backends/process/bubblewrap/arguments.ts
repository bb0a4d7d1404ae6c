import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, normalize } from 'node:path'
import { exists, isWithin } from '@slipway/shared/fs'
import type { SandboxNetworkMode } from '../../backend.ts'
import { ignoreErrors } from '../host/files.ts'
import { enterNetwork, infoFd, type PrivateNetwork } from './private-network.ts'
import { seccompFilter } from './seccomp.ts'
import systemPaths from './system-paths.json' with { type: 'json' }

/** Paths of a sandbox, as seen from inside. */
export const insidePaths = {
  data: '/data',
  workspace: '/workspace',
  homeDirectory: '/home/slipway',
  hostSockets: '/run/slipway',
  /** Compiled code of our own agent server. */
  code: '/run/slipway-code',
} as const

/** How sandboxes are isolated on this host. */
export interface Jail {
  readonly bubblewrap: string
  /** Present when the server is root: sandboxes get their own users. */
  readonly setpriv: string | undefined
  readonly canForbidUsers: boolean
  /** Present when sandboxes can have their own networks. */
  readonly network: PrivateNetwork | undefined
}

interface JailOptions {
  /** User and group of the host for the sandbox, when the server is root. */
  readonly user: number | null
  readonly network: SandboxNetworkMode
  readonly env: Readonly<Record<string, string>>
  /** As seen from inside. */
  readonly workingDir: string
  /** Folders of the host that the sandbox may write, and where it sees them. */
  readonly writableBinds?: readonly (readonly [source: string, target: string])[]
  /** Further files of the host and where they are seen, read-only. */
  readonly readOnlyBinds?: readonly (readonly [source: string, target: string])[]
  /** Files and folders that are seen at their own paths, read-only. */
  readonly readable?: readonly string[]
  /** Folders that are hidden, also within something readable. */
  readonly inaccessible?: readonly string[]
  /** Size of each volatile folder. */
  readonly temporaryBytes: number
}

/** A command, and what it reads from the descriptors 3, 4, …: lists of arguments, or bytes. */
export interface JailedCommand {
  readonly command: readonly string[]
  readonly inputs: readonly (readonly string[] | Buffer)[]
}

/**
 * Runs a command behind walls. The first bubblewrap makes the file system and the namespaces; as root it
 * reaches everything that is to be shown, and keeps only the right to become `user`. The second one runs as
 * that user and makes the command user 1000 without rights, with its environment: nothing that the sandbox
 * can influence (its files, variables such as `LD_PRELOAD`) is read while there are more rights.
 */
export async function jailCommand(
  jail: Jail,
  options: JailOptions,
  command: readonly string[],
): Promise<JailedCommand> {
  const { bubblewrap, setpriv, network } = jail
  const filter = seccompFilter()
  const isPrivate = options.network === 'private' && network !== undefined
  const id = String(options.user)
  const switchUser =
    setpriv === undefined || options.user === null
      ? []
      : [setpriv, '--reuid', id, '--regid', id, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all']
  return {
    command: [
      ...[
        bubblewrap,
        '--args',
        '3',
        '--',
        ...(isPrivate ? enterNetwork(network, setpriv !== undefined) : []),
        ...switchUser,
      ],
      ...[bubblewrap, '--args', '4', '--', ...command],
    ],
    inputs: [
      await jailArguments(options),
      identityArguments(options, jail.canForbidUsers, filter !== undefined),
      ...(filter === undefined ? [] : [filter]),
    ],
  }
}

async function jailArguments(options: JailOptions): Promise<readonly string[]> {
  const { readable = [], inaccessible = [], readOnlyBinds = [], writableBinds = [] } = options
  const mounts = new MountArguments()
  await addSystemMounts(mounts)
  for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
    mounts.add(folder, ['--size', String(options.temporaryBytes), '--perms', '1777', '--tmpfs', folder])
  }
  mounts.add('/dev', ['--remount-ro', '/dev'])
  await addReadableMounts(mounts, readable, inaccessible)
  for (const [source, target] of readOnlyBinds) mounts.add(target, ['--ro-bind-try', source, target])
  for (const [source, target] of writableBinds) mounts.add(target, ['--bind', source, target])
  const isPrivate = options.network === 'private'
  // Only 0 stays in the user namespace that owns the network: for others bubblewrap makes a second one.
  const inner = isPrivate ? '0' : '1000'
  const asUser = options.user === null ? ['--unshare-user', '--uid', inner, '--gid', inner] : []
  const rights = [
    ...(options.user === null ? [] : ['CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP']),
    ...(isPrivate ? ['CAP_NET_ADMIN'] : []),
    // To drop the others, and to make user 1000 in a namespace within that of user 0.
    ...(isPrivate && options.user === null ? ['CAP_SETPCAP', 'CAP_SETFCAP'] : []),
  ]
  return [
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--die-with-parent'],
    ...['--hostname', 'slipway', '--new-session'],
    ...(options.network === 'shared' ? [] : ['--unshare-net']),
    ...(isPrivate ? ['--info-fd', String(infoFd)] : []),
    ...asUser,
    ...mounts.arguments,
    ...['--remount-ro', '/'],
    ...['--cap-drop', 'ALL', ...rights.flatMap((right) => ['--cap-add', right])],
  ]
}

function identityArguments(
  { env, workingDir }: JailOptions,
  canForbidUsers: boolean,
  hasFilter: boolean,
): readonly string[] {
  return [
    ...(hasFilter ? ['--seccomp', '5'] : []),
    ...['--unshare-user', ...(canForbidUsers ? ['--disable-userns'] : []), '--uid', '1000', '--gid', '1000'],
    ...['--die-with-parent', '--dev-bind', '/', '/', '--cap-drop', 'ALL', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--dir', workingDir, '--chdir', workingDir],
  ]
}

/** Arguments of mounts in their order, with the folders that they need. */
class MountArguments {
  readonly #arguments: string[] = []
  readonly #created = new Set(['/'])

  get arguments(): readonly string[] {
    return this.#arguments
  }

  add(target: string, args: readonly string[]): void {
    this.#addParents(target)
    this.#arguments.push(...args)
    this.#created.add(target)
  }

  /** Hides a folder behind an empty one. */
  coverWithTmpfs(target: string): void {
    this.add(target, ['--tmpfs', target])
    for (const each of this.#created)
      if (each !== target && isWithin(target, each)) this.#created.delete(each)
  }

  /** Parents that all users may enter: those of bubblewrap are closed when it runs as root. */
  #addParents(target: string): void {
    const parent = dirname(target)
    if (this.#created.has(parent)) return
    this.#addParents(parent)
    this.#arguments.push('--perms', '0755', '--dir', parent)
    this.#created.add(parent)
  }
}

async function addSystemMounts(mounts: MountArguments): Promise<void> {
  mounts.add('/usr', ['--ro-bind', '/usr', '/usr'])
  for (const path of systemPaths.programs) {
    const link = await ignoreErrors(['ENOENT', 'EINVAL', 'ENOTDIR'], readlink(path))
    if (link !== undefined) mounts.add(path, ['--symlink', link, path])
    else if (await exists(path)) mounts.add(path, ['--ro-bind', path, path])
  }
  for (const name of systemPaths.visibleInEtc) {
    const path = join('/etc', name)
    if (await exists(path)) mounts.add(path, ['--ro-bind', path, path])
  }
  mounts.add('/proc', ['--proc', '/proc'])
  mounts.add('/dev', ['--dev', '/dev'])
}

async function addReadableMounts(
  mounts: MountArguments,
  readable: readonly string[],
  inaccessible: readonly string[],
): Promise<void> {
  const real = await Promise.all(readable.map((path) => realpath(path)))
  const sources = new Map([
    ...real.map((path) => [path, path] as const),
    ...readable.map((path, i) => [path, real[i] ?? path] as const),
  ])
  const bind = (targets: readonly string[]) => {
    for (const target of targets) mounts.add(target, ['--ro-bind', sources.get(target) ?? target, target])
  }
  const outside = [...sources.keys()].filter((path) => !isWithin('/usr', path)).toSorted()
  bind(outside)
  for (const folder of await foldersToCover(inaccessible, ['/usr', ...outside])) {
    mounts.coverWithTmpfs(folder)
    bind(outside.filter((each) => each !== folder && isWithin(folder, each)))
    mounts.add(folder, ['--remount-ro', folder])
  }
}

/** The inaccessible folders that would be seen, without those within others of them. */
async function foldersToCover(
  inaccessible: readonly string[],
  readable: readonly string[],
): Promise<readonly string[]> {
  const real = await Promise.all(inaccessible.map((path) => ignoreErrors(['ENOENT'], realpath(path))))
  const inside = real.filter((path) => path !== undefined && readable.some((each) => isWithin(each, path)))
  const folders = [...new Set(inside.filter((path) => path !== undefined))]
  return folders.filter((path) => !folders.some((each) => each !== path && isWithin(each, path)))
}

/** The mount for a working directory; no target when it is writable anyway; a text when it is invalid. */
export function workingDirMount(
  path: string,
  readable: readonly string[],
): { readonly target?: string } | string {
  if (!path.startsWith('/') || normalize(path) !== path || path.includes('\0')) {
    return `${path} is not a working directory: an absolute path without "." and ".." is needed`
  }
  const own = [insidePaths.workspace, insidePaths.homeDirectory, insidePaths.data]
  if (own.some((each) => isWithin(each, path))) return {}
  const others = [...systemPaths.notWorkingDirectories, ...readable]
  const isFree =
    !others.some((each) => isWithin(each, path)) && ![...others, ...own].some((each) => isWithin(path, each))
  return isFree ? { target: path } : `${path} cannot be the working directory: the system has that place`
}

/** A socket of the host, as seen from inside. Its folder is shown: it may be replaced. */
export function socketPathInside(hostSocket: string): string {
  return join(insidePaths.hostSockets, basename(hostSocket))
}
