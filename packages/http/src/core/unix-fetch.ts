import type { ClientRequest, IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { request as open } from './node-http.ts'
import { singleUseAgent, unixSocketPath } from './unix-socket.ts'

/**
 * `fetch` that also supports Unix sockets: `http+unix://<percent-encoded path>/path?query`. On these it
 * follows no redirects (with `redirect: 'error'` it rejects) and leaves a content encoding as it is.
 */
export const unixFetch: typeof globalThis.fetch = async (input, init) => {
  const address = input instanceof Request ? input.url : String(input)
  if (!/^http\+unix:/i.test(address)) return await globalThis.fetch(input, init)
  const request = new Request(input, init)
  const url = new URL(request.url)
  const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
  signal?.throwIfAborted()
  const outgoing = open({
    socketPath: unixSocketPath(url),
    path: (url.pathname || '/') + url.search,
    method: request.method,
    headers: requestHeaders(request, init?.body),
    agent: singleUseAgent,
  })
  const abort = () => void outgoing.destroy()
  signal?.addEventListener('abort', abort)
  outgoing.once('close', () => signal?.removeEventListener('abort', abort))
  try {
    const incoming = await sendRequest(outgoing, request)
    return toResponse(request, incoming, signal)
  } catch (cause) {
    outgoing.destroy()
    throw signal?.aborted ? signal.reason : new TypeError('fetch failed', { cause })
  }
}

function requestHeaders(request: Request, body: BodyInit | null | undefined): Record<string, string> {
  const headers: Record<string, string> = {
    host: 'localhost',
    accept: '*/*',
    ...Object.fromEntries(request.headers),
  }
  const sizeBytes =
    typeof body === 'string'
      ? Buffer.byteLength(body)
      : ArrayBuffer.isView(body)
        ? body.byteLength
        : undefined
  if (sizeBytes !== undefined) headers['content-length'] = String(sizeBytes)
  else if (request.body !== null) headers['transfer-encoding'] = 'chunked'
  else if (!/^(?:GET|HEAD)$/.test(request.method)) headers['content-length'] = '0'
  return headers
}

/** Sends the request and resolves with the head of the answer, which may arrive before everything is sent. */
function sendRequest(outgoing: ClientRequest, { body }: Request): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.on('response', resolve).on('error', reject)
    outgoing.once('close', () => reject(new Error('The connection was closed without an answer')))
    if (body === null) outgoing.end()
    else pipeline(body, outgoing).catch(reject)
  })
}

const statusesWithoutBody: readonly number[] = [101, 204, 205, 304]

function toResponse(
  request: Request,
  incoming: IncomingMessage,
  signal: AbortSignal | null | undefined,
): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', rawHeaders } = incoming
  const headers = new Headers()
  for (let at = 0; at < rawHeaders.length; at += 2)
    headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '')
  if (request.redirect === 'error' && status >= 300 && status < 400 && headers.has('location')) {
    throw new Error('The answer is a redirect')
  }
  const hasBody = request.method !== 'HEAD' && !statusesWithoutBody.includes(status)
  const result = new Response(hasBody ? bodyStream(incoming, signal) : null, { status, statusText, headers })
  if (!hasBody) incoming.resume()
  return Object.defineProperty(result, 'url', { value: request.url })
}

/**
 * The body with backpressure. Fails with the signal's reason, or with a TypeError when the connection is cut.
 */
function bodyStream(
  incoming: IncomingMessage,
  signal: AbortSignal | null | undefined,
): ReadableStream<Uint8Array> {
  const chunks: AsyncIterator<Buffer> = incoming[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await chunks.next().catch((cause: unknown) => {
        throw signal?.aborted ? signal.reason : new TypeError('terminated', { cause })
      })
      if (done) controller.close()
      else controller.enqueue(new Uint8Array(value))
    },
    cancel: () => void incoming.destroy(),
  })
}
