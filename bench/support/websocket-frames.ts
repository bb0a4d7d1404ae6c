/** Counts the text frames of a server's WebSocket stream by their heads alone; a server does not mask. */
export class FrameCounter {
  #payload = 0
  #isText = false
  #rest: Buffer = Buffer.alloc(0)

  /** Takes the next piece of the stream and answers how many text frames end in it. */
  take(piece: Buffer): number {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    let at = 0
    let ended = 0
    while (at < bytes.length) {
      if (this.#payload === 0) {
        const size = this.#head(bytes, at)
        if (size === undefined) break
        at += size
      }
      const part = Math.min(this.#payload, bytes.length - at)
      at += part
      this.#payload -= part
      if (this.#payload === 0 && this.#isText) ended++
    }
    this.#rest = bytes.subarray(at)
    return ended
  }

  /** Reads a frame's head and answers its size, undefined when not all of it is there. */
  #head(bytes: Buffer, at: number): number | undefined {
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
