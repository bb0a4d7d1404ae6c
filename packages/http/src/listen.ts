import { once } from 'node:events'
import { errorCode } from '@slipway/shared/fs'
import { isLoopback } from '@slipway/shared/url'
import type { App } from './app.ts'
import { unixSocketUrl } from './core/unix-socket.ts'

export interface Listening {
  /** `http://127.0.0.1:8000`, or `http+unix://%2Frun%2Fx.sock` (see `unixFetch`). */
  readonly url: string
  /** 0 on a Unix socket. */
  readonly port: number
  /**
   * Stops gracefully: no new connection, sockets closed with 1001, streams ended, other requests finished.
   */
  close(): Promise<void>
  /**
   * Resolves when the signal has aborted and the server has stopped, in the order of `Readiness`, and with it
   * what `stopOthers` stops at the same time.
   */
  serveUntil(signal: AbortSignal, stopOthers?: () => Promise<void>): Promise<void>
}

interface StopOptions {
  /** Stops the server when it aborts. */
  readonly signal?: AbortSignal
  /** How long a stop waits for requests under way before it cuts them; 2.5 s unless given. */
  readonly stopMs?: number
}

interface PortAddress {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
}

interface SocketAddress {
  /**
   * The path of the Unix socket (at most 107 bytes), created with mode 0600. A stale socket file is replaced.
   */
  readonly socketPath: string
}

type ListenOptions = StopOptions & (PortAddress | SocketAddress)

/**
 * Resolves when the server accepts connections. Rejects with a readable Error when the address is in use, or
 * when the host is reachable from other machines and there is no session key. A Unix socket needs none.
 */
export async function listen(app: App, options: ListenOptions): Promise<Listening> {
  const { signal, stopMs = 2_500 } = options
  if ('host' in options && !app.hasKeys && !isLoopback(options.host)) {
    throw new Error(
      `Refusing to listen on ${options.host} without a session key: set SLIPWAY_SESSION_API_KEY, or listen on 127.0.0.1`,
    )
  }
  const address = await bind(app, options)
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= app.close(stopMs)
    return closing
  }
  signal?.addEventListener('abort', () => void close(), { once: true })
  if (signal?.aborted) await close()
  const serveUntil = async (until: AbortSignal, stopOthers?: () => Promise<void>) => {
    if (!until.aborted) await once(until, 'abort')
    await app.drain(until)
    await Promise.all([close(), stopOthers?.()])
  }
  return { ...address, close, serveUntil }
}

/** How often a free port is looked for that the other loopback address has, too. */
const maxPortAttempts = 5

/**
 * Listens at 127.0.0.1 and, where it exists, at the same port of ::1: browsers try both for `localhost` and
 * the names below it, and another user of the machine who had one would be sent what opens the other. `open`
 * is called for each; port 0 is any that both have free.
 */
export async function listenOnLoopback(
  open: (address: PortAddress) => Promise<Listening>,
  port = 0,
): Promise<Listening> {
  for (let attempt = 1; ; attempt++) {
    const first = await open({ host: '127.0.0.1', port })
    try {
      const second = await open({ host: '::1', port: first.port })
      return { ...first, close: async () => void (await Promise.all([first.close(), second.close()])) }
    } catch (error) {
      const code = error instanceof Error ? errorCode(error.cause ?? error) : undefined
      if (code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT') return first
      await first.close()
      if (code !== 'EADDRINUSE' || port !== 0 || attempt === maxPortAttempts) throw error
    }
  }
}

async function bind(app: App, options: ListenOptions): Promise<Pick<Listening, 'url' | 'port'>> {
  try {
    if ('socketPath' in options) {
      await app.server.listenOnSocket(options.socketPath)
      return { url: unixSocketUrl(options.socketPath), port: 0 }
    }
    const { host } = options
    const port = await app.server.listenOnPort(host, options.port)
    return { url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, port }
  } catch (cause) {
    await app.close(0)
    const reason = reasons[errorCode(cause) ?? '']
    const where = 'socketPath' in options ? options.socketPath : `${options.host} port ${options.port}`
    throw reason === undefined ? cause : new Error(`Cannot listen on ${where}: ${reason}`, { cause })
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use; stop the other server or choose another port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this needs rights that the user has not; ports below 1024 do',
  ENOTFOUND: 'the host name is not known',
  ENAMETOOLONG: 'the path is too long for a socket',
  EINVAL: 'the path is too long for a socket',
}
