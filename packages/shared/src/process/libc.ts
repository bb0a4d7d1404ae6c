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
  /** Who listens on the other side of a connected Unix socket (SO_PEERCRED); undefined when the call fails. */
  peerCredentials(fd: number): PeerCredentials | undefined
}

export interface PeerCredentials {
  readonly pid: number
  readonly uid: number
  readonly gid: number
}

const F_SETFD = 2
const FD_CLOEXEC = 1
const PR_SET_DUMPABLE = 4
const LOCK_EX_NB = 2 | 4
const EWOULDBLOCK = 11
const SOL_SOCKET = 1
const SO_PEERCRED = 17

let libc: Promise<Libc | undefined> | undefined

/** The C library of this machine. Undefined where there is none to call: not Linux, or no binary for the processor. */
export function loadLibc(): Promise<Libc | undefined> {
  libc ??= process.platform === 'linux' ? open().catch(() => undefined) : Promise.resolve(undefined)
  return libc
}

/**
 * Keeps other processes of the same user from reading the memory and the first environment of this one, where the
 * system can. Root still reads the memory, but no more the secrets of the first environment that were taken.
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
  const prctl = library.func('int prctl(int option, ...)')
  const getsockopt = library.func(
    'int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
  )
  return {
    closeOnExec: (fd) => fcntl(fd, F_SETFD, 'int', FD_CLOEXEC) === 0,
    disableDumps: () => prctl(PR_SET_DUMPABLE, 'unsigned long', 0) === 0,
    // A file system without such locks is no holder.
    lockExclusively: (fd) => flock(fd, LOCK_EX_NB) === 0 || koffi.errno() !== EWOULDBLOCK,
    eraseMemory: (address, length) => void memset(address, 0, length),
    peerCredentials: (fd) => {
      const value = Buffer.alloc(12)
      if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, value, [value.length]) !== 0) return undefined
      return { pid: value.readInt32LE(0), uid: value.readUInt32LE(4), gid: value.readUInt32LE(8) }
    },
  }
}
