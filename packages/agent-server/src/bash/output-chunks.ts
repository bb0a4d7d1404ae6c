import type { Secrets } from '@slipway/agent'
import type { BashOutputDraft } from './event-store.ts'

/** Characters of one stream in one piece. */
const maxChunkChars = 1024 * 1024

/** The output of one command on its way from bytes to pieces: UTF-8 that is cut anywhere, without the values of secrets. */
export class OutputChunks {
  readonly #stdout: RedactedStream
  readonly #stderr: RedactedStream

  constructor(secrets: Secrets) {
    this.#stdout = new RedactedStream(secrets)
    this.#stderr = new RedactedStream(secrets)
  }

  get isEmpty(): boolean {
    return this.#stdout.length === 0 && this.#stderr.length === 0
  }

  add(stream: 'stdout' | 'stderr', bytes: Buffer): void {
    if (stream === 'stdout') this.#stdout.add(bytes)
    else this.#stderr.add(bytes)
  }

  /** Pieces that are full. */
  takeFull(): BashOutputDraft[] {
    const drafts: BashOutputDraft[] = []
    for (let text = this.#stdout.takeChunk(); text !== null; text = this.#stdout.takeChunk())
      drafts.push({ exit_code: null, stdout: text, stderr: null })
    for (let text = this.#stderr.takeChunk(); text !== null; text = this.#stderr.takeChunk())
      drafts.push({ exit_code: null, stdout: null, stderr: text })
    return drafts
  }

  /** The rest, shorter than a full piece. */
  takeRest(): BashOutputDraft {
    return { exit_code: null, stdout: this.#stdout.takeRest(), stderr: this.#stderr.takeRest() }
  }

  /** Ends the input: releases the text that redaction held back. */
  end(): void {
    this.#stdout.end()
    this.#stderr.end()
  }
}

class RedactedStream {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #redactor: ReturnType<Secrets['stream']>
  #text = ''

  constructor(secrets: Secrets) {
    this.#redactor = secrets.stream()
  }

  get length(): number {
    return this.#text.length
  }

  add(bytes: Buffer): void {
    this.#text += this.#redactor.add(this.#decoder.decode(bytes, { stream: true }))
  }

  end(): void {
    this.#text += this.#redactor.add(this.#decoder.decode()) + this.#redactor.end()
  }

  /** Null while a piece is not full. */
  takeChunk(): string | null {
    return this.#text.length < maxChunkChars ? null : this.#take(maxChunkChars)
  }

  takeRest(): string | null {
    return this.#text === '' ? null : this.#take(this.#text.length)
  }

  #take(length: number): string {
    // A pair of surrogates stays together.
    const end = /[\ud800-\udbff]/.test(this.#text.charAt(length - 1)) ? length - 1 : length
    const chunk = this.#text.slice(0, end)
    this.#text = this.#text.slice(end)
    return chunk
  }
}
