import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Route } from '@slipway/protocol'
import { readStream, type StreamLimits } from './body.ts'
import type { Upload } from './handler.ts'
import { peerOf } from './peer.ts'
import { readUpload } from './upload.ts'

/** The dependencies of an `IncomingRequest` besides the parsed input. */
interface RequestSource extends StreamLimits {
  readonly raw: IncomingMessage
  readonly res: ServerResponse
  /** The controllers of signals in use. */
  readonly activeControllers: Map<ServerResponse, AbortController>
  readonly maxUploadBytes: number
  /** See `Request.caller`. */
  readonly caller: unknown
}

/**
 * The request that a handler gets. Streams, uploads and signals are created on first use. `declare`: fields
 * that the constructor assigns anyway are not defined first, which is measurable for each request.
 */
export class IncomingRequest {
  declare readonly params: unknown
  declare readonly query: unknown
  declare readonly body: unknown
  declare readonly caller: unknown
  /** A property, because handlers destructure it. */
  declare readonly header: (name: string) => string | undefined
  declare readonly rawBody: Buffer
  readonly #route: Route
  readonly #source: RequestSource
  #controller: AbortController | undefined

  constructor(
    route: Route,
    source: RequestSource,
    input: { params: unknown; query: unknown; body?: unknown },
    rawBody: Buffer,
  ) {
    this.#route = route
    this.#source = source
    this.params = input.params
    this.query = input.query
    this.body = input.body
    this.caller = source.caller
    this.rawBody = rawBody
    this.header = (name) => getHeader(source.raw, name)
  }

  get peer(): () => string {
    return () => peerOf(this.#source.raw.socket)
  }

  get peerAddress(): () => string {
    return () => this.#source.raw.socket.remoteAddress ?? ''
  }

  get url(): string {
    return this.#source.raw.url ?? ''
  }

  get method(): string {
    return this.#source.raw.method ?? ''
  }

  get stream(): AsyncIterable<Buffer> {
    const { stream } = this.#route
    return stream === undefined ? emptyStream() : readStream(this.#source.raw, stream, this.#source)
  }

  get upload(): () => Promise<Upload> {
    return async () => {
      const { raw, res } = this.#source
      if (this.#route.upload !== true) throw new Error('This route takes no upload')
      return await readUpload(raw, res, this.#source)
    }
  }

  get signal(): AbortSignal {
    this.#controller ??= createController(this.#source)
    return this.#controller.signal
  }
}

function createController({ res, activeControllers }: RequestSource): AbortController {
  const controller = new AbortController()
  if (res.destroyed) controller.abort()
  else {
    activeControllers.set(res, controller)
    res.once('close', () => {
      activeControllers.delete(res)
      if (!res.writableFinished) controller.abort()
    })
  }
  return controller
}

export function getHeader(raw: IncomingMessage, name: string): string | undefined {
  const value = raw.headers[name.toLowerCase()]
  return Array.isArray(value) ? value.join(', ') : value
}

async function* emptyStream(): AsyncGenerator<Buffer> {}
