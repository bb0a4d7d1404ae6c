import {
  close,
  constants,
  createWriteStream,
  type Mode,
  open as openDescriptor,
  type PathLike,
  type WriteStream,
  write,
} from 'node:fs'
import * as systemFiles from 'node:fs/promises'
import { constants as osConstants } from 'node:os'
import { basename, dirname } from 'node:path'
import { getSystemErrorMessage, getSystemErrorName } from 'node:util'
import { Semaphore } from '../async/semaphore.ts'
import { errorCode } from '../fs/error-code.ts'
import { makeDirectory as makeDirectoryWith } from '../fs/make-directory.ts'
import { isWithin } from '../fs/resolve-within.ts'
import { loadLibc } from '../process/libc.ts'
import type { FileThread } from './file-thread.ts'
import { fileOperations } from './protocol.ts'
import type { ToolUser } from './tool-user.ts'

type Files = typeof systemFiles

let current:
  | { readonly user: ToolUser; readonly thread: FileThread; readonly own: readonly string[] }
  | undefined

/**
 * From now on, the functions of this module access files with the rights of this user, and programs that this
 * process starts gain no privileges. Once in a process, which must be root on Linux; rejects with a message
 * otherwise. `own`: folders of this process, which hold no files of tools.
 */
export async function useToolUser(user: ToolUser, own: readonly string[] = []): Promise<void> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Error('only a server that runs as root on Linux can run tools as another user')
  const libc = await loadLibc()
  if (libc?.forbidNewPrivileges() !== true) throw new Error('the C library cannot be called here')
  const { FileThread } = await import('./file-thread.ts')
  // Terminals would inherit the groups of root.
  process.setgroups?.([])
  current = { user, thread: await FileThread.start(user), own }
}

/** Undefined: tools have the rights of this process. */
export function toolUser(): ToolUser | undefined {
  return current?.user
}

/** How to read a file by its path: one of this process's own folders with its own rights. */
export function filesFor(path: string): Pick<Files, 'realpath'> & { readonly open: typeof open } {
  return current?.own.some((folder) => isWithin(folder, path)) ? systemFiles : { open, realpath }
}

type Call = (...args: unknown[]) => Promise<unknown>

/** As in `node:fs/promises`, with the rights of the tool user, if there is one. */
const operations = Object.fromEntries(
  fileOperations.map((name): [string, Call] => [
    name,
    async (...args) =>
      current === undefined
        ? await (systemFiles as unknown as Record<string, Call>)[name]?.(...args)
        : await current.thread.call(name, args),
  ]),
) as unknown as Pick<Files, (typeof fileOperations)[number]>
export const { link, lstat, mkdir, mkdtemp, readdir, readlink, realpath, rename } = operations
export const { rm, rmdir, stat, symlink, unlink, utimes } = operations

/** Flags of `open` that hold for an open file too. */
const lastingFlags = constants.O_WRONLY | constants.O_RDWR | constants.O_APPEND | constants.O_NONBLOCK
const namedFlags: Readonly<Record<string, number>> = {
  r: constants.O_RDONLY,
  w: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC,
  wx: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
}

/**
 * As in `node:fs/promises`; flags are numbers, or `r`, `w`, `wx`. Never waits for the other end of a pipe: a
 * few of them, put in the place of files, would hold all threads that access files.
 */
export async function open(
  path: PathLike,
  flags: string | number = 'r',
  mode?: Mode,
): Promise<systemFiles.FileHandle> {
  const allFlags = toNumber(flags) | constants.O_NONBLOCK
  if (current === undefined) return await systemFiles.open(path, allFlags, mode)
  const fd = await openAsUser(path, allFlags, mode)
  try {
    // The same file, which that user could open: opened again by its descriptor, whatever its path leads to
    // now.
    return await systemFiles.open(`/proc/self/fd/${fd}`, allFlags & lastingFlags)
  } finally {
    close(fd)
  }
}

let canHold: Promise<boolean> | undefined

/**
 * Whether directories can be held here: not elsewhere than on Linux, nor without the system call or /proc.
 * Rejects where that cannot be told now, as when too many files are open.
 */
async function canHoldDirectories(): Promise<boolean> {
  const fd = await openDirectory('/')
  if (fd === -osConstants.errno.ENOSYS || fd === -osConstants.errno.EPERM) return false
  if (fd < 0) throw systemError(-fd, '/')
  try {
    await systemFiles.access(`/proc/self/fd/${fd}/.`)
    return true
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    return false
  } finally {
    close(fd)
  }
}

/** As many as the pool has threads; each call holds memory of its own. */
const poolCalls = new Semaphore(4)

async function openDirectory(path: string): Promise<number> {
  if (current !== undefined) return Number(await current.thread.call('openDirectory', [path]))
  const libc = await loadLibc()
  if (libc === undefined) return -osConstants.errno.ENOSYS
  return await poolCalls.run(() => libc.openDirectoryInPool(path))
}

/**
 * Calls `use` with a path of the same entry for as long as that runs, whatever is exchanged meanwhile: its
 * directory is held open, and was reached without a link. `real`: an absolute path without links, which was
 * checked. Rejects with ELOOP when a part of it has become a link. The entry itself may be one: open it with
 * O_NOFOLLOW. Where the system cannot do that, `use` gets the path, if it is real still.
 */
export async function inRealDirectory<T>(real: string, use: (path: string) => Promise<T>): Promise<T> {
  canHold ??= canHoldDirectories().catch((error: unknown) => {
    canHold = undefined
    throw error
  })
  const directory = dirname(real)
  if (!(await canHold)) {
    if ((await realpath(directory)) !== directory) throw systemError(osConstants.errno.ELOOP, directory)
    return await use(real)
  }
  const fd = await openDirectory(directory)
  if (fd < 0) throw systemError(-fd, directory)
  try {
    return await use(`/proc/self/fd/${fd}/${basename(real)}`)
  } finally {
    close(fd)
  }
}

function systemError(number: number, path: string): Error {
  const code = getSystemErrorName(-number)
  const message = `${code}: ${getSystemErrorMessage(-number)}, open '${path}'`
  return Object.assign(new Error(message), { code, errno: -number, syscall: 'open', path })
}

/** Opens a file by a path without links: one that a part of it has become since is not followed. */
export async function openReal(real: string, flags: number, mode?: Mode): Promise<systemFiles.FileHandle> {
  return await inRealDirectory(real, (path) => open(path, flags | constants.O_NOFOLLOW, mode))
}

/** As `makeDirectory`, by a path without links. */
export async function makeRealDirectory(real: string, mode?: number): Promise<string | undefined> {
  return await makeDirectoryWith(real, mode, {
    mkdir: ((path: string, options: object) =>
      inRealDirectory(path, (held) => mkdir(held, options))) as typeof mkdir,
    stat: ((path: string) => inRealDirectory(path, (held) => lstat(held))) as typeof stat,
  })
}

async function openAsUser(path: PathLike, flags: string | number, mode?: Mode): Promise<number> {
  return Number(await current?.thread.call('open', [path, toNumber(flags), mode]))
}

function toNumber(flags: string | number): number {
  return typeof flags === 'number' ? flags : (namedFlags[flags] ?? constants.O_RDONLY)
}

/** Whether a file can be opened for reading. */
export async function isReadable(path: string): Promise<boolean> {
  const { R_OK, O_RDONLY, O_NONBLOCK } = constants
  // `access` asks for the rights of the process, not for those of the thread.
  const attempt =
    current === undefined
      ? systemFiles.access(path, R_OK)
      : open(path, O_RDONLY | O_NONBLOCK).then((file) => file.close())
  return await attempt.then(
    () => true,
    () => false,
  )
}

/** All bytes of a file. */
export async function readFile(path: string): Promise<Buffer> {
  await using file = await open(path)
  return await file.readFile()
}

/** Creates or replaces a file, not atomically; links are followed. */
export async function writeFile(
  path: string,
  content: string | Uint8Array,
  options: { readonly mode?: number } = {},
): Promise<void> {
  await using file = await open(path, 'w', options.mode)
  await file.writeFile(content)
}

/**
 * Creates a file in a directory, which it makes if needed, with modes 0600 and 0700; fails when it exists.
 */
export function createPrivateStream(path: string): WriteStream {
  const openFile = async (): Promise<number> => {
    await makeDirectory(dirname(path), 0o700)
    if (current !== undefined) return await openAsUser(path, 'wx', 0o600)
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    openDescriptor(path, 'wx', 0o600, (error, fd) => (error ? reject(error) : resolve(fd)))
    return await promise
  }
  const fs = {
    open: (_path: string, _flags: string, _mode: number, done: (error: unknown, fd?: number) => void) => {
      openFile().then((fd) => done(null, fd), done)
    },
    write,
    close,
  }
  return createWriteStream(path, { fs: fs as unknown as null })
}

/** As `makeDirectory` of `@slipway/shared/fs`. */
export async function makeDirectory(path: string, mode?: number): Promise<string | undefined> {
  return await makeDirectoryWith(path, mode, { mkdir, stat })
}
