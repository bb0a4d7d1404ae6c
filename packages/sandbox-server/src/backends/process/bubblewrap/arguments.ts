import { readlink, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, normalize } from 'node:path'
import { ignoreErrors } from '../host/files.ts'

/** The arguments of bubblewrap: what a sandbox sees of the host, and who it is. */

/** Where a sandbox finds things, as seen from inside. */
export const insidePaths = {
  data: '/data',
  workspace: '/workspace',
  homeDirectory: '/home/slipway',
  hostSockets: '/run/slipway',
  /** Compiled code of our own agent server. */
  code: '/run/slipway-code',
} as const

export interface JailOptions {
  /** Of the host: it is made the sandbox's own user and group when the server is root. */
  readonly user: number | null
  readonly network: 'shared' | 'none'
  /** Folders of the host that the sandbox may write, and where it sees them. */
  readonly writableBinds: readonly (readonly [source: string, target: string])[]
  /** Further files of the host and where they are seen, read-only. */
  readonly readOnlyBinds: readonly (readonly [source: string, target: string])[]
  /** Files and folders that are seen where they are, read-only. */
  readonly readable: readonly string[]
  /** Folders of which nothing is seen, also when they lie in something readable. */
  readonly inaccessible: readonly string[]
  /** Of each of the volatile folders. */
  readonly temporaryBytes: number
}

const systemFiles = [
  'alternatives',
  'bash.bashrc',
  'ca-certificates',
  'ca-certificates.conf',
  'crypto-policies',
  'debian_version',
  'fonts',
  'gai.conf',
  'host.conf',
  'hosts',
  'inputrc',
  'java',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'locale.conf',
  'localtime',
  'magic',
  'mailcap',
  'mime.types',
  'nsswitch.conf',
  'os-release',
  'pki/ca-trust',
  'pki/tls/cert.pem',
  'pki/tls/certs',
  'profile',
  'protocols',
  'python3',
  'resolv.conf',
  'services',
  'ssl/cert.pem',
  'ssl/certs',
  'ssl/openssl.cnf',
  'terminfo',
  'timezone',
]

/**
 * The file system and the namespaces. With a user of its own it begins as root, so that it reaches everything that is to be
 * shown, and keeps only the right to become that user; `identityArguments` ends that.
 */
export async function jailArguments(options: JailOptions): Promise<readonly string[]> {
  const mounts = new MountArguments()
  await addSystemMounts(mounts)
  for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
    mounts.add(folder, ['--size', String(options.temporaryBytes), '--perms', '1777', '--tmpfs', folder])
  }
  mounts.add('/dev', ['--remount-ro', '/dev'])
  await addReadableMounts(mounts, options.readable, options.inaccessible)
  for (const [source, target] of options.readOnlyBinds) mounts.add(target, ['--ro-bind-try', source, target])
  for (const [source, target] of options.writableBinds) mounts.add(target, ['--bind', source, target])
  const asUser = options.user === null ? ['--unshare-user', '--uid', '1000', '--gid', '1000'] : []
  const rights = options.user === null ? [] : ['CAP_SETUID', 'CAP_SETGID', 'CAP_SETPCAP']
  return [
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--die-with-parent'],
    ...['--hostname', 'slipway', '--new-session'],
    ...(options.network === 'none' ? ['--unshare-net'] : []),
    ...asUser,
    ...mounts.arguments,
    ...['--remount-ro', '/'],
    ...['--cap-drop', 'ALL', ...rights.flatMap((right) => ['--cap-add', right])],
  ]
}

/**
 * Who it is inside: user 1000 without any right, in a user namespace that has no further ones, with this environment. These
 * are the arguments of a second bubblewrap that runs inside the first as the sandbox's user: nothing that the sandbox or its
 * order can influence (its files, variables such as `LD_PRELOAD`) is touched while there are more rights.
 */
export function identityArguments(
  env: Readonly<Record<string, string>>,
  workingDir: string,
  canForbidUsers: boolean,
): readonly string[] {
  return [
    ...['--unshare-user', ...(canForbidUsers ? ['--disable-userns'] : []), '--uid', '1000', '--gid', '1000'],
    ...['--die-with-parent', '--dev-bind', '/', '/', '--cap-drop', 'ALL', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--dir', workingDir, '--chdir', workingDir],
  ]
}

/** Arguments of mounts in the order in which they are made, with the folders that they need. */
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

  /** An empty folder in the place of what was seen there. */
  coverWithTmpfs(target: string): void {
    this.add(target, ['--tmpfs', target])
    for (const each of this.#created)
      if (each !== target && isWithin(each, target)) this.#created.delete(each)
  }

  /** Folders on the way are made for everybody: bubblewrap's own are closed when it runs as root. */
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
  for (const path of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store']) {
    const link = await ignoreErrors(['ENOENT', 'EINVAL', 'ENOTDIR'], readlink(path))
    if (link !== undefined) mounts.add(path, ['--symlink', link, path])
    else if (await exists(path)) mounts.add(path, ['--ro-bind', path, path])
  }
  for (const name of systemFiles) {
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
  const outside = [...sources.keys()].filter((path) => !isWithin(path, '/usr')).toSorted()
  bind(outside)
  for (const folder of await foldersToCover(inaccessible, ['/usr', ...outside])) {
    mounts.coverWithTmpfs(folder)
    bind(outside.filter((each) => each !== folder && isWithin(each, folder)))
    mounts.add(folder, ['--remount-ro', folder])
  }
}

/** The hidden folders that would be seen, without those that lie in others of them. */
async function foldersToCover(
  inaccessible: readonly string[],
  readable: readonly string[],
): Promise<readonly string[]> {
  const real = await Promise.all(inaccessible.map((path) => ignoreErrors(['ENOENT'], realpath(path))))
  const inside = real.filter((path) => path !== undefined && readable.some((each) => isWithin(path, each)))
  const folders = [...new Set(inside.filter((path) => path !== undefined))]
  return folders.filter((path) => !folders.some((each) => each !== path && isWithin(path, each)))
}

/** The places of the system, which a working directory may neither be nor cover. */
const systemFolders = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc',
  '/proc',
  '/dev',
  '/sys',
  '/tmp',
  '/var',
  '/run',
  '/nix',
]

/**
 * What is mounted for a working directory: `undefined` when it lies in what can be written anyway, itself when it needs a
 * mount; a text when it cannot be had.
 */
export function workingDirMount(
  path: string,
  readable: readonly string[],
): { readonly target?: string } | string {
  if (!path.startsWith('/') || normalize(path) !== path || path.includes('\0')) {
    return `${path} is not a working directory: an absolute path without "." and ".." is needed`
  }
  const own = [insidePaths.workspace, insidePaths.homeDirectory, insidePaths.data]
  if (own.some((each) => isWithin(path, each))) return {}
  const others = [...systemFolders, ...readable]
  const isFree =
    !others.some((each) => isWithin(path, each)) && ![...others, ...own].some((each) => isWithin(each, path))
  return isFree ? { target: path } : `${path} cannot be the working directory: the system has that place`
}

export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
}

async function exists(path: string): Promise<boolean> {
  return (await ignoreErrors(['ENOENT', 'ENOTDIR', 'EACCES'], stat(path))) !== undefined
}

/** How a socket of the host is seen from inside: its folder is shown, so that a new socket of the same name is seen too. */
export function socketPathInside(hostSocket: string): string {
  return join(insidePaths.hostSockets, basename(hostSocket))
}
