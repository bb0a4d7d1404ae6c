import type { Problem, Route, RouteBody, RouteParams, RouteQuery, RouteTable } from '@slipway/protocol'

/** A validated request of one route. */
export interface Request<R extends Route> {
  readonly params: RouteParams<R>
  readonly query: RouteQuery<R>
  readonly body: RouteBody<R>
  /**
   * The body as it arrives, decompressed, for routes with `stream`; empty otherwise. Fails when the client
   * disconnects.
   */
  readonly stream: AsyncIterable<Buffer>
  /**
   * The file of a form, for routes with `upload`; call it once. Throws a Problem when the form has no file.
   */
  upload(): Promise<Upload>
  header(name: string): string | undefined
  /** Who sends it: see `peerOf`. */
  readonly peer: () => string
  /** The address of the other end; empty for a Unix socket. Behind a proxy that of the proxy. */
  readonly peerAddress: () => string
  /** The raw address with its query. */
  readonly url: string
  readonly method: string
  /** The body as it arrived, decompressed; empty for routes with `stream` or `upload`. */
  readonly rawBody: Buffer
  /**
   * The result of `identify` (see `FallbackOptions`), or the `ScopedKey` of the request; otherwise undefined.
   */
  readonly caller: unknown
  /** Aborts when the client disconnects, or shortly before a stopping server cuts what is left. */
  readonly signal: AbortSignal
}

/** An uploaded file. */
export interface Upload {
  /** As the client sent it, without directories; otherwise unchecked. */
  readonly filename: string | undefined
  /**
   * The file as it arrives; it ends after the whole form has arrived. Fails when the file is too large, the
   * form is invalid or the client disconnects: discard what was read until then.
   */
  readonly bytes: AsyncIterable<Buffer>
}

interface ReplyHead {
  /** 200 unless given. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * A JSON value, ready bytes (`application/json` by default), or a stream. The head of a stream is sent with
 * its first chunk: an error before it becomes an error status, an error after it cuts the connection, so that
 * the client never takes a part for the whole.
 */
export type Reply =
  | (ReplyHead & { readonly json: unknown })
  | (ReplyHead & { readonly bytes: Buffer; readonly contentType?: string })
  | (ReplyHead & {
      readonly chunks: AsyncIterable<Buffer | string>
      readonly contentType: string
      /** The stream has no separate end: the request's signal aborts as soon as the server stops. */
      readonly isEndless?: true
    })
  /** Like a thrown Problem, with additional headers. */
  | (Omit<ReplyHead, 'status'> & { readonly refusal: Problem })

/** Throws a `Problem` for an error of the caller; any other error is a 500 without details. */
export type Handler<R extends Route> = (request: Request<R>) => Reply | Promise<Reply>

/** One function for each route: a missing one does not compile. */
export type Handlers<T extends RouteTable> = { readonly [K in keyof T]: Handler<T[K]> }

/** An encoded text message, ready to be written to any number of sockets. */
export interface Frame {
  /** Length of the payload in bytes. */
  readonly size: number
  /** Headers and payload; never modified. */
  readonly bytes: Buffer
}

/** One open WebSocket, already authenticated. */
export interface Socket {
  /**
   * Writes frames in order. Undefined when they were written at once, the usual case; else a promise that
   * resolves when the peer has room again and never rejects. Besides the frames that wait in a call, at most
   * 128 KiB are buffered for a peer that does not read; after the stall limit it is closed with 1013 and
   * `signal` aborts. On a closed socket it does nothing.
   */
  send(frames: readonly Frame[]): Promise<void> | undefined
  close(code: number, reason: string): void
  /**
   * Handles text messages of the peer in order, one at a time. Messages that arrive before `onMessage` is
   * called wait for it. A rejection closes the socket with 1011.
   */
  onMessage(handler: (text: string) => Promise<void>): void
  /** Aborts when the socket is closed by either side. */
  readonly signal: AbortSignal
}

export interface SocketRequest {
  readonly params: Readonly<Record<string, string>>
  /** The last value of a repeated parameter. */
  readonly query: Readonly<Record<string, string>>
  header(name: string): string | undefined
}

/** A WebSocket path. Key checking (header, query, first frame; close code 4001) is done by `http`. */
export interface SocketRoute {
  /** With braces: `/sockets/events/{conversation_id}`. */
  readonly path: string
  /** Binary messages reach the handler as an empty text; otherwise they close the socket with 1003. */
  readonly takesBinary?: true
  /** Called before the upgrade: false refuses it with HTTP 403. */
  accepts(request: SocketRequest): boolean
  /** Runs while the socket is open; when it returns the socket is closed with 1000. */
  serve(socket: Socket, request: SocketRequest): Promise<void>
}
