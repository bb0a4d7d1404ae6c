import { Readable } from 'node:stream'

/** Bytes of one response, or of one event of an event stream. */
const maxBodyBytes = 32 * 1024 * 1024

/** How the body of a response ended: complete, before its end, or above the limit. */
export type BodyOutcome = 'whole' | 'broken' | 'too long'

/** A fetch that limits response bodies and reports how each ended, unless its reader aborted. */
export function createLimitedFetch(
  inner: (url: string | URL, init?: RequestInit) => Promise<Response>,
  onEnd: (method: string, end: BodyOutcome) => void,
) {
  return async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await inner(url, init)
    if (response.body === null) return response
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    const { status, statusText, headers } = response
    const report = (end: BodyOutcome) => {
      if (!init?.signal?.aborted) onEnd(init?.method ?? 'GET', end)
    }
    const body = Readable.from(limitBody(response.body, isStream, report), { objectMode: false })
    // Node declares two incompatible types of web streams.
    return new Response(Readable.toWeb(body) as ReadableStream, { status, statusText, headers })
  }
}

async function* limitBody(
  body: AsyncIterable<Uint8Array>,
  isStream: boolean,
  report: (end: BodyOutcome) => void,
): AsyncGenerator<Uint8Array> {
  let size = 0
  let end: BodyOutcome = 'broken'
  try {
    for await (const chunk of body) {
      const from = isStream ? lastEventEnd(chunk) : -1
      size = from === -1 ? size + chunk.length : chunk.length - from
      if (size > maxBodyBytes) {
        end = 'too long'
        throw new Error(`the answer is longer than ${maxBodyBytes} bytes`)
      }
      yield chunk
    }
  } catch (error) {
    report(end)
    throw error
  }
  report('whole')
}

/** Where the last complete event of a chunk ends: at an empty line. */
function lastEventEnd(chunk: Uint8Array): number {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
  return Math.max(bytes.lastIndexOf('\n\n'), bytes.lastIndexOf('\r\n\r\n'))
}
