import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem, type ProblemCode } from '@slipway/protocol'
import { isUnread, TooSlow } from './body.ts'
import type { Reply } from './handler.ts'

const statusOf: Readonly<Record<ProblemCode, number>> = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  busy: 409,
  too_large: 413,
  unsupported_media_type: 415,
  invalid: 422,
  too_many: 429,
  unavailable: 503,
  storage_full: 507,
}

/** The answer to what the caller did wrong; undefined when it is our mistake. */
export function refusal(error: unknown): Reply | undefined {
  if (error instanceof TooSlow) return { status: 408, json: { detail: 'Request Timeout' } }
  if (!(error instanceof Problem)) return undefined
  return { status: statusOf[error.code], json: { detail: error.faults ?? error.message } }
}

export interface Exchange {
  readonly raw: IncomingMessage
  readonly res: ServerResponse
  /** Headers that every answer to this request carries. */
  readonly common: Readonly<Record<string, string>>
  /** How long what is left of a request is read and thrown away after its answer. */
  readonly lingerMs: number
}

/** Sends a reply; a stream is over when this resolves. Rejects when the stream fails; the caller cuts the connection. */
export async function write(exchange: Exchange, reply: Reply): Promise<void> {
  const { raw, res } = exchange
  if (res.destroyed) return
  const bytes =
    'bytes' in reply ? reply.bytes : 'json' in reply ? Buffer.from(JSON.stringify(reply.json)) : undefined
  const status = reply.status ?? 200
  const headers: Record<string, string | number> = { 'cache-control': 'no-store', ...exchange.common }
  if (status !== 204 && status !== 304) {
    headers['content-type'] = ('contentType' in reply && reply.contentType) || 'application/json'
    if (bytes !== undefined) headers['content-length'] = bytes.length
  }
  if (isUnread(raw)) headers.connection = 'close'
  const head = () => res.writeHead(status, { ...headers, ...reply.headers })
  if ('chunks' in reply && raw.method !== 'HEAD') await pump(res, head, reply.chunks)
  if (res.destroyed) return
  if (!res.headersSent) head()
  end(exchange, raw.method === 'HEAD' ? undefined : bytes)
}

async function pump(
  res: ServerResponse,
  head: () => void,
  chunks: AsyncIterable<Buffer | string>,
): Promise<void> {
  for await (const chunk of chunks) {
    if (res.destroyed) return
    if (!res.headersSent) head()
    if (!res.write(chunk)) await room(res)
    if (res.destroyed) return
  }
}

function room(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (res.destroyed) return resolve()
    const done = () => {
      res.off('drain', done).off('close', done)
      resolve()
    }
    res.on('drain', done).on('close', done)
  })
}

/**
 * Ends an answer. When the client is still sending, it is read to for a while before the connection is closed: with
 * bytes unread the kernel would reset the connection, and the client would lose the answer.
 */
function end({ raw, res, lingerMs }: Exchange, bytes?: Buffer): void {
  if (!isUnread(raw)) {
    res.end(bytes)
    return
  }
  res.flushHeaders()
  if (bytes !== undefined) res.write(bytes)
  const timer = setTimeout(() => raw.destroy(), lingerMs)
  raw.on('data', () => {}).on('error', () => {})
  raw.once('end', () => res.end()).once('close', () => clearTimeout(timer))
  // A reader that has just let go still holds the stream for the rest of this tick.
  setImmediate(() => raw.resume())
}
