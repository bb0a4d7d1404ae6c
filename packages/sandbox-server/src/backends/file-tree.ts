import { formatBytes } from '@slipway/shared/text'
import { FilesError } from './backend.ts'

/**
 * How a file tree of a sandbox becomes a tar and a file tree again, on every backend: names are bytes,
 * modes, links and times are exact, and holes stay holes. Sockets are left out, since nothing listens on a
 * copy. Needs GNU tar and find.
 */
const packOptions = '--create --format=posix --sparse --numeric-owner --one-file-system --anchored'.split(' ')
/**
 * Directories get their modes at the end: one without rights may hold the file that a later hard link names.
 */
const unpackOptions =
  '--extract --preserve-permissions --numeric-owner --delay-directory-restore --warning=no-timestamp'.split(
    ' ',
  )

/** Writes the tree of its working directory to its output. */
export function packArguments(...exclude: readonly string[]): string[] {
  return [...packOptions, ...exclude.map((name) => `--exclude=./${name}`), '--file=-', '.']
}

/** Reads it from its input into its working directory; all files belong to whom they did, or to its user. */
export function unpackArguments(owner: 'same' | 'user'): string[] {
  return [...unpackOptions, owner === 'same' ? '--same-owner' : '--no-same-owner', '--file=-']
}

/** Of `find` in a new sandbox: removes what its start has made. Folders stay, its processes work in them. */
export function emptyArguments(...keep: readonly string[]): string[] {
  const kept = keep.flatMap((name) => ['!', '-path', `./${name}/*`])
  return ['.', '-mindepth', '1', '-xdev', ...kept, '!', '-type', 'd', '-delete']
}

/** Names are bytes to tar in this locale alone. */
export const bytesLocale = { LC_ALL: 'C' } as const

export function checkSize(bytes: number, maxBytes: number): void {
  if (maxBytes === 0 || bytes <= maxBytes) return
  throw new FilesError(
    `Its files take ${formatBytes(bytes)}, and forks may copy ${formatBytes(maxBytes)} (SLIPWAY_FORK_MAX_MB).`,
  )
}
