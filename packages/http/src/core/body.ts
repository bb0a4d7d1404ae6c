import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import {
  countJsonMembers,
  duplicateMemberIssue,
  findDuplicateMember,
  hasDuplicateMember,
  invalidInput,
  maxDepth,
  Problem,
} from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'

/** The client disconnected before its request was complete, so there is no one to answer. */
export class ClientDisconnectedError extends Error {
  override readonly name = 'ClientDisconnectedError'
}

/** The client sent its request too slowly; answered with 408. */
export class BodyTimeoutError extends Error {
  override readonly name = 'BodyTimeoutError'
}

/** Whether the client declared a body that has not arrived completely. */
export function hasUnreadBody(raw: IncomingMessage): boolean {
  const length = raw.headers['content-length']
  return (
    !raw.complete &&
    ((length !== undefined && length !== '0') || raw.headers['transfer-encoding'] !== undefined)
  )
}

interface BodyLimits {
  readonly limitBytes: number
  readonly timeoutMs: number
  readonly clock: Clock
  /** Ends the wait like the timeout. */
  readonly signal?: AbortSignal
}

/** Longest JSON body of a route that needs no key. */
export const openBodyBytes = 4_096
const maxOpenBodies = 256
const openBodyTimeoutMs = 10_000

/**
 * Reads the bodies of routes that need no key. At most 256 wait at once: the oldest is given up for the
 * next, because a client that means it sends a short body at once.
 */
export class OpenBodies {
  readonly #waiting = new Set<AbortController>()

  async read(raw: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
    const controller = new AbortController()
    this.#waiting.add(controller)
    const [oldest] = this.#waiting
    if (this.#waiting.size > maxOpenBodies) oldest?.abort()
    const timeoutMs = Math.min(limits.timeoutMs, openBodyTimeoutMs)
    try {
      return await readBody(raw, { ...limits, timeoutMs, signal: controller.signal })
    } finally {
      this.#waiting.delete(controller)
    }
  }
}

/** The whole body. Longer than the limit is a Problem `too_large`. */
export async function readBody(
  raw: IncomingMessage,
  { limitBytes, timeoutMs, clock, signal }: BodyLimits,
): Promise<Buffer> {
  const tooLarge = () => new Problem('too_large', `The body is longer than ${limitBytes} bytes`)
  if (Number(raw.headers['content-length'] ?? 0) > limitBytes) throw tooLarge()
  const chunks: Buffer[] = []
  let sizeBytes = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (chunk: Buffer) => {
    sizeBytes += chunk.length
    if (sizeBytes > limitBytes) reject(tooLarge())
    else chunks.push(chunk)
  }
  const onDisconnect = () => reject(new ClientDisconnectedError('The client went away'))
  /** 'close' follows at once: it would cost every request an error that no one sees. */
  const onEnd = () => {
    raw.off('close', onDisconnect)
    resolve()
  }
  const onTimeout = () => reject(new BodyTimeoutError('The body did not arrive in time'))
  const timer = clock.schedule(timeoutMs, onTimeout)
  signal?.addEventListener('abort', onTimeout)
  raw.on('data', onData).on('end', onEnd).on('close', onDisconnect).on('error', onDisconnect)
  try {
    await promise
  } finally {
    timer.cancel()
    raw.off('data', onData).off('end', onEnd).off('close', onDisconnect)
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
}

/**
 * The value of a JSON body, undefined for an empty one. Throws the Problems `invalid` and
 * `unsupported_media_type`.
 */
export function parseJson(bytes: Buffer, raw: IncomingMessage): unknown {
  if (bytes.length === 0) return undefined
  const type = mediaType(raw)
  const isPlain = (raw.headers['content-encoding'] ?? 'identity') === 'identity'
  if (!isPlain || (type !== 'application/json' && !/^[\w.]+\/[\w.-]+\+json$/.test(type))) {
    throw new Problem('unsupported_media_type', 'The body should be application/json')
  }
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8')
  const members = countJsonMembers(bytes)
  if (members === undefined) throw invalidJson(`The body nests deeper than ${maxDepth} levels`)
  const text = bytes.toString()
  const value = parseText(text)
  if (hasDuplicateMember(members, value)) {
    const { msg, type } = duplicateMemberIssue
    throw invalidInput(['body', ...(findDuplicateMember(text) ?? [])], msg, type)
  }
  return value
}

function parseText(text: string): unknown {
  try {
    return protoPattern.test(text) ? JSON.parse(text, rejectProto) : JSON.parse(text)
  } catch (error) {
    throw error instanceof SyntaxError ? invalidJson('The body is not valid JSON') : error
  }
}

/** Cheap and slightly too wide: the name, or an escape that may encode a letter of it. */
const protoPattern = /__proto__|\\u00[5-7]/

/** A member `__proto__` would replace the prototype of any object that it is copied into. */
function rejectProto(name: string, value: unknown): unknown {
  if (name === '__proto__') throw invalidJson('The member name __proto__ is not allowed')
  return value
}

function invalidJson(msg: string): Problem {
  return invalidInput(['body'], msg, 'json_invalid')
}

/**
 * The body as it arrives, `content-encoding: gzip` decompressed. Fails with `ClientDisconnectedError`; a
 * client that sends nothing for `idleMs` is cut off. Leaving the loop early keeps the connection, so that the
 * answer reaches the client.
 */
export function readStream(
  raw: IncomingMessage,
  stream: string,
  limits: StreamLimits,
): AsyncIterable<Buffer> {
  const type = mediaType(raw)
  const encoding = raw.headers['content-encoding'] ?? 'identity'
  if (!matchesMediaType(type, stream))
    throw new Problem('unsupported_media_type', `The body should be ${stream}`)
  if (encoding === 'gzip') return decompress(readChunks(raw, limits))
  if (encoding === 'identity') return readChunks(raw, limits)
  throw new Problem('unsupported_media_type', 'The content encoding should be gzip or identity')
}

const lineTypes = [
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonlines',
]

/** JSON lines have several media types. */
function matchesMediaType(type: string, expected: string): boolean {
  return type === expected || (lineTypes.includes(expected) && lineTypes.includes(type))
}

export interface StreamLimits {
  /** How long the client may send nothing. */
  readonly idleMs: number
  readonly clock: Clock
}

/** The bytes of a request; see `readStream`. */
export async function* readChunks(
  raw: IncomingMessage,
  { idleMs, clock }: StreamLimits,
): AsyncGenerator<Buffer> {
  let isWaiting = true
  const start = () => clock.schedule(idleMs, expire)
  const expire = () => {
    // While the consumer works, the client cannot send.
    if (isWaiting) raw.destroy()
    else timer = start()
  }
  let timer = start()
  try {
    for await (const chunk of raw.iterator({ destroyOnReturn: false })) {
      isWaiting = false
      yield chunk
      isWaiting = true
      timer.cancel()
      timer = start()
    }
  } catch (cause) {
    throw new ClientDisconnectedError('The client went away', { cause })
  } finally {
    timer.cancel()
  }
}

async function* decompress(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip()
  pipeline(source, gunzip, () => {})
  try {
    yield* gunzip
  } catch (error) {
    if (!isZlibError(error)) throw error
    throw invalidInput(['body'], 'The body is not valid gzip', 'gzip_invalid')
  } finally {
    gunzip.destroy()
  }
}

function isZlibError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')
}

/** Without parameters, in lower case. */
export function mediaType(raw: IncomingMessage): string {
  return (raw.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}
