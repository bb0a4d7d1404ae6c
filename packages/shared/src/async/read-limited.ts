/**
 * Answers of other servers are read here and nowhere else (`scripts/import-rules.ts`): whoever answers
 * chooses the length, and plain `response.text()` holds all of it. Works in browsers.
 */

/** An answer is longer than its reader accepts. */
export class AnswerTooLongError extends Error {
  constructor(maxBytes: number) {
    super(`The answer is longer than ${maxBytes} bytes`)
    this.name = 'AnswerTooLongError'
  }
}

/** Longest answer of a server that the user has named. */
export const maxAnswerBytes = 256 * 1024 * 1024

interface AnswerLimits {
  /** Bytes, decompressed. */
  readonly maxBytes: number
  /** Bytes of one event of an event stream; `maxBytes` unless given. */
  readonly maxEventBytes?: number
}

/** How an answer ended: complete, before its end, or above the limit. */
export type AnswerEnd = 'whole' | 'broken' | 'too long'

/** The bytes of a body; undefined when there are more than `maxBytes`. */
export async function readLimited(response: Response, maxBytes: number): Promise<Buffer | undefined> {
  try {
    return Buffer.concat(await readChunks(response, maxBytes))
  } catch (error) {
    if (error instanceof AnswerTooLongError) return undefined
    throw error
  }
}

/** The body as text. Rejects with an `AnswerTooLongError`. */
export async function readText(response: Response, maxBytes = maxAnswerBytes): Promise<string> {
  const decoder = new TextDecoder()
  const chunks = await readChunks(response, maxBytes)
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join('') + decoder.decode()
}

/** The value of a JSON body. Rejects with an `AnswerTooLongError`, or a `SyntaxError`. */
export async function readJson(response: Response, maxBytes = maxAnswerBytes): Promise<unknown> {
  return JSON.parse(await readText(response, maxBytes))
}

/**
 * The same response, whose body fails with an `AnswerTooLongError` above a limit: for libraries that read.
 */
export function limitAnswer(
  response: Response,
  { maxBytes, maxEventBytes = maxBytes }: AnswerLimits,
  onEnd: (end: AnswerEnd) => void = () => {},
): Response {
  const { body, headers } = response
  if (body === null) return response
  const isEventStream = headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const reader = body.getReader()
  let sizeBytes = 0
  let eventBytes = 0
  let isCancelled = false
  const count = (chunk: Uint8Array) => {
    sizeBytes += chunk.length
    const from = isEventStream ? lastEventEnd(chunk) : -1
    eventBytes = from === -1 ? eventBytes + chunk.length : chunk.length - from
    if (sizeBytes > maxBytes) throw new AnswerTooLongError(maxBytes)
    if (eventBytes > maxEventBytes) throw new AnswerTooLongError(maxEventBytes)
  }
  const limited = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (isCancelled) return
        if (done) {
          onEnd('whole')
          return controller.close()
        }
        count(value)
        controller.enqueue(value)
      } catch (error) {
        onEnd(error instanceof AnswerTooLongError ? 'too long' : 'broken')
        reader.cancel(error).catch(() => {})
        throw error
      }
    },
    async cancel(reason) {
      isCancelled = true
      await reader.cancel(reason)
    },
  })
  return new Response(limited, response)
}

/** Rejects with an `AnswerTooLongError`. */
async function readChunks({ body }: Response, maxBytes: number): Promise<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = []
  if (body === null) return chunks
  // Not every browser iterates over streams.
  const reader = body.getReader()
  let sizeBytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return chunks
    sizeBytes += value.length
    if (sizeBytes > maxBytes) {
      reader.cancel().catch(() => {})
      throw new AnswerTooLongError(maxBytes)
    }
    chunks.push(value)
  }
}

/** Where the last complete event of a chunk ends: at an empty line. */
function lastEventEnd(chunk: Uint8Array): number {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
  return Math.max(bytes.lastIndexOf('\n\n'), bytes.lastIndexOf('\r\n\r\n'))
}
