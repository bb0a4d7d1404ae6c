import { randomBytes } from 'node:crypto'
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs'
import { join } from 'node:path'
import { countOf } from '../core/truncate.ts'

export interface Captured {
  /** Masked, at most `maxChars`: when there was more, a line in its middle says what is missing and where it is. */
  readonly text: string
  /** The file with more of the output than `text` has. */
  readonly savedTo: string | undefined
}

export interface CaptureOptions {
  /** Where a long output is written; made when it is needed. */
  readonly directory: string
  /** Characters for the model. */
  readonly maxChars: number
  /** Bytes in a file; what comes after is counted and dropped, but its end is still shown. */
  readonly maxFileBytes: number
  /** Takes secrets out of a text. */
  readonly mask: (text: string) => string
  /** Called with true when output comes faster than the disk takes it, with false when it may go on. */
  readonly onFull: (isFull: boolean) => void
}

/** Output is masked and passed on in blocks of this many characters ... */
const block = 262_144
/** ... and this many are held back, so that no secret of up to this length is cut in two. */
const overlap = 65_536
/** Kept free in the middle for the notice. */
const noticeRoom = 600

/**
 * The output of one command, of any length, in little memory: its head and its tail are kept, and once it is too long for
 * the model the whole of it goes to a file, masked.
 */
export class Capture {
  readonly #options: CaptureOptions
  readonly #half: number
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

  constructor(options: CaptureOptions) {
    this.#options = options
    this.#half = Math.floor((options.maxChars - noticeRoom) / 2)
  }

  get isEmpty(): boolean {
    return this.#length === 0 && this.#pending === ''
  }

  write(text: string): void {
    this.#pending += text
    if (this.#pending.length < block) return
    const cut = safeCut(this.#pending, this.#pending.length - overlap, this.#options.mask)
    const ready = this.#options.mask(this.#pending.slice(0, cut))
    this.#pending = this.#pending.slice(cut)
    this.#pass(ready)
  }

  /** What was captured; nothing can be written any more. */
  async end(): Promise<Captured> {
    const { mask, maxChars } = this.#options
    const last = mask(this.#pending)
    this.#pending = ''
    if (this.#length === 0 && last.length <= maxChars) return { text: last, savedTo: undefined }
    this.#pass(last)
    const savedTo = await this.#close()
    return { text: this.#cut(savedTo), savedTo }
  }

  #pass(text: string): void {
    if (this.#file === undefined && !this.#isFailed) this.#open()
    this.#save(text)
    this.#length += text.length
    const room = this.#half - this.#head.length
    if (room > 0) this.#head += text.slice(0, room)
    // Sliced texts hold on to the whole they come from: what is kept is made anew.
    if (text.length > room)
      this.#tail = Buffer.from((this.#tail + text.slice(Math.max(0, room))).slice(-this.#half)).toString()
  }

  #open(): void {
    const { directory, onFull } = this.#options
    const path = join(directory, `terminal_output_${randomBytes(4).toString('hex')}.txt`)
    try {
      mkdirSync(directory, { recursive: true })
    } catch {
      this.#isFailed = true
      return
    }
    const stream = createWriteStream(path, { flags: 'wx', mode: 0o600 })
    stream.on('drain', () => onFull(false))
    stream.on('error', () => {
      this.#isFailed = true
      onFull(false)
    })
    this.#file = { path, stream }
  }

  #save(text: string): void {
    const { maxFileBytes, onFull } = this.#options
    if (this.#file === undefined || this.#isFailed) return
    const bytes = Buffer.from(text)
    const room = maxFileBytes - this.#written
    this.#written += bytes.length
    if (room > 0 && !this.#file.stream.write(bytes.subarray(0, room))) onFull(true)
  }

  /** The file's path when it holds what was written. */
  async #close(): Promise<string | undefined> {
    const file = this.#file
    if (file === undefined || this.#isFailed) return undefined
    await new Promise<void>((done) => {
      if (file.stream.closed) return done()
      file.stream.once('close', done)
      file.stream.end()
    })
    this.#options.onFull(false)
    return this.#isFailed ? undefined : file.path
  }

  #cut(savedTo: string | undefined): string {
    // Masking can make a long output short.
    if (this.#length === this.#head.length + this.#tail.length) return this.#head + this.#tail
    const head = this.#head.replace(/[\ud800-\udbff]$/, '')
    const tail = this.#tail.replace(/^[\udc00-\udfff\ufffd]/, '')
    const line = countOf(head, '\n') + 1
    const left = `${this.#length - head.length - tail.length} characters left out`
    const { maxFileBytes } = this.#options
    const extent =
      this.#written > maxFileBytes ? `beginning of the output (${maxFileBytes} bytes)` : 'whole output'
    const notice =
      savedTo === undefined
        ? `[${left}, from line ${line}.]`
        : `[${left}. The ${extent} is in ${savedTo}: read on there from line ${line}.]`
    return `${head}${head.endsWith('\n') ? '' : '\n'}${notice}\n${tail}`
  }
}

/**
 * A place at or before `at` where a text can be cut so that masking the parts gives what masking the whole gives; the
 * whole length when none is found near.
 */
export function safeCut(text: string, at: number, mask: (text: string) => string): number {
  const isSafe = (cut: number): boolean => {
    const before = text.slice(Math.max(0, cut - overlap), cut)
    const after = text.slice(cut, cut + overlap)
    return mask(before) + mask(after) === mask(before + after)
  }
  const steps = [...Array(64).keys(), ...Array.from({ length: 10 }, (_, power) => 64 << power)]
  for (const step of steps) {
    const cut = at - step
    if (cut <= 0) break
    const isInPair = /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(cut - 1, cut + 1))
    if (!isInPair && isSafe(cut)) return cut
  }
  return text.length
}
