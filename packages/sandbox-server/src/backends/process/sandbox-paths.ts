import { createHash } from 'node:crypto'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreErrors } from './host/files.ts'

/**
 * Where things of one sandbox are on the host. Only the folders in `files` can be seen from inside, each mounted alone, so that
 * the sandbox can put nothing in the place of any of these paths. With a limit of the disk, `files` is a file system of its own.
 */
export interface SandboxPaths {
  readonly root: string
  readonly record: string
  readonly passwd: string
  readonly group: string
  readonly image: string
  readonly files: string
  readonly data: string
  readonly workspace: string
  readonly homeDirectory: string
  readonly temporary: string
  /** The working directory when it is not in the workspace. */
  readonly externalWorkingDir: string
  /** Names of the host for sockets that the sandbox made. */
  readonly sockets: string
  /** Process id and start of the supervisor, written by itself. */
  pid(epoch: string): string
  /** How the program ended, written by the supervisor. */
  exit(epoch: string): string
}

export function sandboxPaths(directory: string, id: string): SandboxPaths {
  const root = join(directory, id)
  const files = join(root, 'files')
  return {
    root,
    record: join(root, 'process.json'),
    passwd: join(root, 'passwd'),
    group: join(root, 'group'),
    image: join(root, 'disk.img'),
    files,
    data: join(files, 'data'),
    workspace: join(files, 'workspace'),
    homeDirectory: join(files, 'home'),
    temporary: join(files, 'tmp'),
    externalWorkingDir: join(files, 'elsewhere'),
    sockets: join(files, 'reach'),
    pid: (epoch) => join(root, `pid.${epoch}`),
    exit: (epoch) => join(root, `exit.${epoch}`),
  }
}

/** What an id may be; others are not even looked for, so that none can name a path. */
export const idPattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * The user of the host that a sandbox runs as when the server is root: each has its own, in a range that neither people nor
 * system services nor containers are given users from.
 */
export function hostUserId(ledgerId: string, id: string): number {
  return 1_900_000_000 + Number.parseInt(sha256Hex(`${ledgerId}/${id}`).slice(0, 6), 16)
}

/** How long the path of a Unix socket may be; one byte less than the least of the systems. */
const maxSocketPath = 103

/** A short name for a path that is too long for a socket: a link beside the sandboxes. Undefined when that is too long too. */
export async function shortSocketPath(
  directory: string,
  paths: SandboxPaths,
  name: string,
): Promise<string | undefined> {
  const path = join(paths.sockets, name)
  if (Buffer.byteLength(path) <= maxSocketPath) return path
  const links = join(directory, '.s')
  const link = join(links, socketLinkName(paths))
  const short = join(link, name)
  if (Buffer.byteLength(short) > maxSocketPath) return undefined
  await mkdir(links, { recursive: true, mode: 0o700 })
  await ignoreErrors(['EEXIST'], symlink(paths.sockets, link))
  return short
}

export function socketLinkName(paths: SandboxPaths): string {
  return sha256Hex(paths.root).slice(0, 12)
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
