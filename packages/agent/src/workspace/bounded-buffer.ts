/** The first bytes of a stream. */
export class BoundedBuffer {
  readonly #max: number
  readonly #chunks: Buffer[] = []
  #size = 0
  isTruncated = false

  constructor(max: number) {
    this.#max = max
  }

  append(chunk: Buffer): void {
    const room = this.#max - this.#size
    if (chunk.length > room) this.isTruncated = true
    if (room <= 0) return
    this.#chunks.push(chunk.subarray(0, room))
    this.#size += Math.min(room, chunk.length)
  }

  bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}
