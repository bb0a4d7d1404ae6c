import type { Reply } from '@slipway/http'

/** The header with the conversation of a request, in both directions. */
export const idHeader = 'x-openhands-serverconversation-id'

/** Waits for the first piece, so that an earlier failure is answered with a status. */
export async function startStream(
  stream: AsyncGenerator<string>,
  headers: Readonly<Record<string, string>>,
): Promise<Reply> {
  const first = await stream.next()
  async function* withFirst() {
    try {
      if (!first.done) yield first.value
      yield* stream
    } finally {
      await stream.return(undefined)
    }
  }
  const streamHeaders = { ...headers, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }
  return { contentType: 'text/event-stream', headers: streamHeaders, chunks: withFirst() }
}
