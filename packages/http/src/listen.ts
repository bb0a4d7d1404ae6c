import type { App } from './app.ts'
import { isLoopback } from './auth.ts'

export interface Listening {
  readonly url: string
  readonly port: number
  /** Stops gracefully: no new connection, sockets closed with 1001, streams ended, other requests finished. */
  close(): Promise<void>
}

export interface ListenOptions {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  /** Stops the server when it aborts. */
  readonly signal?: AbortSignal
  /** How long a stop waits for requests under way before it cuts them; 5 s unless given. */
  readonly stopMs?: number
}

/**
 * Resolves when the server answers. Rejects with an Error for people when the port is taken, or when the host is
 * reached from other machines and no session key is set.
 */
export async function listen(app: App, options: ListenOptions): Promise<Listening> {
  const { host, signal, stopMs = 5_000 } = options
  if (!app.hasKeys && !isLoopback(host)) {
    throw new Error(
      `Refusing to listen on ${host} without a session key: set SLIPWAY_SESSION_API_KEY, or listen on 127.0.0.1`,
    )
  }
  const port = await open(app, host, options.port)
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= app.close(stopMs)
    return closed
  }
  signal?.addEventListener('abort', () => void close(), { once: true })
  if (signal?.aborted) await close()
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, port, close }
}

async function open(app: App, host: string, port: number): Promise<number> {
  try {
    return await app.open(host, port)
  } catch (cause) {
    await app.close(0)
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    const reason = reasons[String(code)]
    throw reason === undefined
      ? cause
      : new Error(`Cannot listen on ${host} port ${port}: ${reason}`, { cause })
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use; stop the other server or choose another port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'ports below 1024 need special rights; choose another port',
  ENOTFOUND: 'the host name is not known',
}
