import type { Secrets } from '@slipway/agent'
import type { OutputDraft } from './event-store.ts'

/** Characters of one stream in one piece. */
const maxPieceChars = 1024 * 1024

/** The output of one command on its way from bytes to pieces: UTF-8 that is cut anywhere, without the values of secrets. */
export class OutputPieces {
  readonly #stdout: OutputText
  readonly #stderr: OutputText

  constructor(secrets: Secrets) {
    this.#stdout = new OutputText(secrets)
    this.#stderr = new OutputText(secrets)
  }

  get isEmpty(): boolean {
    return this.#stdout.length === 0 && this.#stderr.length === 0
  }

  add(stream: 'stdout' | 'stderr', bytes: Buffer): void {
    if (stream === 'stdout') this.#stdout.add(bytes)
    else this.#stderr.add(bytes)
  }

  /** Pieces that are full. */
  full(): OutputDraft[] {
    const drafts: OutputDraft[] = []
    for (let text = this.#stdout.piece(); text !== null; text = this.#stdout.piece())
      drafts.push({ exit_code: null, stdout: text, stderr: null })
    for (let text = this.#stderr.piece(); text !== null; text = this.#stderr.piece())
      drafts.push({ exit_code: null, stdout: null, stderr: text })
    return drafts
  }

  /** What there is besides. */
  rest(): OutputDraft {
    return { exit_code: null, stdout: this.#stdout.rest(), stderr: this.#stderr.rest() }
  }

  /** Nothing more comes: what was held back is let go. */
  end(): void {
    this.#stdout.end()
    this.#stderr.end()
  }
}

class OutputText {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #mask: ReturnType<Secrets['stream']>
  #text = ''

  constructor(secrets: Secrets) {
    this.#mask = secrets.stream()
  }

  get length(): number {
    return this.#text.length
  }

  add(bytes: Buffer): void {
    this.#text += this.#mask.add(this.#decoder.decode(bytes, { stream: true }))
  }

  end(): void {
    this.#text += this.#mask.add(this.#decoder.decode()) + this.#mask.end()
  }

  /** Null while a piece is not full. */
  piece(): string | null {
    return this.#text.length < maxPieceChars ? null : this.#take(maxPieceChars)
  }

  rest(): string | null {
    return this.#text === '' ? null : this.#take(this.#text.length)
  }

  #take(length: number): string {
    // A pair of surrogates stays together.
    const end = /[\ud800-\udbff]/.test(this.#text.charAt(length - 1)) ? length - 1 : length
    const piece = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return piece
  }
}
