/**
 * Answers that are compressed for clients that ask for it.
 *
 * Problem: a page of events is a quarter of a megabyte of JSON, which a slow network carries for seconds, and
 * to compress it takes longer than to make it. The length of a compressed answer tells how much a secret in
 * it has in common with what a stranger put beside it.
 *
 * Idea: bytes that are served again are compressed once, and the smaller form is kept as long as they are: a
 * page of events, the OpenAPI document. The thread pool compresses, at level 1.
 *
 * Invariants:
 * - Only of a route that declares it (`Route.compressed`), and never a stream.
 * - A program of this machine gets plain bytes (`isRemote`), unless a proxy forwards its request.
 * - Each encoding has its own ETag; the handlers see and compare that of the plain bytes alone.
 *
 * If you change this: secrets that can be guessed by lengths, and caches that mix encodings.
 */

import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { isLoopback } from '@slipway/shared/url'
import type { WritableReply } from './reply.ts'

/** For clients on other machines, or for all. */
export type Compression = 'remote' | 'all'

/** Less is sent in a few packets as it is. */
const minBytes = 8 * 1024
const tagEnd = '-gzip"'
const compress = promisify(gzip)
const smaller = new WeakMap<Buffer, Promise<Buffer>>()

/** Whether a header `Accept-Encoding` takes that encoding. */
export function acceptsEncoding(header: string | undefined, encoding: string): boolean {
  return (header ?? '').split(',').some((item) => {
    const [name = '', ...parameters] = item.split(';').map((text) => text.trim().toLowerCase())
    return name === encoding && !parameters.some((text) => /^q=0(\.0*)?$/.test(text))
  })
}

/** How the answer to one request is encoded. Made before the handler sees the request. */
export class ReplyEncoding {
  readonly #isWanted: boolean
  readonly #knowsSmaller: boolean

  constructor(raw: IncomingMessage, compression: Compression) {
    const { headers, method } = raw
    const known = headers['if-none-match']
    this.#knowsSmaller = known?.includes(tagEnd) === true
    if (known !== undefined) headers['if-none-match'] = known.replaceAll(tagEnd, '"')
    this.#isWanted =
      method !== 'HEAD' &&
      (compression === 'all' || isRemote(raw)) &&
      acceptsEncoding(headers['accept-encoding'], 'gzip')
  }

  /** A promise only where bytes are compressed. */
  apply(reply: WritableReply): WritableReply | Promise<WritableReply> {
    if ('chunks' in reply) return reply
    const { status = 200, headers } = reply
    if (status === 304 && this.#knowsSmaller) return { ...reply, headers: withSmallerTag(headers) }
    if (status !== 200 || !this.#isWanted) return reply
    const bytes = 'bytes' in reply ? reply.bytes : Buffer.from(JSON.stringify(reply.json))
    if (bytes.length < minBytes) return reply
    const contentType = 'bytes' in reply ? reply.contentType : undefined
    return compressed(bytes).then((small) => ({
      ...(contentType !== undefined && { contentType }),
      bytes: small,
      headers: { ...withSmallerTag(headers), 'content-encoding': 'gzip' },
    }))
  }
}

function compressed(bytes: Buffer): Promise<Buffer> {
  const known = smaller.get(bytes)
  if (known !== undefined) return known
  const made = compress(bytes, { level: 1 })
  smaller.set(bytes, made)
  return made
}

function withSmallerTag(headers: WritableReply['headers'] = {}): Readonly<Record<string, string>> {
  const { etag } = headers
  return etag === undefined ? headers : { ...headers, etag: etag.replace(/"$/, tagEnd) }
}

/** A Unix socket is of this machine too. */
function isRemote({ headers, socket }: IncomingMessage): boolean {
  if ((headers['x-forwarded-for'] ?? headers.forwarded ?? headers.via) !== undefined) return true
  const { remoteAddress } = socket
  return remoteAddress !== undefined && !isLoopback(remoteAddress.replace(/^::ffff:/, ''))
}
