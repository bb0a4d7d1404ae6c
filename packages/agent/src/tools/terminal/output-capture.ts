import { randomBytes } from 'node:crypto'
import type { WriteStream } from 'node:fs'
import { join } from 'node:path'
import { isInSurrogatePair } from '@slipway/shared/text'
import { createPrivateStream } from '@slipway/shared/tool-files'
import { countOccurrences } from '../core/truncate.ts'
import { FailureLines } from './failure-lines.ts'

interface CapturedOutput {
  /**
   * Redacted, at most `maxChars`; a longer output has a notice in its middle, and begins with the lines of
   * what is left out that name failures.
   */
  readonly text: string
  /** The file with the output that `text` omits. */
  readonly savedTo: string | undefined
}

export interface OutputCaptureOptions {
  /** Directory for long outputs; created when needed. */
  readonly directory: string
  /** Characters for the model. */
  readonly maxChars: number
  /** Bytes of a file; later output is counted and dropped, but its end is shown. */
  readonly maxFileBytes: number
  readonly redact: (text: string) => string
  /** Called with true when output comes faster than it is written, with false when it may continue. */
  readonly onBackpressure: (isFull: boolean) => void
}

/** Output is redacted in blocks of this many characters ... */
const blockChars = 262_144
/** ... of which this many are held back, so that no secret up to this length is split. */
const overlapChars = 65_536
/** Reserved for the notice. */
const noticeChars = 600
/** The part of the text that lines which name failures may take, from head and tail. */
const failureShare = 1 / 5
const failureHeading = '[Lines of the part that is left out below, which name failures, with their numbers:]'

/**
 * Captures the output of one command, of any length, in bounded memory: head and tail, and, once it is too
 * long for the model, all of it in a file, redacted.
 */
export class OutputCapture {
  readonly #options: OutputCaptureOptions
  readonly #halfChars: number
  /** Taken from the head, and from the tail, when lines of failures are shown. */
  readonly #failureChars: number
  readonly #failures: FailureLines
  /** Not redacted yet. */
  #pending = ''
  #head = ''
  #tail = ''
  /** Number of redacted characters. */
  #length = 0
  #file: { readonly path: string; readonly stream: WriteStream } | undefined
  /** Bytes for the file, dropped ones included. */
  #written = 0
  #isFailed = false

  constructor(options: OutputCaptureOptions) {
    this.#options = options
    this.#halfChars = Math.floor((options.maxChars - noticeChars) / 2)
    this.#failureChars = Math.floor(this.#halfChars * failureShare)
    this.#failures = new FailureLines({
      fromOffset: this.#halfChars - this.#failureChars,
      maxChars: 2 * this.#failureChars - failureHeading.length - 2,
    })
  }

  get isEmpty(): boolean {
    return this.#length === 0 && this.#pending === ''
  }

  write(text: string): void {
    this.#pending += text
    if (this.#pending.length < blockChars) return
    const cut = findSafeCut(this.#pending, this.#pending.length - overlapChars, this.#options.redact)
    const ready = this.#options.redact(this.#pending.slice(0, cut))
    this.#pending = this.#pending.slice(cut)
    this.#append(ready)
  }

  /** Ends the capture; nothing can be written afterwards. */
  async end(): Promise<CapturedOutput> {
    const { redact, maxChars } = this.#options
    const last = redact(this.#pending)
    this.#pending = ''
    if (this.#length === 0 && last.length <= maxChars) return { text: last, savedTo: undefined }
    this.#append(last)
    const savedTo = await this.#closeFile()
    return { text: this.#excerpt(savedTo), savedTo }
  }

  #append(text: string): void {
    if (this.#file === undefined && !this.#isFailed) this.#openFile()
    this.#writeFile(text)
    this.#length += text.length
    this.#failures.write(text)
    const headRoom = this.#halfChars - this.#head.length
    if (headRoom > 0) this.#head += text.slice(0, headRoom)
    // Copied, because a slice holds the whole text in memory.
    if (text.length > headRoom)
      this.#tail = Buffer.from(
        (this.#tail + text.slice(Math.max(0, headRoom))).slice(-this.#halfChars),
      ).toString()
  }

  #openFile(): void {
    const { directory, onBackpressure } = this.#options
    const path = join(directory, `terminal_output_${randomBytes(4).toString('hex')}.txt`)
    const stream = createPrivateStream(path)
    stream.on('drain', () => onBackpressure(false))
    stream.on('error', () => {
      this.#isFailed = true
      onBackpressure(false)
    })
    this.#file = { path, stream }
  }

  #writeFile(text: string): void {
    const { maxFileBytes, onBackpressure } = this.#options
    if (this.#file === undefined || this.#isFailed) return
    const bytes = Buffer.from(text)
    const fileRoom = maxFileBytes - this.#written
    this.#written += bytes.length
    if (fileRoom > 0 && !this.#file.stream.write(bytes.subarray(0, fileRoom))) onBackpressure(true)
  }

  /** The path of a completely written file. */
  async #closeFile(): Promise<string | undefined> {
    const file = this.#file
    if (file === undefined || this.#isFailed) return undefined
    await new Promise<void>((done) => {
      if (file.stream.closed) return done()
      file.stream.once('close', done)
      file.stream.end()
    })
    this.#options.onBackpressure(false)
    return this.#isFailed ? undefined : file.path
  }

  #excerpt(savedTo: string | undefined): string {
    // Redaction can shorten the output.
    if (this.#length === this.#head.length + this.#tail.length) return this.#head + this.#tail
    const shownTail = this.#halfChars - this.#failureChars
    const failures = this.#failures.before(this.#length - shownTail)
    const hasFailures = failures.length > 0
    const head = (hasFailures ? this.#head.slice(0, shownTail) : this.#head).replace(/[\ud800-\udbff]$/, '')
    const tail = (hasFailures ? this.#tail.slice(-shownTail) : this.#tail).replace(
      /^[\udc00-\udfff\ufffd]/,
      '',
    )
    const line = countOccurrences(head, '\n') + 1
    const omission = `${this.#length - head.length - tail.length} characters left out`
    const { maxFileBytes } = this.#options
    const extent =
      this.#written > maxFileBytes ? `beginning of the output (${maxFileBytes} bytes)` : 'whole output'
    const notice =
      savedTo === undefined
        ? `[${omission}, from line ${line}.]`
        : `[${omission}. The ${extent} is in ${savedTo}: read on there from line ${line}.]`
    const first = hasFailures ? `${[failureHeading, ...failures].join('\n')}\n\n` : ''
    return `${first}${head}${head.endsWith('\n') ? '' : '\n'}${notice}\n${tail}`
  }
}

/**
 * An index at or shortly before `limit` at which splitting does not change the result of redaction; the
 * length of the text when there is none.
 */
export function findSafeCut(text: string, limit: number, redact: (text: string) => string): number {
  const isSafe = (cut: number): boolean => {
    const before = text.slice(Math.max(0, cut - overlapChars), cut)
    const after = text.slice(cut, cut + overlapChars)
    return redact(before) + redact(after) === redact(before + after)
  }
  const steps = [...Array(64).keys(), ...Array.from({ length: 10 }, (_, power) => 64 << power)]
  for (const step of steps) {
    const cut = limit - step
    if (cut <= 0) break
    if (!isInSurrogatePair(text, cut) && isSafe(cut)) return cut
  }
  return text.length
}
