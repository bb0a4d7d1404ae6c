import { createHash } from 'node:crypto'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoring } from './host/files.ts'

/**
 * Where things of one sandbox are on the host. Only the folders in `files` can be seen from inside, each mounted alone, so that
 * the sandbox can put nothing in the place of any of these paths. With a limit of the disk, `files` is a file system of its own.
 */
export interface Place {
  readonly root: string
  readonly record: string
  readonly passwd: string
  readonly group: string
  readonly image: string
  readonly files: string
  readonly data: string
  readonly workspace: string
  readonly home: string
  readonly temporary: string
  /** The working directory when it is not in the workspace. */
  readonly elsewhere: string
  /** Names of the host for sockets that the sandbox made. */
  readonly reach: string
  /** Process id and start of the supervisor, written by itself. */
  pid(epoch: string): string
  /** How the program ended, written by the supervisor. */
  exit(epoch: string): string
}

export function placeOf(directory: string, id: string): Place {
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
    home: join(files, 'home'),
    temporary: join(files, 'tmp'),
    elsewhere: join(files, 'elsewhere'),
    reach: join(files, 'reach'),
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
export function hostUserOf(ledgerId: string, id: string): number {
  return 1_900_000_000 + Number.parseInt(digest(`${ledgerId}/${id}`).slice(0, 6), 16)
}

/** How long the path of a Unix socket may be; one byte less than the least of the systems. */
const maxSocketPath = 103

/** A short name for a path that is too long for a socket: a link beside the sandboxes. Undefined when that is too long too. */
export async function shortSocketPath(
  directory: string,
  place: Place,
  name: string,
): Promise<string | undefined> {
  const path = join(place.reach, name)
  if (Buffer.byteLength(path) <= maxSocketPath) return path
  const links = join(directory, '.s')
  const link = join(links, linkNameOf(place))
  const short = join(link, name)
  if (Buffer.byteLength(short) > maxSocketPath) return undefined
  await mkdir(links, { recursive: true, mode: 0o700 })
  await ignoring(['EEXIST'], symlink(place.reach, link))
  return short
}

export function linkNameOf(place: Place): string {
  return digest(place.root).slice(0, 12)
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
