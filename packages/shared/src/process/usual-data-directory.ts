import { hash, randomBytes } from 'node:crypto'
import { lstat, mkdir, readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorCode } from '../fs/error-code.ts'
import { makeDirectory } from '../fs/make-directory.ts'
import { readPrivateFile } from '../fs/read-private-file.ts'
import { writeFileAtomic } from '../fs/write-file-atomic.ts'
import { isRecord, parseJson } from '../json/index.ts'
import { assertUntracked } from './assert-untracked.ts'
import { userServersDirectory } from './user-directory.ts'

/*
 * Which data directory a command means that names none.
 *
 * A data directory is more than data: its keys open the server, its settings and consents are in force, and
 * its unfinished runs continue. One that lies in the working directory may come from the author of that
 * directory: a clone, an unpacked archive, a shared folder. So each working directory has a folder in the
 * user's own data folder, beside that of the private server, whose backups and restores are of a whole
 * folder:
 *
 *     ~/.local/share/slipway-servers/NAME-DIGEST             of the agent server
 *     ~/.local/share/slipway-servers/NAME-DIGEST.sandboxes   of the sandbox server
 *     ~/.local/share/slipway-servers/NAME-DIGEST.json        the record of a local one
 *
 * Earlier versions used `.slipway` and `.slipway-sandboxes` in the working directory. One of these is used
 * while a record beside the folder names its path and the random text in its file `data.id`, which nobody
 * who brings files can know. A record is made when the user asks for it, and once without: `slipway-servers`
 * does not exist before the first command of this version, and that command accepts a directory that is
 * evidently older. Nothing later is accepted so, because a newer version would again be installed after what
 * has come since.
 *
 * Decision page: docs/decisions/0039-nothing-unasked.md
 */

export type DataKind = 'agent' | 'sandbox'

type Env = Readonly<Record<string, string | undefined>>

export interface DataDirectory {
  /** Absolute. It need not exist. */
  readonly path: string
  /** Where it belongs, when it lies in the working directory. */
  readonly target?: string
}

interface Options {
  readonly env: Env
  /** The working directory; default: that of this process. */
  readonly directory?: string
  /** What tells a directory of an earlier version from one that has just been unpacked. */
  readonly age?: Age
}

interface Age {
  /** When this version was installed. */
  readonly installedMs: number
  /**
   * Least time between the making of the key and the last write of the log. Unpacked files have about the
   * same.
   */
  readonly usedMs: number
}

const localNames = { agent: '.slipway', sandbox: '.slipway-sandboxes' } as const
const adoptions = { agent: 'slipway data --adopt', sandbox: 'slipway data --sandboxes --adopt' } as const
const idName = 'data.id'
const usedMs = 3_600_000

/**
 * The data directory of a server that is started in a directory without a named one. Rejects with a plain
 * Error when one lies in the working directory and is not known to be this user's.
 */
export async function usualDataDirectory(kind: DataKind, options: Options): Promise<DataDirectory> {
  const place = await findPlace(kind, options)
  const isFirst = await openRecords(place)
  if (!(await hasFiles(place.local))) return { path: place.own }
  const found = { path: place.local, target: place.own }
  if (await isRecorded(place)) return found
  await assertUntracked(place.local)
  if (isFirst && (await isOlder(place.local, options.age ?? (await ageOfVersion())))) {
    await writeRecord(place)
    return found
  }
  throw new Error(
    `${place.local} is not known to be your own: a server would work with the keys, settings and unfinished runs ` +
      `of whoever made it. If you made it on this machine, run "${adoptions[kind]}" there. Otherwise move it away, ` +
      'or name another directory with --data.',
  )
}

/**
 * Records the data directory in a working directory as this user's. Rejects when there is none, or git tracks
 * it.
 */
export async function adoptDataDirectory(kind: DataKind, options: Options): Promise<DataDirectory> {
  const place = await findPlace(kind, options)
  if (!(await hasFiles(place.local)))
    throw new Error(`${place.local} has no files: there is nothing to adopt.`)
  await assertUntracked(place.local)
  await makeDirectory(dirname(place.own), 0o700)
  await writeRecord(place)
  return { path: place.local, target: place.own }
}

interface Place {
  /** The directory in the working directory. */
  readonly local: string
  /** The one in the user's data folder. */
  readonly own: string
  /** The file that says that the local one is the user's. */
  readonly record: string
}

async function findPlace(kind: DataKind, { env, directory = process.cwd() }: Options): Promise<Place> {
  const real = await realpath(directory)
  // Short, because paths of sockets are below it.
  const name =
    basename(real)
      .replace(/[^\w-]+/g, '_')
      .slice(0, 20) || 'root'
  const suffix = kind === 'agent' ? '' : '.sandboxes'
  const folder = `${name}-${hash('sha256', real).slice(0, 12)}${suffix}`
  const own = join(userServersDirectory(env), folder)
  return { local: join(real, localNames[kind]), own, record: `${own}.json` }
}

/** True for one process, once for each user. Where nothing can be written, nothing is ever recorded. */
async function openRecords({ own }: Place): Promise<boolean> {
  const records = dirname(own)
  try {
    await makeDirectory(dirname(records), 0o700)
    await mkdir(records, { mode: 0o700 })
    return true
  } catch {
    return false
  }
}

/** A directory that cannot be read counts: only the absence of files is harmless. */
async function hasFiles(path: string): Promise<boolean> {
  try {
    return (await readdir(path)).some((name) => name !== '.gitignore')
  } catch (error) {
    return errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENOTDIR'
  }
}

async function isRecorded({ local, record }: Place): Promise<boolean> {
  const value = parseJson((await readPrivateFile(record)) ?? '')
  if (!isRecord(value) || value.path !== local || typeof value.id !== 'string') return false
  return (await readPrivateFile(join(local, idName))) === value.id
}

async function writeRecord({ local, record }: Place): Promise<void> {
  const id = randomBytes(16).toString('hex')
  await writeFileAtomic(join(local, idName), id)
  await writeFileAtomic(record, `${JSON.stringify({ path: local, id })}\n`)
}

/** Change times cannot be set, so that an archive does not bring them. */
async function isOlder(path: string, { installedMs, usedMs }: Age): Promise<boolean> {
  const [directory, key, log] = await Promise.all(
    ['.', 'secret.key', 'log.db'].map((name) => lstat(join(path, name)).catch(() => undefined)),
  )
  if (directory === undefined || key === undefined || log === undefined) return false
  const uid = process.getuid?.()
  const isOwn = uid !== undefined && [directory, key, log].every((stats) => stats.uid === uid)
  const isPrivate = directory.isDirectory() && (directory.mode & 0o777) === 0o700
  return isOwn && isPrivate && key.ctimeMs < installedMs && log.ctimeMs - key.ctimeMs >= usedMs
}

async function ageOfVersion(): Promise<Age> {
  return { installedMs: (await lstat(import.meta.filename)).ctimeMs, usedMs }
}
