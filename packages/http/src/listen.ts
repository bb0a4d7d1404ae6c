import type { App } from './app.ts'
import { isLoopback } from './auth/guard.ts'
import { unixSocketUrl } from './core/unix-socket.ts'

export interface Listening {
  /** `http://127.0.0.1:8000`, or `http+unix://%2Frun%2Fx.sock` (see `reach`). */
  readonly url: string
  /** 0 on a Unix socket. */
  readonly port: number
  /** Stops gracefully: no new connection, sockets closed with 1001, streams ended, other requests finished. */
  close(): Promise<void>
}

interface StopOptions {
  /** Stops the server when it aborts. */
  readonly signal?: AbortSignal
  /** How long a stop waits for requests under way before it cuts them; 5 s unless given. */
  readonly stopMs?: number
}

interface PortAddress {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
}

interface SocketAddress {
  /** Where the Unix socket is made (at most 107 bytes); its file has mode 0600. One that a dead process left is replaced. */
  readonly socketPath: string
}

export type ListenOptions = StopOptions & (PortAddress | SocketAddress)

/**
 * Resolves when the server answers. Rejects with an Error for people when the address is taken, or when the host is
 * reached from other machines and no session key is set. On a Unix socket none is needed.
 */
export async function listen(app: App, options: ListenOptions): Promise<Listening> {
  const { signal, stopMs = 5_000 } = options
  const { url, port } =
    'socketPath' in options ? await bindSocket(app, options) : await bindPort(app, options)
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= app.close(stopMs)
    return closing
  }
  signal?.addEventListener('abort', () => void close(), { once: true })
  if (signal?.aborted) await close()
  return { url, port, close }
}

type BoundAddress = Pick<Listening, 'url' | 'port'>

async function bindSocket(app: App, { socketPath }: SocketAddress): Promise<BoundAddress> {
  await withBindError(app, app.listenOnSocket(socketPath), `Cannot listen on ${socketPath}`)
  return { url: unixSocketUrl(socketPath), port: 0 }
}

async function bindPort(app: App, options: PortAddress): Promise<BoundAddress> {
  const { host } = options
  if (!app.hasKeys && !isLoopback(host)) {
    throw new Error(
      `Refusing to listen on ${host} without a session key: set SLIPWAY_SESSION_API_KEY, or listen on 127.0.0.1`,
    )
  }
  const port = await withBindError(
    app,
    app.listenOnPort(host, options.port),
    `Cannot listen on ${host} port ${options.port}`,
  )
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, port }
}

async function withBindError<T>(app: App, binding: Promise<T>, what: string): Promise<T> {
  try {
    return await binding
  } catch (cause) {
    await app.close(0)
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    const reason = reasons[String(code)]
    throw reason === undefined ? cause : new Error(`${what}: ${reason}`, { cause })
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
