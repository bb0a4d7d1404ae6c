import { constants } from 'node:fs'
import { eraseTakenSecrets } from './environment.ts'

/** Linux system calls that Node does not offer. */
export interface Libc {
  /** Sets FD_CLOEXEC: programs started later do not inherit the descriptor. False when the call fails. */
  closeOnExec(fd: number): boolean
  /**
   * Clears the dumpable flag of this process (prctl PR_SET_DUMPABLE): other processes of the same user can no
   * longer read its memory and environment or attach a debugger. Not inherited by programs it starts.
   */
  disableDumps(): boolean
  /**
   * Takes the exclusive lock of an open file or directory (flock) without waiting. False when another holds
   * it.
   */
  lockExclusively(fd: number): boolean
  /** Overwrites memory of this process with zeros. The caller answers for the range. */
  eraseMemory(address: number, length: number): void
  /** Gives pages of freed native memory back to the system (malloc_trim). False when there were none. */
  trimMemory(): boolean
  /**
   * Gives native memory back while it is freed, in all threads (mallopt): the C library keeps up to twice the
   * size of the largest buffer that was ever freed, at most 64 MB in each of its heaps.
   */
  returnFreedMemory(): boolean
  /**
   * Programs that this process starts from now on gain no privileges (prctl PR_SET_NO_NEW_PRIVS); call it on
   * the main thread.
   */
  forbidNewPrivileges(): boolean
  /**
   * Lets the calling thread alone access files with the rights of this user and group, without supplementary
   * groups and capabilities (setfsuid). False when that is not possible; the thread must not touch files
   * then.
   */
  becomeFileUser(uid: number, gid: number): boolean
  /**
   * Opens a directory (openat2 with O_PATH) whose path has no link in any part, so that no one who exchanges
   * one leads it elsewhere. The descriptor, or a negative errno: ELOOP for a link, ENOSYS where the system
   * call is missing.
   */
  openDirectory(path: string): number
  /** The same on a thread of the pool: a network file system may not answer. At most 256 calls at a time. */
  openDirectoryInPool(path: string): Promise<number>
  /**
   * Who listens on the other side of a connected Unix socket (SO_PEERCRED); undefined when the call fails.
   */
  peerCredentials(fd: number): PeerCredentials | undefined
}

export interface PeerCredentials {
  readonly pid: number
  readonly uid: number
  readonly gid: number
}

const O_PATH = 0o10000000
const O_CLOEXEC = 0o2000000
const F_SETFD = 2
const FD_CLOEXEC = 1
const PR_SET_DUMPABLE = 4
const PR_SET_NO_NEW_PRIVS = 38
/** An invalid id: setfsuid and setfsgid change nothing and answer the present one. */
const NO_ID = 0xffff_ffff
/** The system call of one thread; that of the C library changes all of them. */
const SYS_setgroups: Readonly<Record<string, number>> = { x64: 116, arm64: 159 }
/** The same on all processors. */
const SYS_openat2 = 437
const AT_FDCWD = -100
const directoryFlags = constants.O_DIRECTORY | O_PATH | O_CLOEXEC
const RESOLVE_NO_MAGICLINKS = 2
const RESOLVE_NO_SYMLINKS = 4
/** `struct open_how`: flags, mode, resolve. */
const directoryHow = Buffer.from(
  new BigUint64Array([BigInt(directoryFlags), 0n, BigInt(RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS)])
    .buffer,
)
const M_TRIM_THRESHOLD = -1
const M_MMAP_THRESHOLD = -3
/** Above the size of a page of events: mapping one costs more than a copy. */
const mappedBytes = 1024 * 1024
const keptFreeBytes = 128 * 1024
const LOCK_EX_NB = 2 | 4
const EWOULDBLOCK = 11
const SOL_SOCKET = 1
const SO_PEERCRED = 17

let libc: Promise<Libc | undefined> | undefined

/**
 * The C library of this machine. Undefined where there is none to call: not Linux, or no binary for the
 * processor.
 */
export function loadLibc(): Promise<Libc | undefined> {
  libc ??= process.platform === 'linux' ? open().catch(() => undefined) : Promise.resolve(undefined)
  return libc
}

/**
 * Keeps other processes of the same user from reading the memory and the first environment of this one, where
 * the system can. Root still reads the memory, but no more the secrets of the first environment that were
 * taken.
 */
export async function hideFromDebuggers(): Promise<void> {
  const libc = await loadLibc()
  if (libc !== undefined) eraseTakenSecrets(libc.eraseMemory)
  libc?.disableDumps()
}

async function open(): Promise<Libc> {
  const { default: koffi } = await import('koffi')
  const library = koffi.load('libc.so.6')
  const fcntl = library.func('int fcntl(int fd, int command, ...)')
  const flock = library.func('int flock(int fd, int operation)')
  const memset = library.func('void memset(uintptr_t address, int value, size_t length)')
  const mallocTrim = library.func('int malloc_trim(size_t pad)')
  const mallopt = library.func('int mallopt(int option, int value)')
  const prctl = library.func('int prctl(int option, ...)')
  const syscall = library.func('long syscall(long number, ...)')
  // Its own declaration: calls with a variable number of arguments run on this thread alone.
  const openat2 = library.func('syscall', 'long', ['long', 'int', 'str', 'void *', 'size_t'])
  const openat2Arguments = (path: string) => [SYS_openat2, AT_FDCWD, path, directoryHow, directoryHow.length]
  const setfsuid = library.func('uint32_t setfsuid(uint32_t uid)')
  const setfsgid = library.func('uint32_t setfsgid(uint32_t gid)')
  const getsockopt = library.func(
    'int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
  )
  return {
    closeOnExec: (fd) => fcntl(fd, F_SETFD, 'int', FD_CLOEXEC) === 0,
    disableDumps: () => prctl(PR_SET_DUMPABLE, 'unsigned long', 0) === 0,
    // A file system without such locks is no holder.
    lockExclusively: (fd) => flock(fd, LOCK_EX_NB) === 0 || koffi.errno() !== EWOULDBLOCK,
    eraseMemory: (address, length) => void memset(address, 0, length),
    trimMemory: () => mallocTrim(0) === 1,
    returnFreedMemory: () =>
      mallopt(M_MMAP_THRESHOLD, mappedBytes) === 1 && mallopt(M_TRIM_THRESHOLD, keptFreeBytes) === 1,
    forbidNewPrivileges: () =>
      prctl(PR_SET_NO_NEW_PRIVS, ...[1, 0, 0, 0].flatMap((value) => ['unsigned long', value])) === 0,
    becomeFileUser: (uid, gid) => {
      const setgroups = SYS_setgroups[process.arch]
      if (setgroups === undefined || syscall(setgroups, 'long', 0, 'void *', null) !== 0) return false
      setfsgid(gid)
      setfsuid(uid)
      return setfsgid(NO_ID) === gid && setfsuid(NO_ID) === uid
    },
    openDirectory: (path) => {
      const fd = Number(openat2(...openat2Arguments(path)))
      return fd < 0 ? -koffi.errno() : fd
    },
    openDirectoryInPool: (path) =>
      new Promise((resolve, reject) => {
        openat2.async(...openat2Arguments(path), (error: Error | null, fd: number | bigint) => {
          if (error !== null) reject(error)
          // Here, and not later, the number is that of this call.
          else resolve(Number(fd) < 0 ? -koffi.errno() : Number(fd))
        })
      }),
    peerCredentials: (fd) => {
      const value = Buffer.alloc(12)
      if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, value, [value.length]) !== 0) return undefined
      return { pid: value.readInt32LE(0), uid: value.readUInt32LE(4), gid: value.readUInt32LE(8) }
    },
  }
}
