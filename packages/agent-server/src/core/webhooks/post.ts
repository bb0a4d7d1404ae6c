import { type Cursor, parseCursor } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Clock } from '@slipway/shared/time'

export type PostOutcome =
  | { readonly kind: 'accepted' }
  /** The receiver has the events up to this position, and maybe said which cursor it has. */
  | { readonly kind: 'other-position'; readonly head: number; readonly cursor: Cursor | undefined }
  /** `isGone`: the receiver or resource is unknown, maybe for now. `retryAfterMs`: the requested delay. */
  | {
      readonly kind: 'refused'
      readonly status: number
      readonly isGone: boolean
      readonly retryAfterMs: number | undefined
    }
  /** No response; `reason` is for people and contains no address. */
  | { readonly kind: 'unreachable'; readonly reason: string }

/** Of the answer of a receiver; more of it is not read. */
const maxResponseBytes = 64 * 1024
const goneStatuses: readonly number[] = [401, 403, 404, 410]

/** Posts JSON. Never rejects; follows no redirects, which would send the key elsewhere. */
export async function postJson(
  fetch: typeof globalThis.fetch,
  url: string,
  request: {
    readonly headers: Readonly<Record<string, string>>
    readonly body: Uint8Array<ArrayBuffer>
    readonly timeoutMs: number
    readonly clock: Clock
  },
  signal: AbortSignal,
): Promise<PostOutcome> {
  const timeout = request.clock.timeout(request.timeoutMs)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: request.headers,
      body: request.body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, timeout]),
    })
    const text = await readBodyPrefix(response)
    const place = response.status === 409 ? parsePlace(text) : undefined
    if (place !== undefined) return { kind: 'other-position', ...place }
    if (response.ok) return { kind: 'accepted' }
    const { status } = response
    const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'))
    return { kind: 'refused', status, isGone: goneStatuses.includes(status), retryAfterMs }
  } catch (error) {
    return { kind: 'unreachable', reason: timeout.aborted ? 'timeout' : failureReason(error) }
  }
}

/** The answer is read, so that the connection can be used again; one that is too long is cut off. */
async function readBodyPrefix(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk)
    sizeBytes += chunk.length
    // Leaving the loop cancels the body.
    if (sizeBytes > maxResponseBytes) break
  }
  return Buffer.concat(chunks).toString()
}

function parsePlace(text: string): { head: number; cursor: Cursor | undefined } | undefined {
  const value = parseJson(text)
  const { head, cursor } = isRecord(value) ? value : {}
  if (typeof head !== 'number' || !Number.isSafeInteger(head) || head < 0) return undefined
  return { head, cursor: typeof cursor === 'string' ? parseCursor(cursor) : undefined }
}

function parseRetryAfter(text: string | null): number | undefined {
  const seconds = text === null || text.trim() === '' ? Number.NaN : Number(text)
  return seconds >= 0 ? seconds * 1000 : undefined
}

/** The code of the error or of its causes; their messages may contain addresses and headers. */
function failureReason(error: unknown): string {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
  }
  return 'no connection'
}
