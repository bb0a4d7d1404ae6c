import { once } from 'node:events'
import { lstatSync, type Stats, unlinkSync } from 'node:fs'
import type { Server } from 'node:http'
import { connect, type NetConnectOpts, Socket } from 'node:net'
import { dirname, isAbsolute, resolve } from 'node:path'
import { errorCode } from '@slipway/shared/fs'
import { decodePercent } from '@slipway/shared/url'
import { Agent } from './node-http.ts'

/** The URL of a server on a Unix socket: `http+unix://%2Frun%2Fx.sock`. */
export function unixSocketUrl(path: string): string {
  return `http+unix://${encodeURIComponent(resolve(path))}`
}

/** The socket path in a URL of `http+unix:`. Throws a TypeError without one. */
export function unixSocketPath(url: URL): string {
  const path = decodePercent(url.hostname) ?? ''
  if (!isAbsolute(path) || path.includes('\0') || url.port !== '' || url.username !== '') {
    throw new TypeError('The host of the address is not the percent-encoded path of a Unix socket')
  }
  return path
}

/**
 * Listens on a Unix socket that only the user of this process may connect to. A stale socket file is
 * replaced. Rejects with a readable Error when a live process serves the path, or when it is another kind of
 * file.
 */
export async function listenOnUnixSocket(server: Server, path: string): Promise<void> {
  // The system would report that access is denied.
  if (statIfPresent(dirname(path)) === undefined)
    throw new Error(`Cannot listen on ${path}: there is no such folder`)
  const stats = statIfPresent(path)
  if (stats !== undefined) {
    if (!stats.isSocket()) throw new Error(`Cannot listen on ${path}: there is a file that is no socket`)
    if (await hasListener(path)) throw new Error(`Cannot listen on ${path}: another process serves it`)
    // No await from here on, so the file is still the one that was probed.
    if (statIfPresent(path)?.ino === stats.ino) unlinkSync(path)
  }
  const listening = once(server, 'listening')
  // `listen` creates the file synchronously with this umask, so others can never connect.
  const mask = process.umask(0o177)
  try {
    server.listen({ path, backlog: 2048 })
  } finally {
    process.umask(mask)
  }
  await listening
}

function statIfPresent(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

/** Whether a process accepts connections. Only a refused connection proves that none does. */
async function hasListener(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const code = errorCode(error)
    return code !== 'ECONNREFUSED' && code !== 'ENOENT'
  } finally {
    socket.destroy()
  }
}

/**
 * A socket whose failing writes do not discard what the other end has sent. A server may answer and close
 * before the request has ended. On a closed Unix socket the rest of the request, even the empty write with
 * which Node ends it, then fails before the answer is read.
 */
class AnswerKeepingSocket extends Socket {
  override _write(chunk: unknown, encoding: BufferEncoding, done: WriteDone): void {
    super._write(chunk, encoding, ignoreClosed(done))
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: WriteDone): void {
    // Not declared, but there since Node 0.12.
    super._writev?.(chunks, ignoreClosed(done))
  }
}

type WriteDone = (error?: Error | null) => void

/** The read that follows ends the connection, after the bytes that are there. */
function ignoreClosed(done: WriteDone): WriteDone {
  return (error) => done(errorCode(error) === 'EPIPE' ? null : error)
}

/** Opens a connection for each request, and keeps an answer that comes before the end of the request. */
class SingleUseAgent extends Agent {
  override createConnection(options: NetConnectOpts): Socket {
    return new AnswerKeepingSocket(options).connect(options)
  }
}

export const singleUseAgent = new SingleUseAgent()
