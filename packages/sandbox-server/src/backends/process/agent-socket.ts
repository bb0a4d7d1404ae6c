import { once } from 'node:events'
import { type FSWatcher, watch } from 'node:fs'
import { link, lstat, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { loadLibc, type PeerCredentials, shortSocketPath } from '@slipway/shared/process'
import { ignoreErrors } from './host/files.ts'
import { findProcess } from './host/processes.ts'
import { type SandboxPaths, socketLinkFolders, socketName } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'

/** The socket of an agent server in its data folder. */
export const agentSocketName = 'agent.sock'

/**
 * Finds the Unix sockets of agent servers. A key is sent to a socket only after its listener proved to be a
 * process of the sandbox.
 */
export class AgentSockets {
  readonly #directory: string
  /** The epoch whose socket has been checked, by id. */
  readonly #checked = new Map<string, string>()

  /** `directory`: of the sandboxes. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** The path of the socket of a running sandbox; undefined while none of its processes listens. */
  async find(paths: SandboxPaths, record: SandboxRecord, supervisor: number): Promise<string | undefined> {
    const { id, epoch, isJailed } = record
    const name = socketName(epoch)
    const path = join(paths.sockets, name)
    if (isJailed && !(await isSocket(path)) && (await linkSocket(paths, path))) this.#checked.delete(id)
    const short = await shortSocketPath(paths.sockets, name, socketLinkFolders(this.#directory))
    if (short === undefined) return undefined
    if (!(await isSocket(path))) {
      if (isJailed) await rm(path, { force: true })
      return undefined
    }
    // A refused one stays: it may be bound and not listen yet.
    if (this.#checked.get(id) !== epoch && !(await isListener(short, record, supervisor))) return undefined
    this.#checked.set(id, epoch)
    return short
  }

  forget(id: string): void {
    this.#checked.delete(id)
  }
}

/** Calls back once when the socket of a start is made. Never where files cannot be watched. */
export function watchAgentSocket(paths: SandboxPaths, epoch: string, onChange: () => void): Disposable {
  const watchers: FSWatcher[] = []
  const close = () => {
    for (const watcher of watchers) watcher.close()
  }
  for (const [folder, name] of [
    [paths.data, agentSocketName],
    [paths.sockets, socketName(epoch)],
  ] as const) {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, changed) => {
        if (changed !== name) return
        close()
        onChange()
      })
      watcher.on('error', close)
      watchers.push(watcher)
    } catch {
      // The sandbox is being removed, or the system has no watch left.
    }
  }
  return { [Symbol.dispose]: close }
}

/** A hidden second name of the socket: the sandbox could replace its own by a link to one of the host. */
async function linkSocket(paths: SandboxPaths, path: string): Promise<boolean> {
  const codes = ['ENOENT', 'EEXIST', 'EPERM', 'EXDEV', 'ENOTDIR', 'ENOSPC', 'EACCES']
  const linked = link(join(paths.data, agentSocketName), path).then(() => true)
  return (await ignoreErrors(codes, linked)) ?? false
}

async function isSocket(path: string): Promise<boolean> {
  return (await ignoreErrors(['ENOENT', 'ENOTDIR'], lstat(path)))?.isSocket() ?? false
}

/** Whether the user and, behind walls, a process of the sandbox listens there. */
async function isListener(path: string, record: SandboxRecord, supervisor: number): Promise<boolean> {
  const peer = await readPeer(path)
  if (typeof peer !== 'object') return peer === 'unknown'
  if (peer.uid !== (record.user ?? process.getuid?.())) return false
  return !record.isJailed || (await isDescendant(peer.pid, supervisor))
}

/** Who listens on a Unix socket; `unknown` where the system does not tell. */
async function readPeer(path: string): Promise<PeerCredentials | 'unknown' | 'none'> {
  const libc = await loadLibc()
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    const { fd } = (socket as Socket & { readonly _handle: { readonly fd: number } })._handle
    return libc === undefined ? 'unknown' : (libc.peerCredentials(fd) ?? 'none')
  } catch {
    return 'none'
  } finally {
    socket.destroy()
  }
}

async function isDescendant(pid: number, ancestor: number): Promise<boolean> {
  for (let each = pid; each > 1; ) {
    if (each === ancestor) return true
    each = (await findProcess(each))?.parent ?? 0
  }
  return false
}
