import { invalidInput, Problem } from '@slipway/protocol'

const [quote, backslash, comma, open, close] = [0x22, 0x5c, 0x2c, 0x5b, 0x5d]
/** A parsed value takes many times the memory of its text: empty arrays of 64 MiB would take gigabytes. */
const maxValuesPerElement = 2_000_000
const [openBrace, closeBrace] = [0x7b, 0x7d]

/**
 * Splits a JSON array into the bytes of its elements, not validated. Problems: `invalid` for other texts,
 * `too_large` for an element with too many values.
 */
export class JsonArraySplitter {
  #position: 'before' | 'first' | 'inside' | 'after' = 'before'
  #depth = 0
  #isInString = false
  #isEscaped = false
  #values = 0
  #pieces: Buffer[] = []
  #pendingBytes = 0

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  push(chunk: Buffer): Buffer[] {
    const completed: Buffer[] = []
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = Number(chunk[at])
      if (this.#position === 'before' || this.#position === 'after') {
        this.#readOutside(byte)
        from = at + 1
      } else if (this.#endsElement(byte)) {
        this.#append(chunk.subarray(from, at))
        const element = this.#finishElement(byte === close)
        if (element !== undefined) completed.push(element)
        from = at + 1
      }
    }
    if (this.#position === 'first' || this.#position === 'inside') this.#append(chunk.subarray(from))
    return completed
  }

  /** Call it at the end of the text. */
  end(): void {
    if (this.#position !== 'after') throw notAnArrayProblem()
  }

  #readOutside(byte: number): void {
    if (isWhitespace(byte)) return
    if (this.#position === 'after' || byte !== open) throw notAnArrayProblem()
    this.#position = 'first'
  }

  #endsElement(byte: number): boolean {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (byte === backslash) this.#isEscaped = true
      else if (byte === quote) this.#isInString = false
      return false
    }
    const isValue = byte === comma || byte === open || byte === openBrace
    if (isValue && ++this.#values > maxValuesPerElement)
      throw new Problem('too_large', `An event has more than ${maxValuesPerElement} values`)
    if (byte === quote) this.#isInString = true
    else if (byte === open || byte === openBrace) this.#depth++
    else if (byte === close || byte === closeBrace) {
      if (this.#depth === 0 && byte === close) return true
      if (--this.#depth < 0) throw notAnArrayProblem()
    }
    return byte === comma && this.#depth === 0
  }

  #append(piece: Buffer): void {
    if (piece.length === 0) return
    this.#pieces.push(piece)
    this.#pendingBytes += piece.length
  }

  #finishElement(isLast: boolean): Buffer | undefined {
    const bytes = trimWhitespace(Buffer.concat(this.#pieces))
    this.#pieces = []
    this.#pendingBytes = 0
    this.#values = 0
    const isFirst = this.#position === 'first'
    this.#position = isLast ? 'after' : 'inside'
    if (bytes.length > 0) return bytes
    if (isFirst && isLast) return undefined
    throw notAnArrayProblem()
  }
}

function trimWhitespace(bytes: Buffer): Buffer {
  const isText = (byte: number) => !isWhitespace(byte)
  return bytes.subarray(bytes.findIndex(isText), bytes.findLastIndex(isText) + 1)
}

function isWhitespace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function notAnArrayProblem() {
  return invalidInput(['body'], 'The body is not a JSON array', 'json_invalid')
}
