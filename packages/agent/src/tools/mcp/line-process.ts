import { lastChars } from '@slipway/shared/text'
import { killProcessGroup } from '../../workspace/processes.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import { valueWithin } from '../core/value-within.ts'

type Process = ReturnType<Workspace['spawn']>

/** Characters. A server that sends a longer line is ended. */
const maxLineChars = 32 * 1024 * 1024
const maxStderrChars = 4096
const maxStrayChars = 1000
/** Time for a server to end after the end of its input, and again after SIGTERM. */
const graceMs = 1000

/** A process that exchanges lines over its standard streams. */
export class LineProcess {
  /** Why the process ended; undefined while it runs. */
  endReason: string | undefined
  readonly #process: Process
  readonly #ended = Promise.withResolvers<void>()
  /** Resolves when the process has ended; never rejects. */
  readonly ended = this.#ended.promise
  #stderr = ''
  #stray = ''
  #isClosing = false
  #isClosed = false
  #lineParts: string[] = []
  #lineLength = 0
  #onLine: (line: string) => void = () => {}

  constructor(process: Process) {
    this.#process = process
    process.stdout.setEncoding('utf8').on('data', (text: string) => this.#splitLines(text))
    process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = lastChars(this.#stderr + lastChars(text, maxStderrChars), maxStderrChars)
    })
    // A write after the end of the process is lost; `exit` reports the end.
    process.stdin.on('error', () => {})
    process.once('error', (error) => this.#finish(`it could not be started: ${error.message}`))
    process.once('exit', (code, signal) => {
      const reason = signal === null ? `it exited with ${code}` : `it was ended by ${signal}`
      // Background processes may hold its streams open; wait for its last output.
      setTimeout(() => this.#finish(reason), 200).unref()
      process.once('close', () => this.#finish(reason))
    })
    process.once('close', () => {
      this.#isClosed = true
    })
  }

  /** Called with each further line, without its line end. */
  setListener(onLine: (line: string) => void): void {
    this.#onLine = onLine
  }

  /** Keeps a line that was no message. */
  addStray(line: string): void {
    this.#stray = lastChars(`${this.#stray}${lastChars(line, maxStrayChars)}\n`, maxStrayChars)
  }

  /** The end of its standard error; without any, of the lines that were no messages. */
  get lastOutput(): string {
    return this.#stderr.trim() || this.#stray.trim()
  }

  /** Resolves when the line is written, or the process has ended. */
  async write(line: string): Promise<void> {
    const written = new Promise<void>((done) => this.#process.stdin.write(`${line}\n`, () => done()))
    await Promise.race([written, this.ended])
  }

  /** Ends the process and its process group. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#process.stdin.end()
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await valueWithin(graceMs, this.ended)
      // The id of an empty process group may be reused.
      if (!this.#isClosed) killProcessGroup(this.#process.pid, signal)
    }
    await this.ended
  }

  #splitLines(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      const line = this.#lineParts.join('') + text.slice(from, end)
      this.#lineParts = []
      this.#lineLength = 0
      from = end + 1
      this.#onLine(line)
    }
    this.#lineLength += text.length - from
    if (from < text.length) this.#lineParts.push(text.slice(from))
    if (this.#lineLength <= maxLineChars) return
    this.#lineParts = []
    this.#lineLength = 0
    this.#finish(`it sent a line of more than ${maxLineChars} characters`)
    killProcessGroup(this.#process.pid)
  }

  #finish(reason: string): void {
    this.endReason ??= this.#isClosing ? 'it was closed' : reason
    this.#onLine = () => {}
    this.#ended.resolve()
  }
}
