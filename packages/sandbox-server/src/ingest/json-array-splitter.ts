import { invalid } from '@slipway/protocol'

const [quote, backslash, comma, open, close] = [0x22, 0x5c, 0x2c, 0x5b, 0x5d]
const [openBrace, closeBrace] = [0x7b, 0x7d]

/**
 * Cuts the text of a JSON array into the bytes of its elements, without white space around them and otherwise as they came.
 * What stands inside of an element is for its reader to check; that nothing but elements, commas and white space stands
 * between the brackets follows when each element is one valid JSON text. Faults are Problems `invalid`.
 */
export class Elements {
  #place: 'before' | 'first' | 'inside' | 'after' = 'before'
  #depth = 0
  #inText = false
  #isEscaped = false
  #pieces: Buffer[] = []
  #pendingBytes = 0

  /** Bytes of the element that has not ended yet. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** The elements that end in this piece of the text. */
  take(chunk: Buffer): Buffer[] {
    const ended: Buffer[] = []
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = Number(chunk[at])
      if (this.#place === 'before' || this.#place === 'after') {
        this.#outside(byte)
        from = at + 1
      } else if (this.#isEnd(byte)) {
        this.#keep(chunk.subarray(from, at))
        const element = this.#complete(byte === close)
        if (element !== undefined) ended.push(element)
        from = at + 1
      }
    }
    if (this.#place === 'first' || this.#place === 'inside') this.#keep(chunk.subarray(from))
    return ended
  }

  /** Call it when the text is over. */
  end(): void {
    if (this.#place !== 'after') throw notAnArray()
  }

  #outside(byte: number): void {
    if (isBlank(byte)) return
    if (this.#place === 'after' || byte !== open) throw notAnArray()
    this.#place = 'first'
  }

  /** Whether the byte ends an element of the outer array. */
  #isEnd(byte: number): boolean {
    if (this.#inText) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (byte === backslash) this.#isEscaped = true
      else if (byte === quote) this.#inText = false
      return false
    }
    if (byte === quote) this.#inText = true
    else if (byte === open || byte === openBrace) this.#depth++
    else if (byte === close || byte === closeBrace) {
      if (this.#depth === 0 && byte === close) return true
      if (--this.#depth < 0) throw notAnArray()
    }
    return byte === comma && this.#depth === 0
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return
    this.#pieces.push(piece)
    this.#pendingBytes += piece.length
  }

  #complete(isLast: boolean): Buffer | undefined {
    const bytes = trimmed(Buffer.concat(this.#pieces))
    this.#pieces = []
    this.#pendingBytes = 0
    const isFirst = this.#place === 'first'
    this.#place = isLast ? 'after' : 'inside'
    if (bytes.length > 0) return bytes
    if (isFirst && isLast) return undefined
    throw notAnArray()
  }
}

function trimmed(bytes: Buffer): Buffer {
  let from = 0
  let to = bytes.length
  while (from < to && isBlank(Number(bytes[from]))) from++
  while (to > from && isBlank(Number(bytes[to - 1]))) to--
  return bytes.subarray(from, to)
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function notAnArray() {
  return invalid(['body'], 'The body is not a JSON array', 'json_invalid')
}
