import { once } from 'node:events'
import { lstatSync, type Stats, unlinkSync } from 'node:fs'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { dirname, isAbsolute, resolve } from 'node:path'

/** The address of what listens on a Unix socket: `http+unix://%2Frun%2Fx.sock`. */
export function unixSocketUrl(path: string): string {
  return `http+unix://${encodeURIComponent(resolve(path))}`
}

/** The path of the socket that an address of `http+unix:` names. Throws a TypeError when it names none. */
export function unixSocketPath(url: URL): string {
  const path = decodeHost(url.hostname)
  if (!isAbsolute(path) || path.includes('\0') || url.port !== '' || url.username !== '') {
    throw new TypeError('The host of the address is not the percent-encoded path of a Unix socket')
  }
  return path
}

/** Nothing when it cannot be decoded. */
function decodeHost(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/**
 * Listens on a Unix socket that only the user of this process may connect to. A socket that a process left behind is replaced.
 * Rejects with an Error for people when a living process serves it, or when something else is there.
 */
export async function listenOnUnixSocket(server: Server, path: string): Promise<void> {
  // The system would say that access is denied.
  if (statIfPresent(dirname(path)) === undefined)
    throw new Error(`Cannot listen on ${path}: there is no such folder`)
  const stats = statIfPresent(path)
  if (stats !== undefined) {
    if (!stats.isSocket()) throw new Error(`Cannot listen on ${path}: there is a file that is no socket`)
    if (await hasListener(path)) throw new Error(`Cannot listen on ${path}: another process serves it`)
    // Nothing is waited for from here on, so it is still the one that was tried.
    if (statIfPresent(path)?.ino === stats.ino) unlinkSync(path)
  }
  const listening = once(server, 'listening')
  // The file is made at once, with the rights of this moment: there is no time at which others could connect.
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

/** Whether somebody takes connections. Only the plain refusal says that nobody does. */
async function hasListener(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    return code !== 'ECONNREFUSED' && code !== 'ENOENT'
  } finally {
    socket.destroy()
  }
}
