import type { Secrets } from '@slipway/agent'
import type { BashOutputDraft } from './event-store.ts'

/** Characters of one stream in one piece. */
const maxChunkChars = 1024 * 1024

/** Decodes and redacts the output of one command and splits it into pieces. */
export class OutputChunks {
  readonly #streams: Readonly<Record<'stdout' | 'stderr', RedactedStream>>

  constructor(secrets: Secrets) {
    this.#streams = { stdout: new RedactedStream(secrets), stderr: new RedactedStream(secrets) }
  }

  get isEmpty(): boolean {
    return Object.values(this.#streams).every(({ length }) => length === 0)
  }

  add(stream: 'stdout' | 'stderr', bytes: Buffer): void {
    this.#streams[stream].add(bytes)
  }

  takeFull(): BashOutputDraft[] {
    const none = { exit_code: null, stdout: null, stderr: null }
    return Object.entries(this.#streams).flatMap(([name, stream]) =>
      [...stream.takeChunks()].map((text) => ({ ...none, [name]: text })),
    )
  }

  /** The rest, shorter than a full piece. */
  takeRest(): BashOutputDraft {
    const { stdout, stderr } = this.#streams
    return { exit_code: null, stdout: stdout.takeRest(), stderr: stderr.takeRest() }
  }

  /** Ends the input: releases the text that redaction held back. */
  end(): void {
    for (const stream of Object.values(this.#streams)) stream.end()
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

  *takeChunks(): Generator<string> {
    while (this.#text.length >= maxChunkChars) yield this.#take(maxChunkChars)
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
