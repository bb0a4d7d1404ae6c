/**
 * Counts the text frames of a server's WebSocket stream by their headers; frames of a server are not masked.
 */
export class FrameCounter {
  #payload = 0
  #isText = false
  #remainder: Buffer = Buffer.alloc(0)

  /** Reads the next chunk of the stream and returns how many text frames end in it. */
  count(piece: Buffer): number {
    const bytes = this.#remainder.length === 0 ? piece : Buffer.concat([this.#remainder, piece])
    let at = 0
    let ended = 0
    while (at < bytes.length) {
      if (this.#payload === 0) {
        const size = this.#readHead(bytes, at)
        if (size === undefined) break
        at += size
      }
      const part = Math.min(this.#payload, bytes.length - at)
      at += part
      this.#payload -= part
      if (this.#payload === 0 && this.#isText) ended++
    }
    this.#remainder = bytes.subarray(at)
    return ended
  }

  /** Reads a frame's header and returns the frame's size; undefined while the header is incomplete. */
  #readHead(bytes: Buffer, at: number): number | undefined {
    const left = bytes.length - at
    if (left < 2) return undefined
    const short = bytes.readUInt8(at + 1)
    const size = short < 126 ? 2 : short === 126 ? 4 : 10
    if (left < size) return undefined
    this.#isText = (bytes.readUInt8(at) & 15) === 1
    this.#payload =
      short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
    return size
  }
}
