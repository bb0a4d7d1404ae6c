import type { Problem, Route, RouteBody, RouteParams, RouteQuery, RouteTable } from '@slipway/protocol'

/** A validated request of one route. */
export interface Request<R extends Route> {
  readonly params: RouteParams<R>
  readonly query: RouteQuery<R>
  readonly body: RouteBody<R>
  /** The body as it arrives, decompressed, for routes with `stream`; empty otherwise. Fails when the client goes away. */
  readonly stream: AsyncIterable<Buffer>
  /** The file of a form, for routes with `upload`; to be asked for once. Throws a Problem when there is none. */
  upload(): Promise<Upload>
  header(name: string): string | undefined
  /** The address as it came, with its query. */
  readonly url: string
  /** What `identify` (see `AppOptions`) answered; undefined on an open route and without `identify`. */
  readonly caller: unknown
  /** Aborts when the client goes away or the server stops. */
  readonly signal: AbortSignal
}

/** A file on its way in. */
export interface Upload {
  /** As the client gave it, without folders; nothing else of it is checked. */
  readonly filename: string | undefined
  /**
   * The file as it arrives; it ends after the whole form has arrived. Fails with a Problem when the file is too large or the form is
   * broken, and when the client goes away: what was read until then is then no file.
   */
  readonly bytes: AsyncIterable<Buffer>
}

interface ReplyHead {
  /** 200 unless given. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * JSON to be written, bytes that are ready (`application/json` unless said otherwise), or a stream. The head of a
 * stream goes out with its first chunk: what is thrown before it is answered with a status, what is thrown after it
 * cuts the connection, so that the client never takes a part for the whole.
 */
export type Reply =
  | (ReplyHead & { readonly json: unknown })
  | (ReplyHead & { readonly bytes: Buffer; readonly contentType?: string })
  | (ReplyHead & { readonly chunks: AsyncIterable<Buffer | string>; readonly contentType: string })
  /** As if it had been thrown, with headers of its own. */
  | (Omit<ReplyHead, 'status'> & { readonly refusal: Problem })

/** Throws a `Problem` for what the caller did wrong; anything else thrown is a 500 without details. */
export type Handler<R extends Route> = (request: Request<R>) => Reply | Promise<Reply>

/** One function for each route: a missing one does not compile. */
export type Handlers<T extends RouteTable> = { readonly [K in keyof T]: Handler<T[K]> }

/** A text message in the form in which it is sent, ready to be written to any number of sockets. */
export interface Frame {
  /** Length of the payload in bytes. */
  readonly size: number
  /** Headers and payload. Nobody changes them. */
  readonly bytes: Buffer
}

/** One open WebSocket, already authenticated. */
export interface Socket {
  /**
   * Writes frames in order and resolves when the peer has room again; never rejects. Besides the frames that wait in
   * a call, at most 128 KiB are held for a peer that does not read; after the stall limit it is closed with 1013 and
   * `signal` aborts. On a closed socket it does nothing.
   */
  send(frames: readonly Frame[]): Promise<void>
  close(code: number, reason: string): void
  /**
   * Text messages of the peer in order; the next is taken when the last call's promise has resolved. What comes before
   * `onMessage` is called waits for it. A rejection closes the socket with 1011.
   */
  onMessage(handler: (text: string) => Promise<void>): void
  /** Aborts when the socket is closed by either side. */
  readonly signal: AbortSignal
}

export interface SocketRequest {
  readonly params: Readonly<Record<string, string>>
  /** Of a repeated parameter the last one. */
  readonly query: Readonly<Record<string, string>>
  header(name: string): string | undefined
}

/** A WebSocket path. Key checking (header, query, first frame; close code 4001) is done by `http`. */
export interface SocketRoute {
  /** With braces: `/sockets/events/{conversation_id}`. */
  readonly path: string
  /** Before the upgrade: false refuses it with HTTP 403. */
  accepts(request: SocketRequest): boolean
  /** Runs while the socket is open; when it returns the socket is closed with 1000. */
  serve(socket: Socket, request: SocketRequest): Promise<void>
}
