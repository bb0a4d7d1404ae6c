import { type AnswerEnd, limitAnswer } from '@slipway/shared/async'

/** Bytes of one response, or of one event of an event stream, which may be endless. */
const maxBytes = 32 * 1024 * 1024

/** A fetch that limits response bodies and reports how each ended, unless its reader aborted. */
export function createLimitedFetch(
  inner: (url: string | URL, init?: RequestInit) => Promise<Response>,
  onEnd: (request: RequestInit, end: AnswerEnd) => void,
) {
  return async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await inner(url, init)
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    const limits = { maxBytes: isStream ? Number.POSITIVE_INFINITY : maxBytes, maxEventBytes: maxBytes }
    return limitAnswer(response, limits, (end) => {
      if (!init?.signal?.aborted) onEnd(init ?? {}, end)
    })
  }
}
