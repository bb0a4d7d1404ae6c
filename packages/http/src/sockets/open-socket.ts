import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Frame, Socket } from '../core/handler.ts'
import { pieceBytes } from './frame.ts'

/** Messages that wait for a taker: above this the peer is not read any more. */
const maxInboxBytes = 64 * 1024
const done = Promise.resolve()

interface Parts {
  readonly ws: WebSocket
  /** The connection under `ws`. */
  readonly net: Duplex
  readonly stallMs: number
  /** Called with what a taker of messages throws. */
  readonly failed: (error: unknown) => void
}

/**
 * One open WebSocket. Messages are written to the connection itself, as bytes that all sockets share; `ws` writes only
 * control frames, each whole, which may stand between any two pieces.
 */
export class OpenSocket implements Socket {
  readonly #parts: Parts
  readonly #abort = new AbortController()
  /** The last send that has to wait; the next one waits for it. */
  #sending: Promise<void> | undefined
  /** Ends the waiting for room. */
  #wake: (() => void) | undefined
  #take: ((text: string) => Promise<void>) | undefined
  #inbox: string[] = []
  #inboxBytes = 0
  #isTaking = false
  #missedPongs = 0

  constructor(parts: Parts) {
    this.#parts = parts
    const { ws } = parts
    ws.on('pong', () => {
      this.#missedPongs = 0
    })
    ws.on('close', () => this.#end())
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  send(frames: readonly Frame[]): Promise<void> {
    if (this.signal.aborted) return done
    if (this.#sending === undefined && this.#writeAtOnce(frames)) return done
    const sending = (this.#sending ?? done).then(() => this.#deliver(frames))
    this.#sending = sending
    return sending.finally(() => {
      if (this.#sending === sending) this.#sending = undefined
    })
  }

  close(code: number, reason: string): void {
    if (this.signal.aborted) return
    this.#end()
    this.#parts.ws.close(code, reason)
    // The peer's answer would not be seen on a socket that is not read.
    this.#parts.ws.resume()
  }

  onMessage(take: (text: string) => Promise<void>): void {
    this.#take = take
    void this.#takeAll()
  }

  /** A text message of the peer. */
  receive(text: string): void {
    if (this.signal.aborted) return
    this.#missedPongs = 0
    this.#inbox.push(text)
    this.#inboxBytes += text.length
    if (this.#take !== undefined) void this.#takeAll()
    else if (this.#inboxBytes > maxInboxBytes) this.#parts.ws.pause()
  }

  /** Asks for a sign of life; without one since the time before last the socket is cut off. */
  beat(): void {
    const { ws, net } = this.#parts
    // Neither a peer that we keep waiting nor one behind unsent bytes can answer; the latter is timed by `#room`.
    if (this.#isTaking || net.writableNeedDrain || this.signal.aborted) return
    if (this.#missedPongs >= 2) ws.terminate()
    else ws.ping()
    this.#missedPongs++
  }

  /** Writes short messages when nothing waits: the common case, without a promise of its own. */
  #writeAtOnce(frames: readonly Frame[]): boolean {
    const { net } = this.#parts
    let sizeBytes = 0
    for (const { bytes } of frames) sizeBytes += bytes.length
    if (net.writableNeedDrain || sizeBytes + net.writableLength >= net.writableHighWaterMark) return false
    net.cork()
    for (const { bytes } of frames) net.write(bytes)
    net.uncork()
    return true
  }

  async #deliver(frames: readonly Frame[]): Promise<void> {
    const { net } = this.#parts
    for (const { bytes } of frames) {
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        if (net.writableNeedDrain) await this.#room()
        if (this.signal.aborted) return
        net.write(bytes.subarray(at, at + pieceBytes))
      }
    }
    if (net.writableNeedDrain) await this.#room()
  }

  /** Waits until all is with the kernel. One piece at a time, so no drain within the limit means no progress. */
  async #room(): Promise<void> {
    const { net, stallMs } = this.#parts
    if (this.signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    net.once('drain', resolve)
    const timer = setTimeout(() => this.close(1013, 'too slow, reconnect and resume'), stallMs)
    await promise
    clearTimeout(timer)
    net.off('drain', resolve)
  }

  #end(): void {
    this.#inbox = []
    this.#abort.abort()
    this.#wake?.()
  }

  async #takeAll(): Promise<void> {
    const { ws, failed } = this.#parts
    if (this.#isTaking || this.#take === undefined) return
    this.#isTaking = true
    ws.pause()
    try {
      for (let text = this.#inbox.shift(); text !== undefined; text = this.#inbox.shift())
        await this.#take(text)
    } catch (error) {
      failed(error)
    } finally {
      this.#isTaking = false
      this.#inboxBytes = 0
      ws.resume()
    }
  }
}
