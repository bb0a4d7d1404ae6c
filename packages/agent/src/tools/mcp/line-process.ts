import { setTimeout as delay } from 'node:timers/promises'
import { killGroup, type Workspace } from '../../workspace/workspace.ts'

type Process = ReturnType<Workspace['spawn']>

/** Characters. A server that sends a longer line is ended: its answer would not fit anywhere. */
const maxLine = 32 * 1024 * 1024
const maxStderr = 4096
/** For a server to end by itself when its input ends, and then once more when it is asked to. */
const graceMs = 1000

/** A process that speaks in lines over its standard streams. */
export class LineProcess {
  readonly #process: Process
  readonly #ended = Promise.withResolvers<void>()
  #stderr = ''
  #reason: string | undefined
  #isGone = false
  #pieces: string[] = []
  #length = 0
  #onLine: (line: string) => void = () => {}

  constructor(process: Process) {
    this.#process = process
    process.stdout.setEncoding('utf8').on('data', (text: string) => this.#take(text))
    process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text.slice(-maxStderr)).slice(-maxStderr)
    })
    // What was written when the process had ended already is lost; its end is told by its exit.
    process.stdin.on('error', () => {})
    process.once('error', (error) => this.#end(`it could not be started: ${error.message}`))
    process.once('exit', (code, signal) => {
      const reason = signal === null ? `it exited with ${code}` : `it was ended by ${signal}`
      // What it left running may hold its streams open; what it said last still comes in.
      setTimeout(() => this.#end(reason), 200).unref()
      process.once('close', () => this.#end(reason))
    })
    process.once('close', () => {
      this.#isGone = true
    })
  }

  /** Tells each line without its end, from now on; what came before is lost. */
  listen(onLine: (line: string) => void): void {
    this.#onLine = onLine
  }

  /** Resolves when the process is over; never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /** Why the process ended; undefined while it runs. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** The last that it wrote to its standard error. */
  get stderr(): string {
    return this.#stderr.trim()
  }

  /** Resolves when the process has taken the line, or when it is over. */
  async write(line: string): Promise<void> {
    const taken = new Promise<void>((done) => this.#process.stdin.write(`${line}\n`, () => done()))
    await Promise.race([taken, this.#ended.promise])
  }

  /** Ends the process and all that it started. */
  async close(): Promise<void> {
    this.#process.stdin.end()
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await Promise.race([this.#ended.promise, delay(graceMs, undefined, { ref: false })])
      // The number of a group of which nobody is left may be another's by now.
      if (!this.#isGone) killGroup(this.#process.pid, signal)
    }
    await this.#ended.promise
  }

  #take(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      this.#pieces.push(text.slice(from, end))
      const line = this.#pieces.join('')
      this.#pieces = []
      this.#length = 0
      from = end + 1
      this.#onLine(line)
    }
    this.#length += text.length - from
    if (from < text.length) this.#pieces.push(text.slice(from))
    if (this.#length <= maxLine) return
    this.#pieces = []
    this.#length = 0
    this.#end(`it sent a line of more than ${maxLine} characters`)
    killGroup(this.#process.pid)
  }

  #end(reason: string): void {
    this.#reason ??= reason
    this.#onLine = () => {}
    this.#ended.resolve()
  }
}
