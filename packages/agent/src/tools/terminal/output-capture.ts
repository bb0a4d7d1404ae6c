import { randomBytes } from 'node:crypto'
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs'
import { join } from 'node:path'
import { countOccurrences, isInSurrogatePair } from '../core/truncate.ts'

export interface CapturedOutput {
  /** Masked, at most `maxChars`: when there was more, a line in its middle says what is missing and where it is. */
  readonly text: string
  /** The file with more of the output than `text` has. */
  readonly savedTo: string | undefined
}

export interface OutputCaptureOptions {
  /** Where a long output is written; made when it is needed. */
  readonly directory: string
  /** Characters for the model. */
  readonly maxChars: number
  /** Bytes in a file; what comes after is counted and dropped, but its end is still shown. */
  readonly maxFileBytes: number
  /** Takes secrets out of a text. */
  readonly redact: (text: string) => string
  /** Called with true when output comes faster than the disk takes it, with false when it may go on. */
  readonly onBackpressure: (isFull: boolean) => void
}

/** Output is masked and passed on in blocks of this many characters ... */
const blockChars = 262_144
/** ... and this many are held back, so that no secret of up to this length is cut in two. */
const overlapChars = 65_536
/** Kept free in the middle for the notice. */
const noticeChars = 600

/**
 * The output of one command, of any length, in little memory: its head and its tail are kept, and once it is too long for
 * the model the whole of it goes to a file, masked.
 */
export class OutputCapture {
  readonly #options: OutputCaptureOptions
  readonly #halfChars: number
  /** Not masked yet. */
  #pending = ''
  #head = ''
  #tail = ''
  /** Characters that went through, after masking. */
  #length = 0
  #file: { readonly path: string; readonly stream: WriteStream } | undefined
  /** Bytes for the file, also those that it has no room for. */
  #written = 0
  #isFailed = false

  constructor(options: OutputCaptureOptions) {
    this.#options = options
    this.#halfChars = Math.floor((options.maxChars - noticeChars) / 2)
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

  /** What was captured; nothing can be written any more. */
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
    const headRoom = this.#halfChars - this.#head.length
    if (headRoom > 0) this.#head += text.slice(0, headRoom)
    // Sliced texts hold on to the whole they come from: what is kept is made anew.
    if (text.length > headRoom)
      this.#tail = Buffer.from(
        (this.#tail + text.slice(Math.max(0, headRoom))).slice(-this.#halfChars),
      ).toString()
  }

  #openFile(): void {
    const { directory, onBackpressure } = this.#options
    const path = join(directory, `terminal_output_${randomBytes(4).toString('hex')}.txt`)
    try {
      mkdirSync(directory, { recursive: true })
    } catch {
      this.#isFailed = true
      return
    }
    const stream = createWriteStream(path, { flags: 'wx', mode: 0o600 })
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

  /** The file's path when it holds what was written. */
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
    // Masking can make a long output short.
    if (this.#length === this.#head.length + this.#tail.length) return this.#head + this.#tail
    const head = this.#head.replace(/[\ud800-\udbff]$/, '')
    const tail = this.#tail.replace(/^[\udc00-\udfff\ufffd]/, '')
    const line = countOccurrences(head, '\n') + 1
    const omission = `${this.#length - head.length - tail.length} characters left out`
    const { maxFileBytes } = this.#options
    const extent =
      this.#written > maxFileBytes ? `beginning of the output (${maxFileBytes} bytes)` : 'whole output'
    const notice =
      savedTo === undefined
        ? `[${omission}, from line ${line}.]`
        : `[${omission}. The ${extent} is in ${savedTo}: read on there from line ${line}.]`
    return `${head}${head.endsWith('\n') ? '' : '\n'}${notice}\n${tail}`
  }
}

/**
 * A place at or before `at` where a text can be cut so that masking the parts gives what masking the whole gives; the
 * whole length when none is found near.
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
