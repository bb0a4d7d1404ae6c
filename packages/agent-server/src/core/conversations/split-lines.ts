/** One line of a stream, without its LF. */
export interface Line {
  /** 1 for the first. */
  readonly number: number
  readonly bytes: Buffer
}

export class LineTooLongError extends Error {
  override readonly name = 'LineTooLongError'
  readonly line: number
  constructor(line: number) {
    super(`line ${line} is too long`)
    this.line = line
  }
}

/**
 * Splits a stream of bytes at LF; a batch has the lines that one chunk completes. Holds at most one line of
 * `maxBytes` and one chunk. Blank lines are skipped but counted; the last line needs no LF.
 */
export async function* splitLines(
  stream: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<readonly Line[]> {
  let number = 0
  let pieces: Buffer[] = []
  let heldBytes = 0
  const finishLine = (piece: Buffer): Line | undefined => {
    number += 1
    const bytes = pieces.length === 0 ? piece : Buffer.concat([...pieces, piece])
    pieces = []
    heldBytes = 0
    if (bytes.length > maxBytes) throw new LineTooLongError(number)
    return isBlank(bytes) ? undefined : { number, bytes }
  }
  for await (const chunk of stream) {
    const batch: Line[] = []
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const line = finishLine(chunk.subarray(start, end))
      if (line !== undefined) batch.push(line)
      start = end + 1
    }
    if (start < chunk.length) {
      pieces.push(chunk.subarray(start))
      heldBytes += chunk.length - start
      if (heldBytes > maxBytes) throw new LineTooLongError(number + 1)
    }
    if (batch.length > 0) yield batch
  }
  if (heldBytes === 0) return
  const last = finishLine(Buffer.alloc(0))
  if (last !== undefined) yield [last]
}

function isBlank(bytes: Buffer): boolean {
  for (const byte of bytes) if (byte !== 32 && byte !== 9 && byte !== 13) return false
  return true
}
