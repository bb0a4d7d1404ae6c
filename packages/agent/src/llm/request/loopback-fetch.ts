import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { isLoopback } from '@slipway/shared/url'

const statusesWithoutBody = [204, 205, 304]

/**
 * `fetch` that waits for servers of this machine as long as the caller does. The built-in one gives up when
 * no header comes for five minutes, in which a model on a slow machine still reads its prompt.
 */
export const loopbackFetch: typeof fetch = async (input, init = {}) => {
  const url = input instanceof Request ? null : URL.parse(String(input))
  const { body, signal } = init
  const isPlain = body === undefined || body === null || typeof body === 'string'
  if (url?.protocol !== 'http:' || !isLoopback(url.hostname) || !isPlain) return await fetch(input, init)
  signal?.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const headers = { accept: '*/*', ...Object.fromEntries(new Headers(init.headers)) }
  const options = { method: init.method ?? 'GET', headers, agent: false, signal: signal ?? undefined }
  request(url, options, resolve)
    // As the built-in one says it: the library tells a failed connection by these words.
    .on('error', (cause) =>
      reject(signal?.aborted ? signal.reason : new TypeError('fetch failed', { cause })),
    )
    .end(body)
  const answer = await promise
  const { statusCode: status = 0 } = answer
  const answerHeaders = new Headers()
  for (const [name, values = []] of Object.entries(answer.headersDistinct))
    for (const value of values) answerHeaders.append(name, value)
  const stream = statusesWithoutBody.includes(status) ? null : Readable.toWeb(answer)
  // The types of Node's streams and of the web differ in names alone.
  return new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>> | null, {
    status,
    statusText: answer.statusMessage ?? '',
    headers: answerHeaders,
  })
}
