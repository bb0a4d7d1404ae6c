import { createInterface, type Interface } from 'node:readline'
import { questionLines } from '../output/question.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { addToHistory } from './input/history.ts'
import { alwaysPattern } from './pending-text.ts'
import { LineBuffer } from './screen/line-buffer.ts'
import type { AskedActions, Session, SessionScreen } from './session.ts'
import { runSlashCommand } from './slash-commands.ts'

interface PlainSessionOptions {
  /** Where the history is kept. */
  readonly dataDirectory: string
  readonly signal: AbortSignal
}

const help = `Type a message and press Enter. A backslash at the end continues it on the next line.
/interrupt stops the run, /help lists the other commands, Ctrl-D leaves.
`

/**
 * A session for screen readers and for terminals without cursor movement: whole lines are printed once and
 * never drawn again, and a line of input is a message, a command, or the answer to a question.
 */
export class PlainSession implements SessionScreen {
  readonly #options: PlainSessionOptions
  readonly #output = new LineBuffer()
  readonly #done = Promise.withResolvers<void>()
  #input: Interface | undefined
  #session: Session | undefined
  /** Lines of a message whose next line is awaited. */
  #lines: string[] = []
  #said = ''
  /** What the last question was about. */
  #asked: AskedActions | undefined

  constructor(options: PlainSessionOptions) {
    this.#options = options
  }

  get columns(): number {
    return process.stdout.columns || 80
  }

  print(text: string): void {
    const lines = this.#output.push(text)
    if (lines !== '') process.stdout.write(lines)
    this.update()
  }

  /** Says what has changed, once. */
  update(): void {
    const session = this.#session
    if (session === undefined) return
    const line = session.connection || this.#question(session)
    if (line === this.#said) return
    this.#said = line
    if (line !== '') process.stdout.write(`${line}\n`)
  }

  notify(text: string): void {
    process.stdout.write(`${text}\n`)
  }

  /** Runs until the user leaves or the signal aborts. */
  async run(session: Session): Promise<void> {
    this.#session = session
    process.stdout.write(help)
    this.#listen()
    process.on('SIGHUP', () => this.close())
    this.#options.signal.addEventListener('abort', () => this.close(), { once: true })
    try {
      await this.#done.promise
    } finally {
      this.#input?.close()
      process.stdin.pause()
    }
  }

  close(): void {
    this.#done.resolve()
  }

  /** Lets other prompts use the terminal. */
  async suspend(work: () => Promise<void>): Promise<void> {
    const input = this.#input
    this.#input = undefined
    input?.close()
    try {
      await work()
    } finally {
      this.#listen()
    }
  }

  #listen(): void {
    // Not as a terminal: the line discipline edits the line, and nothing is drawn.
    const input = createInterface({ input: process.stdin, terminal: false })
    this.#input = input
    input.on('line', (line) => this.#onLine(line))
    input.on('close', () => this.#input === input && this.close())
  }

  #question(session: Session): string {
    const { pending } = session
    if (session.status !== 'waiting_for_confirmation') return ''
    if (pending.length === 0) return 'The repository brings hooks or agents: decide with "slipway trust".'
    const always = alwaysPattern(pending)
    this.#asked = session.asked
    return [
      'Allow this?',
      ...pending.flatMap((action) => questionLines(action)).map((line) => `  ${line}`),
      'Answer y for yes, n and a reason for no, or s to refuse and stop.',
      ...(always === undefined ? [] : [`Answer a to allow always: ${sanitizeLine(always)}`]),
    ].join('\n')
  }

  #onLine(line: string): void {
    if (line.endsWith('\\')) {
      this.#lines.push(line.slice(0, -1))
      return
    }
    const message = [...this.#lines, line].join('\n').trim()
    this.#lines = []
    const session = this.#session
    if (session === undefined || message === '' || this.#answer(session, message)) return
    if (message === '/interrupt') this.#do(() => session.interrupt())
    else if (message.startsWith('/')) this.#do(() => runSlashCommand(message, { session, terminal: this }))
    else {
      addToHistory(this.#options.dataDirectory, message).catch(() => {})
      if (session.isRunning) this.notify('Queued until the run has ended.')
      this.#do(() => session.send(message))
    }
  }

  /** Whether the line was an answer to the question. */
  #answer(session: Session, line: string): boolean {
    if (session.pending.length === 0) return false
    const [, word, reason = ''] = /^(y|n|s|a)(?:\s+([\s\S]*))?$/i.exec(line) ?? []
    const always = alwaysPattern(session.pending)
    const asked = this.#asked ?? session.asked
    switch (word?.toLowerCase()) {
      case 'y':
        this.#do(() => session.answer(true, { asked }))
        return true
      case 's':
        this.#do(() => session.answer(false, { asked }))
        return true
      case 'n':
        this.#do(() => session.answer(false, { reason: reason || 'Not now.', asked }))
        return true
      case 'a':
        if (always !== undefined) this.#do(() => session.allowAlways(always, asked))
        return always !== undefined
      default:
        return false
    }
  }

  #do(work: () => Promise<unknown>): void {
    work().catch((error: Error) => this.notify(`Failed: ${sanitizeLine(error.message)}`))
  }
}
