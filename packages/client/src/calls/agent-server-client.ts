import type { agentServerRoutes } from '@slipway/protocol'
import { agentServerPaths, type ExportFormatName } from '@slipway/protocol/client'
import type { Secret } from '@slipway/shared/redaction'
import { buildQuery, RouteCaller } from './route-caller.ts'
import type { CallOutput } from './route-types.ts'

export interface ClientOptions {
  /**
   * Base address, `http://127.0.0.1:8000`, with an optional path prefix. `http+unix://%2Frun%2Fx.sock` names
   * a Unix socket and needs a `fetch` that supports it.
   */
  readonly url: string
  /** Sent as `X-Session-API-Key`. */
  readonly sessionApiKey?: Secret | string | undefined
  readonly fetch?: typeof globalThis.fetch
  /** Longest answer of a call, except streams; 256 MiB unless given. */
  readonly maxAnswerBytes?: number
}

/** Typed calls of an agent server. */
export class Client extends RouteCaller<typeof agentServerRoutes> {
  constructor({ sessionApiKey, ...options }: ClientOptions) {
    const key = { key: sessionApiKey, keyHeader: 'x-session-api-key' }
    super(agentServerPaths, { ...options, ...key, startedBy: 'slipway serve' })
  }

  /**
   * Imports events, one JSON object a line. All of them are stored or none. `unknown: 'keep'` also takes
   * kinds and members of other versions. A `CallError` with issues names the line in `loc`: `["body", line,
   * ...place]`. Browsers send a Blob; they stream request bodies over HTTP/2 alone.
   */
  async importEvents(
    stream: ReadableStream<Uint8Array> | Blob,
    options: { readonly unknown?: 'keep' | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<CallOutput<'importConversation'>> {
    // A body that streams needs `duplex`, which the browsers' types do not name yet.
    const init: RequestInit & { duplex: 'half' } = {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: stream,
      duplex: 'half',
      signal: options.signal ?? null,
    }
    const response = await this.send(
      `/api/conversations/import${buildQuery({ unknown: options.unknown })}`,
      init,
    )
    return await this.readJson(response, options.signal)
  }

  /**
   * The log as bytes, one event a line in order of position unless `format` is another; with `gzip` as a
   * gzip file.
   */
  async exportEvents(
    conversationId: string,
    options: {
      readonly format?: ExportFormatName | undefined
      readonly meta?: boolean | undefined
      readonly gzip?: boolean | undefined
      readonly signal?: AbortSignal | undefined
    } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { format, meta = false, gzip = false, signal } = options
    const response = await this.open('exportConversation', {
      params: { conversation_id: conversationId },
      query: { format, meta: String(meta), gzip: String(gzip) },
      signal,
    })
    return response.body ?? new Blob([]).stream()
  }
}
