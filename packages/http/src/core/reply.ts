/**
 * Writes the answer of a request.
 *
 * Problem: an answer may be due while the client still sends; a connection that is closed with unread bytes
 * is reset, and the client loses the answer. A client may stop reading a stream, which then waits for ever
 * and holds what it has not read. A stream may fail before its first byte.
 *
 * Idea: a short answer is written in the same turn of the event loop; a stream waits for each piece. What the
 * client still sends is read and dropped for a limited time after the answer.
 *
 * Invariants:
 * - An answer to a request whose body was not read closes the connection (`writeHead`), and not before the
 *   rest of the body has come or `lingerMs` is over (`endResponse`).
 * - The head of a stream is written with its first chunk (`writeChunks`), so a stream that fails before it is
 *   answered by an error with its status.
 * - A client is cut off when something waits for it and it has read nothing for `stallMs`
 *   (`writableNeedDrain`). A stream that has nothing to say is not. Each cut is logged and counted
 *   (`onStall`).
 * - A chunk is written in pieces (`pieceBytes`), so what waits for a client is bounded, and its reading is
 *   seen.
 * - A wait for the client ends with its connection too (`waitForDrain`): otherwise the producer of the stream
 *   would never be closed.
 * - Codes of problems and statuses are one table. Of other errors nothing is told (`toErrorReply`).
 * - Headers of a reply come after the common ones, and these after `no-store`: the later one wins.
 *
 * If you change this: clients that see a reset connection in place of 401 or 413, and memory that grows with
 * slow readers. For sockets: `sockets/open-socket.ts`; relayed answers: `proxy/reverse-proxy.ts`.
 *
 * Decision page: docs/decisions/0018-http-core.md
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem, type ProblemCode } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import { BodyTimeoutError, hasUnreadBody } from './body.ts'
import type { Reply } from './handler.ts'

export const statusByCode: Readonly<Record<ProblemCode, number>> = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  busy: 409,
  gone: 410,
  too_large: 413,
  misdirected: 421,
  unsupported_media_type: 415,
  invalid: 422,
  too_many: 429,
  not_implemented: 501,
  bad_gateway: 502,
  run_failed: 500,
  unavailable: 503,
  timeout: 504,
  storage_full: 507,
}

/** The reply to an error of the caller; undefined for an internal error. */
export function toErrorReply(error: unknown): ErrorReply | undefined {
  if (error instanceof BodyTimeoutError) return { status: 408, json: { detail: 'Request Timeout' } }
  if (!(error instanceof Problem)) return undefined
  const { code, issues, members, message, exception } = error
  if (exception !== undefined)
    return { status: statusByCode[code], json: { detail: 'Internal Server Error', exception } }
  const detail = issues ?? (members === undefined ? message : { ...members, message })
  return { status: statusByCode[code], json: { detail } }
}

/** A slot or a place in a queue is free again soon, unless the problem says when. */
const tooManySeconds = 1

/** Each refusal for too much says when to ask again. */
export function retryAfterHeader({ code, retryAfterSeconds }: Problem): Readonly<Record<string, string>> {
  const seconds = retryAfterSeconds ?? (code === 'too_many' ? tooManySeconds : undefined)
  return seconds === undefined ? {} : { 'retry-after': String(seconds) }
}

/** An error body and its status. */
export interface ErrorReply {
  readonly status: number
  readonly json: {
    readonly detail: unknown
    readonly error_id?: string
    readonly exception?: string
    readonly error?: unknown
  }
}

const openaiTypes: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
}

/** Adds the member `error` that clients of OpenAI's API read. */
export function toOpenaiError({ status, json }: ErrorReply, problem: Problem | undefined): ErrorReply {
  const { detail } = json
  const [issue] = problem?.issues ?? []
  const param = problem?.param ?? (issue && toParam(issue.loc))
  const message =
    issue === undefined
      ? typeof detail === 'string'
        ? detail
        : JSON.stringify(detail)
      : `${param === '' ? '' : `${param}: `}${issue.msg}`
  const type = openaiTypes[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  const error = { message, type, param: param || null, code: problem?.code ?? null }
  return { status, json: { ...json, error } }
}

/** `["body", "tools", 0, "type"]` -> `tools[0].type`. */
function toParam(loc: readonly (string | number)[]): string {
  return loc
    .slice(1)
    .map((name, at) => (typeof name === 'number' ? `[${name}]` : at === 0 ? name : `.${name}`))
    .join('')
}

export const emptyBody = Buffer.alloc(0)

type Headers = Record<string, string | number>

export interface Exchange {
  readonly raw: IncomingMessage
  readonly res: ServerResponse
  /** Headers that every answer to this request carries. */
  readonly commonHeaders: Readonly<Record<string, string>>
  /** How long the rest of a request is read and discarded after its answer. */
  readonly lingerMs: number
  readonly clock: Clock
  /** How long a client may read nothing of a stream before it is cut off. */
  readonly stallMs: number
  /** Called when it is cut off. */
  readonly onStall: () => void
  /** `traceparent` and `tracestate` for the next server. */
  readonly traceHeaders: Readonly<Record<string, string>>
}

/** An answer that can be written. */
export type WritableReply = Exclude<Reply, { readonly refusal: unknown }>

/**
 * Sends a reply: synchronously, or a stream with a promise of its end, which rejects when the stream fails.
 */
export function writeReply(exchange: Exchange, reply: WritableReply): void | Promise<void> {
  const { raw, res } = exchange
  if (res.destroyed) return
  if ('chunks' in reply) return writeChunks(exchange, reply)
  const bytes = 'bytes' in reply ? reply.bytes : Buffer.from(JSON.stringify(reply.json))
  const type = ('bytes' in reply && reply.contentType) || 'application/json'
  const hasBody = reply.status !== 204 && reply.status !== 304
  writeHead(exchange, reply, hasBody ? { 'content-type': type, 'content-length': bytes.length } : {})
  endResponse(exchange, hasBody && raw.method !== 'HEAD' ? bytes : undefined)
}

async function writeChunks(
  exchange: Exchange,
  reply: Extract<WritableReply, { chunks: unknown }>,
): Promise<void> {
  const { raw, res } = exchange
  const type = { 'content-type': reply.contentType }
  cutOffStalledReader(exchange)
  for await (const chunk of raw.method === 'HEAD' ? [] : reply.chunks) {
    if (!res.headersSent && !res.destroyed) writeHead(exchange, reply, type)
    if (res.destroyed) return
    for (const piece of splitChunk(chunk)) {
      if (!res.write(piece)) await waitForDrain(res)
      if (res.destroyed) return
    }
  }
  if (res.destroyed) return
  if (!res.headersSent) writeHead(exchange, reply, type)
  endResponse(exchange)
}

/** Closes the connection when its client has read nothing for `stallMs` although something waits for it. */
export function cutOffStalledReader({ res, stallMs, onStall }: Exchange): void {
  res.setTimeout(stallMs, () => {
    if (!res.writableNeedDrain || res.destroyed) return
    onStall()
    res.destroy()
  })
}

const pieceBytes = 128 * 1024

function* splitChunk(chunk: Buffer | string): Generator<Buffer | string> {
  if (typeof chunk === 'string' || chunk.length <= pieceBytes) yield chunk
  else for (let at = 0; at < chunk.length; at += pieceBytes) yield chunk.subarray(at, at + pieceBytes)
}

function writeHead({ raw, res, commonHeaders }: Exchange, reply: WritableReply, baseHeaders: Headers): void {
  const headers: Headers = Object.assign(
    baseHeaders,
    { 'cache-control': 'no-store' },
    commonHeaders,
    reply.headers,
  )
  if (hasUnreadBody(raw)) headers.connection = 'close'
  res.writeHead(reply.status ?? 200, headers)
}

function waitForDrain(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    if (res.destroyed) return resolve()
    const done = () => {
      res.off('drain', done).off('close', done)
      resolve()
    }
    res.on('drain', done).on('close', done)
  })
}

/** Ends an answer. While the client is still sending, its bytes are read and discarded first. */
export function endResponse({ raw, res, lingerMs, clock }: Exchange, bytes?: Buffer): void {
  if (!hasUnreadBody(raw)) {
    res.end(bytes)
    return
  }
  res.flushHeaders()
  if (bytes !== undefined) res.write(bytes)
  const timer = clock.schedule(lingerMs, () => raw.destroy())
  raw.on('data', () => {}).on('error', () => {})
  raw.once('end', () => res.end()).once('close', () => timer.cancel())
  // A reader that has just finished still holds the stream for the rest of this tick.
  setImmediate(() => raw.resume())
}
