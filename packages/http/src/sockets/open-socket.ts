import type { Duplex } from 'node:stream'
import type { Clock } from '@slipway/shared/time'
import type { WebSocket } from 'ws'
import type { Frame, Socket } from '../core/handler.ts'
import { fragmentBytes } from './frame.ts'

/** Above this size of unhandled messages the peer is not read. */
const maxInboxBytes = 64 * 1024
const resolved = Promise.resolve()

interface OpenSocketOptions {
  readonly ws: WebSocket
  /** The connection under `ws`. */
  readonly net: Duplex
  readonly stallMs: number
  /** Pings without an answer after which the peer is cut off. */
  readonly maxMissedPongs: number
  readonly clock: Clock
  /** Called with the error of a message handler. */
  readonly failed: (error: unknown) => void
}

/**
 * One open WebSocket. Messages are written to the connection directly, as bytes that all sockets share; `ws`
 * writes only control frames, each whole, which may stand between any two fragments.
 */
export class OpenSocket implements Socket {
  readonly #options: OpenSocketOptions
  readonly #abort = new AbortController()
  /** The last pending send; the next one waits for it. */
  #sending: Promise<void> | undefined
  /** Ends the wait for the drain. */
  #stopWaiting: (() => void) | undefined
  #messageHandler: ((text: string) => Promise<void>) | undefined
  #inbox: string[] = []
  #inboxBytes = 0
  #isHandling = false
  #isEnded = false
  #missedPongs = 0

  constructor(options: OpenSocketOptions) {
    this.#options = options
    const { ws } = options
    ws.on('pong', () => {
      this.#missedPongs = 0
    })
    ws.on('close', () => this.#end())
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  send(frames: readonly Frame[]): Promise<void> | undefined {
    if (this.#isEnded || (this.#sending === undefined && this.#tryWriteNow(frames))) return undefined
    const sending = (this.#sending ?? resolved).then(() => this.#writeFrames(frames))
    this.#sending = sending
    return sending.finally(() => {
      if (this.#sending === sending) this.#sending = undefined
    })
  }

  close(code: number, reason: string): void {
    if (this.signal.aborted) return
    this.#end()
    this.#options.ws.close(code, reason)
    // The peer's close frame is only seen on a socket that is read.
    this.#options.ws.resume()
  }

  onMessage(handler: (text: string) => Promise<void>): void {
    this.#messageHandler = handler
    void this.#handleMessages()
  }

  /** Queues a text message of the peer. */
  receive(text: string): void {
    if (this.signal.aborted) return
    this.#missedPongs = 0
    this.#inbox.push(text)
    this.#inboxBytes += text.length
    if (this.#messageHandler !== undefined) void this.#handleMessages()
    else if (this.#inboxBytes > maxInboxBytes) this.#options.ws.pause()
  }

  /** Sends a ping, or cuts off a peer that missed too many. */
  ping(): void {
    const { ws, net, maxMissedPongs } = this.#options
    // A peer that waits for its handler or for unsent bytes cannot answer; `#waitForDrain` limits the latter.
    if (this.#isHandling || net.writableNeedDrain || this.signal.aborted) return
    if (this.#missedPongs >= maxMissedPongs) ws.terminate()
    else ws.ping()
    this.#missedPongs++
  }

  /** Writes short messages when nothing is pending: the common case, without a promise. */
  #tryWriteNow(frames: readonly Frame[]): boolean {
    const { net } = this.#options
    let sizeBytes = net.writableLength
    for (const { bytes } of frames) sizeBytes += bytes.length
    if (net.writableNeedDrain || sizeBytes >= net.writableHighWaterMark) return false
    if (frames.length > 1) net.cork()
    for (const { bytes } of frames) net.write(bytes)
    if (frames.length > 1) net.uncork()
    return true
  }

  async #writeFrames(frames: readonly Frame[]): Promise<void> {
    const { net } = this.#options
    for (const { bytes } of frames) {
      for (let at = 0; at < bytes.length; at += fragmentBytes) {
        if (net.writableNeedDrain) await this.#waitForDrain()
        if (this.signal.aborted) return
        net.write(bytes.subarray(at, at + fragmentBytes))
      }
    }
    if (net.writableNeedDrain) await this.#waitForDrain()
  }

  /**
   * Waits until the kernel has all bytes. One fragment at a time, so no drain within the limit means no
   * progress.
   */
  async #waitForDrain(): Promise<void> {
    const { net, stallMs, clock } = this.#options
    if (this.signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#stopWaiting = resolve
    net.once('drain', resolve)
    const timer = clock.schedule(stallMs, () => this.close(1013, 'too slow, reconnect and resume'))
    await promise
    timer.cancel()
    net.off('drain', resolve)
  }

  #end(): void {
    this.#isEnded = true
    this.#inbox = []
    this.#abort.abort()
    this.#stopWaiting?.()
  }

  async #handleMessages(): Promise<void> {
    const { ws, failed } = this.#options
    if (this.#isHandling || this.#messageHandler === undefined) return
    this.#isHandling = true
    ws.pause()
    try {
      for (let text = this.#inbox.shift(); text !== undefined; text = this.#inbox.shift())
        await this.#messageHandler(text)
    } catch (error) {
      failed(error)
    } finally {
      this.#isHandling = false
      this.#inboxBytes = 0
      ws.resume()
    }
  }
}
